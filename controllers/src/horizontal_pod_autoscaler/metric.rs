//! Evaluation of one entry of `spec.metrics`, and its status. Pure; texts are upstream's.

use super::calculate::{Proposal, Target, TargetValue, by_pods, by_share, by_total};
use super::pods;
use super::sample::{Reading, Samples};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus, MetricIdentifier, MetricSpec,
    MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource,
    PodsMetricStatus, ResourceMetricStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kstore_api::quantity;

/// Result of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Evaluated {
    pub replicas: i32,
    /// Name of the metric in conditions and events.
    pub name: String,
    pub status: MetricStatus,
}

/// Failure of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricError {
    /// Reason of the event and of the condition.
    pub reason: &'static str,
    /// Message of the event, and most of the condition's.
    pub message: String,
    /// Error text in the list of all failures.
    pub error: String,
}

type Outcome = Result<Evaluated, MetricError>;

/// Evaluates a metric from its reading.
pub(crate) fn evaluate(
    spec: &MetricSpec,
    reading: &Reading,
    target: Target<'_>,
    namespace: &str,
    now: Timestamp,
) -> Outcome {
    match (&spec.resource, &spec.container_resource, &spec.pods, &spec.object, &spec.external) {
        (Some(source), ..) if spec.type_ == "Resource" => {
            let about = Resource { name: &source.name, container: None, goal: &source.target };
            about.evaluate(samples(reading), target, now)
        }
        (_, Some(source), ..) if spec.type_ == "ContainerResource" => {
            let container = Some(&*source.container);
            let about = Resource { name: &source.name, container, goal: &source.target };
            about.evaluate(samples(reading), target, now)
        }
        (_, _, Some(source), ..) if spec.type_ == "Pods" => of_pods(source, samples(reading), target, now)
            .map_err(|message| MetricError {
                reason: "FailedGetPodsMetric",
                error: format!("failed to get pods metric value: {message}"),
                message,
            }),
        (_, _, _, Some(source), _) if spec.type_ == "Object" => {
            of_object(source, total(reading), target, namespace).map_err(|message| MetricError {
                reason: "FailedGetObjectMetric",
                error: format!("failed to get object metric value: {message}"),
                message,
            })
        }
        (.., Some(source)) if spec.type_ == "External" => {
            of_external(source, total(reading), target, namespace).map_err(|message| MetricError {
                reason: "FailedGetExternalMetric",
                error: format!(
                    "failed to get {} external metric value: failed to get {0} external metric: {message}",
                    source.metric.name
                ),
                message,
            })
        }
        _ => {
            let message = format!("unknown metric source type {:?}", spec.type_);
            Err(MetricError { reason: "InvalidMetricSourceType", error: message.clone(), message })
        }
    }
}

fn samples(reading: &Reading) -> Result<&Samples, &str> {
    match reading {
        Reading::Pods(read) => read.as_ref().map_err(String::as_str),
        Reading::Total(_) => Err("the metric was read as one of an object"),
    }
}

fn total(reading: &Reading) -> Result<i64, &str> {
    match reading {
        Reading::Total(read) => read.as_ref().copied().map_err(String::as_str),
        Reading::Pods(_) => Err("the metric was read as one of pods"),
    }
}

fn milli(quantity: &Quantity) -> i64 {
    quantity::Quantity::parse(&quantity.0).map(quantity::Quantity::milli).unwrap_or_default()
}

fn quantity_of(milli: i64) -> Option<Quantity> {
    Some(Quantity(quantity::Quantity::from_milli(milli).to_string()))
}

fn average(milli: i64) -> MetricValueStatus {
    MetricValueStatus { average_value: quantity_of(milli), ..MetricValueStatus::default() }
}

fn value(milli: i64) -> MetricValueStatus {
    MetricValueStatus { value: quantity_of(milli), ..MetricValueStatus::default() }
}

/// A resource metric of whole pods or of one container in each.
struct Resource<'a> {
    name: &'a str,
    container: Option<&'a str>,
    goal: &'a MetricTarget,
}

impl Resource<'_> {
    fn evaluate(&self, samples: Result<&Samples, &str>, target: Target<'_>, now: Timestamp) -> Outcome {
        let (reason, kind) = match self.container {
            None => ("FailedGetResourceMetric", "resource metric"),
            Some(_) => ("FailedGetContainerResourceMetric", "container metric"),
        };
        let name = self.name;
        self.propose(samples, target, now).map_err(|message| MetricError {
            reason,
            error: format!("failed to get {name} {kind} value: {message}"),
            message,
        })
    }

    fn propose(
        &self,
        samples: Result<&Samples, &str>,
        target: Target<'_>,
        now: Timestamp,
    ) -> Result<Evaluated, String> {
        let name = self.name;
        let failed = |error: String| format!("failed to get {name} utilization: {error}");
        let read = || samples.map_err(|e| failed(format!("unable to get metrics for resource {name}: {e}")));
        let of = Some(name);
        if let Some(wanted) = &self.goal.average_value {
            let found =
                by_pods(target, read()?, &TargetValue::Average(milli(wanted)), of, now).map_err(failed)?;
            return Ok(self.shown(found, average(found.shown), format!("{name} resource")));
        }
        let Some(percent) = self.goal.average_utilization else {
            let message = "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set";
            return Err(message.to_owned());
        };
        let samples = read()?;
        let requests = pods::requests(target.pods, name, self.container).map_err(failed)?;
        let goal = TargetValue::Utilization { target: percent, requests };
        let found = by_pods(target, samples, &goal, of, now).map_err(failed)?;
        let current = MetricValueStatus {
            average_utilization: Some(i32::try_from(found.shown).unwrap_or(i32::MAX)),
            ..average(found.average)
        };
        Ok(self.shown(found, current, format!("{name} resource utilization (percentage of request)")))
    }

    fn shown(&self, found: Proposal, current: MetricValueStatus, named: String) -> Evaluated {
        let name = self.name.to_owned();
        let (status, name) = match self.container {
            None => {
                let resource = Some(ResourceMetricStatus { name, current });
                let status = MetricStatus { type_: "Resource".into(), resource, ..MetricStatus::default() };
                (status, named)
            }
            Some(container) => {
                let container_resource =
                    Some(ContainerResourceMetricStatus { name, container: container.into(), current });
                let type_ = "ContainerResource".into();
                let status = MetricStatus { type_, container_resource, ..MetricStatus::default() };
                (status, named.replacen("resource", "container resource", 1))
            }
        };
        Evaluated { replicas: found.replicas, name, status }
    }
}

