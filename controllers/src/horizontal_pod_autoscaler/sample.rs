//! Metric samples, and their decoding from responses of metrics.k8s.io, custom.metrics.k8s.io and
//! external.metrics.k8s.io. Pure. Values are in thousandths, as in upstream's calculations.

use jiff::Timestamp;
use kstore_api::lenient;
use kstore_api::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Default window in seconds of a sample from custom.metrics.k8s.io.
const CUSTOM_WINDOW: i64 = 60;

/// Usage of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The usage, in thousandths.
    pub value: i64,
    /// Time of the sample.
    pub at: Timestamp,
    /// Length of the time window of the sample.
    pub window: Duration,
}

/// Samples by pod name.
pub(crate) type Samples = BTreeMap<String, Sample>;

/// Response of the metrics APIs for one entry of `spec.metrics`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reading {
    /// Samples per pod.
    Pods(Result<Samples, String>),
    /// Value of one object, or the sum of an external metric.
    Total(Result<i64, String>),
}

/// An entry of a PodMetricsList.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PodMetrics {
    metadata: Name,
    timestamp: Option<Timestamp>,
    window: String,
    containers: Vec<ContainerMetrics>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerMetrics {
    name: String,
    usage: BTreeMap<String, String>,
}

/// An entry of a MetricValueList or an ExternalMetricValueList.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetricValue {
    described_object: Name,
    timestamp: Option<Timestamp>,
    window_seconds: Option<i64>,
    value: String,
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

fn items<T: serde::de::DeserializeOwned>(answer: &Value) -> Result<Vec<T>, String> {
    let list: List<T> = lenient::from_value(answer).map_err(|error| error.to_string())?;
    Ok(list.items)
}

fn milli(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().map(Quantity::milli)
}

/// Samples of a resource from a PodMetricsList: of whole pods, or of one named container. A pod in which a
/// container lacks a value has no sample.
///
/// # Errors
/// In upstream's words: no entry, or a pod without the container.
pub(crate) fn of_pods(answer: &Value, resource: &str, container: Option<&str>) -> Result<Samples, String> {
    let pods: Vec<PodMetrics> = items(answer)?;
    if pods.is_empty() {
        return Err("no metrics returned from resource metrics API".to_owned());
    }
    let mut samples = Samples::new();
    for pod in pods {
        let value = match container {
            None => pod.containers.iter().map(|one| usage(one, resource)).sum(),
            Some(name) => {
                let found = pod.containers.iter().find(|one| one.name == name);
                let (pod, namespace) = (&pod.metadata.name, &pod.metadata.namespace);
                let missing = || format!("container {name} not present in metrics for pod {namespace}/{pod}");
                usage(found.ok_or_else(missing)?, resource)
            }
        };
        if let Some(value) = value {
            let at = pod.timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
            samples.insert(pod.metadata.name, Sample { value, at, window: window(&pod.window) });
        }
    }
    Ok(samples)
}

fn usage(container: &ContainerMetrics, resource: &str) -> Option<i64> {
    container.usage.get(resource).and_then(|text| milli(text))
}

/// Parses Go's duration format, such as `30s` or `1m0.5s`. Invalid text counts as zero.
fn window(text: &str) -> Duration {
    let span: Result<jiff::SignedDuration, _> = text.parse();
    span.ok().and_then(|span| span.try_into().ok()).unwrap_or_default()
}

/// Samples of a pods metric from a MetricValueList.
///
/// # Errors
/// In upstream's words: no entry.
pub(crate) fn of_custom_pods(answer: &Value) -> Result<Samples, String> {
    let values: Vec<MetricValue> = items(answer)?;
    if values.is_empty() {
        return Err("no metrics returned from custom metrics API".to_owned());
    }
    let sample = |one: MetricValue| {
        let seconds = one.window_seconds.unwrap_or(CUSTOM_WINDOW).max(0).unsigned_abs();
        let at = one.timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
        let sample = Sample { value: milli(&one.value)?, at, window: Duration::from_secs(seconds) };
        Some((one.described_object.name, sample))
    };
    Ok(values.into_iter().filter_map(sample).collect())
}

/// Value of an object metric from a MetricValueList.
///
/// # Errors
/// In upstream's words: no entry.
pub(crate) fn of_object(answer: &Value) -> Result<i64, String> {
    let values: Vec<MetricValue> = items(answer)?;
    let first = values.first().and_then(|one| milli(&one.value));
    first.ok_or_else(|| "the server returned no value for the metric".to_owned())
}

/// Sum of the values in an ExternalMetricValueList.
///
/// # Errors
/// In upstream's words: no entry.
pub(crate) fn of_external(answer: &Value) -> Result<i64, String> {
    let values: Vec<MetricValue> = items(answer)?;
    if values.is_empty() {
        return Err("no metrics returned from external metrics API".to_owned());
    }
    Ok(values.iter().filter_map(|one| milli(&one.value)).fold(0, i64::saturating_add))
}