fn of_pods(
    source: &PodsMetricSource,
    samples: Result<&Samples, &str>,
    target: Target<'_>,
    now: Timestamp,
) -> Result<Evaluated, String> {
    let name = &source.metric.name;
    let samples = samples.map_err(|error| format!("unable to get metric {name}: {error}"))?;
    let goal = TargetValue::Average(source.target.average_value.as_ref().map(milli).unwrap_or_default());
    let found = by_pods(target, samples, &goal, None, now)?;
    let pods = Some(PodsMetricStatus { metric: source.metric.clone(), current: average(found.shown) });
    let status = MetricStatus { type_: "Pods".into(), pods, ..MetricStatus::default() };
    Ok(Evaluated { replicas: found.replicas, name: format!("pods metric {name}"), status })
}

fn of_object(
    source: &ObjectMetricSource,
    total: Result<i64, &str>,
    target: Target<'_>,
    namespace: &str,
) -> Result<Evaluated, String> {
    let (name, object) = (&source.metric.name, &source.described_object);
    let failed = |error: &str| {
        format!("unable to get metric {name}: {} on {namespace} {}/{error}", object.kind, object.name)
    };
    let (found, current, named) = match (
        &*source.target.type_,
        &source.target.value,
        &source.target.average_value,
    ) {
        ("Value", Some(wanted), _) => {
            let found = by_total(target, total.map_err(failed)?, milli(wanted))?;
            (found, value(found.shown), format!("{} metric {name}", object.kind))
        }
        ("AverageValue", _, Some(wanted)) => {
            let total = total.map_err(|e| format!("failed to get {name} object metric: {}", failed(e)))?;
            let found = by_share(target, total, milli(wanted));
            (found, average(found.shown), external_name(&source.metric))
        }
        _ => {
            let message =
                "invalid object metric source: neither a value target nor an average value target was set";
            return Err(message.to_owned());
        }
    };
    let (metric, described_object) = (source.metric.clone(), object.clone());
    let object = Some(ObjectMetricStatus { metric, described_object, current });
    let status = MetricStatus { type_: "Object".into(), object, ..MetricStatus::default() };
    Ok(Evaluated { replicas: found.replicas, name: named, status })
}

fn of_external(
    source: &ExternalMetricSource,
    total: Result<i64, &str>,
    target: Target<'_>,
    namespace: &str,
) -> Result<Evaluated, String> {
    let metric = &source.metric;
    let total = || {
        let selector = selector_as_go(metric.selector.as_ref());
        total.map_err(|error| {
            format!("unable to get external metric {namespace}/{}/{selector}: {error}", metric.name)
        })
    };
    let (found, current) = match (&source.target.average_value, &source.target.value) {
        (Some(wanted), _) => {
            let found = by_share(target, total()?, milli(wanted));
            (found, average(found.shown))
        }
        (None, Some(wanted)) => {
            let found = by_total(target, total()?, milli(wanted))?;
            (found, value(found.shown))
        }
        (None, None) => {
            let message =
                "invalid external metric source: neither a value target nor an average value target was set";
            return Err(message.to_owned());
        }
    };
    let external = Some(ExternalMetricStatus { metric: metric.clone(), current });
    let status = MetricStatus { type_: "External".into(), external, ..MetricStatus::default() };
    Ok(Evaluated { replicas: found.replicas, name: external_name(metric), status })
}

/// Upstream also uses this name for object metrics with an average target.
fn external_name(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, selector_as_go(metric.selector.as_ref()))
}

/// A selector formatted as in Go, for upstream's messages.
fn selector_as_go(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: String =
        selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions = selector.match_expressions.iter().flatten().map(|one| {
        let values = one.values.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", one.key, one.operator)
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// A selector as a query parameter.
pub(crate) fn selector_text(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return String::new() };
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|one| {
        let values = one.values.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(",");
        match one.operator.as_str() {
            "In" => format!("{} in ({values})", one.key),
            "NotIn" => format!("{} notin ({values})", one.key),
            "DoesNotExist" => format!("!{}", one.key),
            _ => one.key.clone(),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}
