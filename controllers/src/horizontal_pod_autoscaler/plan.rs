//! Decision of an autoscaler about its target, and its status. Pure: readings, pods, history and time in; a
//! decision out.

use super::behavior::{ReplicaCounts, bound, longest_periods};
use super::calculate::{Target, Tolerance};
use super::history::History;
use super::metric::{Evaluated, MetricError, evaluate};
use super::pods::Pod;
use super::sample::Reading;
use crate::view::seconds;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus, MetricStatus,
};
use kstore_api::quantity::Quantity;
use kstore_api::version::Minor;
use kstore_informer::EventType;

/// Default tolerance of the ratio of usage and target.
const TOLERANCE: f64 = 0.1;

/// The scale of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Desired replicas.
    pub replicas: i32,
    /// Current replicas.
    pub status_replicas: i32,
    /// Selector of its pods.
    pub selector: String,
}

/// Metrics that were read.
#[derive(Clone, Debug)]
pub(crate) enum Metrics<'a> {
    /// Not read: the target's size alone decides.
    Unread,
    /// The pods are unknown: reason and message of the condition, and the event.
    NoPods { reason: &'static str, message: String, event: (&'static str, String) },
    /// Readings for each entry of the spec, in order.
    Read { pods: &'a [Pod], readings: &'a [Reading] },
}

/// Decision of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// The new size and its reason, if the size changes.
    pub rescale: Option<(i32, String)>,
    /// The status if scaling succeeds.
    pub status: HorizontalPodAutoscalerStatus,
    /// Events to record.
    pub events: Vec<PlannedEvent>,
}

/// An event to record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedEvent {
    pub type_: EventType,
    pub reason: &'static str,
    pub message: String,
}

impl PlannedEvent {
    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_: EventType::Warning, reason, message: message.into() }
    }
}

/// Whether the metrics decide about a target of this size; otherwise its size alone decides.
pub(crate) fn needs_metrics(minor: Minor, hpa: &HorizontalPodAutoscaler, replicas: i32) -> bool {
    matches!(by_size(minor, hpa, replicas), BySize::Metrics)
}

/// The first version whose autoscalers scale to zero and back (`HPAScaleToZero`).
pub(crate) const FIRST_TO_ZERO: Minor = Minor::V37;

/// Condition: this controller, and no user, gave the target no replicas.
const SCALED_TO_ZERO: &str = "ScaledToZero";

/// Whether a metric of the autoscaler needs no pods.
fn has_metric_without_pods(hpa: &HorizontalPodAutoscaler) -> bool {
    hpa.spec.metrics.iter().flatten().any(|metric| metric.type_ == "Object" || metric.type_ == "External")
}

/// Whether a target without replicas may get some. Before 1.37 nothing distinguishes a target that a user has stopped: it may if the
/// autoscaler allows zero replicas at all.
fn may_leave_zero(minor: Minor, hpa: &HorizontalPodAutoscaler) -> bool {
    if minor < FIRST_TO_ZERO {
        return min_replicas(hpa) == 0;
    }
    let conditions = hpa.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_own = conditions.into_iter().any(|one| one.type_ == SCALED_TO_ZERO && one.status == "True");
    is_own && (min_replicas(hpa) != 0 || has_metric_without_pods(hpa))
}

enum BySize {
    Disabled,
    Bound(i32, &'static str),
    Metrics,
}

fn min_replicas(hpa: &HorizontalPodAutoscaler) -> i32 {
    hpa.spec.min_replicas.unwrap_or(1)
}

fn max_replicas(hpa: &HorizontalPodAutoscaler) -> i32 {
    hpa.spec.max_replicas
}

fn by_size(minor: Minor, hpa: &HorizontalPodAutoscaler, replicas: i32) -> BySize {
    let (min, max) = (min_replicas(hpa), max_replicas(hpa));
    match replicas {
        0 if !may_leave_zero(minor, hpa) => BySize::Disabled,
        0 => BySize::Metrics,
        above if above > max => BySize::Bound(max, "Current number of replicas above Spec.MaxReplicas"),
        below if below < min => BySize::Bound(min, "Current number of replicas below Spec.MinReplicas"),
        _ => BySize::Metrics,
    }
}

/// Decides about the target, and records the recommendation in `history`.
pub(crate) fn plan(
    minor: Minor,
    hpa: &HorizontalPodAutoscaler,
    scale: &Scale,
    metrics: &Metrics<'_>,
    history: &mut History,
    now: Timestamp,
) -> Decision {
    let mut draft = DecisionBuilder::of(hpa, now);
    draft.set("AbleToScale", true, "SucceededGetScale", GOT_SCALE);
    history.begin(scale.replicas, now);
    match by_size(minor, hpa, scale.replicas) {
        BySize::Disabled => {
            let message = "scaling is disabled since the replica count of the target is zero";
            draft.set("ScalingActive", false, "ScalingDisabled", message);
            draft.sizes(scale.replicas, scale.replicas, None);
            draft.decide(None)
        }
        BySize::Bound(size, why) => {
            draft.sizes(scale.replicas, size, None);
            draft.decide(Some((size, why.to_owned())))
        }
        BySize::Metrics => match propose(&mut draft, hpa, scale, metrics) {
            Ok(proposal) => settle(draft, hpa, scale.replicas, proposal, history),
            Err(Refused { error, statuses }) => {
                draft.events.push(PlannedEvent::warning("FailedComputeMetricsReplicas", error));
                let desired = draft.status.desired_replicas;
                draft.sizes(scale.replicas, desired, Some(statuses));
                draft.decide(None)
            }
        },
    }
}

const GOT_SCALE: &str = "the HPA controller was able to get the target's current scale";

/// Combined proposal of the metrics.
struct ProposedReplicas {
    replicas: i32,
    name: String,
    statuses: Vec<MetricStatus>,
}

/// Why the metrics propose nothing.
struct Refused {
    error: String,
    statuses: Vec<MetricStatus>,
}

/// The highest proposal of the metrics. If some metrics fail, the others may only scale up.
fn propose(
    draft: &mut DecisionBuilder,
    hpa: &HorizontalPodAutoscaler,
    scale: &Scale,
    metrics: &Metrics<'_>,
) -> Result<ProposedReplicas, Refused> {
    let (pods, readings) = match metrics {
        Metrics::Read { pods, readings } => (*pods, *readings),
        Metrics::NoPods { reason, message, event: (error_message, text) } => {
            draft.events.push(PlannedEvent::warning(error_message, text.clone()));
            draft.set("ScalingActive", false, reason, message);
            return Err(Refused { error: text.clone(), statuses: vec![] });
        }
        Metrics::Unread => return Err(Refused { error: "no metric was read".to_owned(), statuses: vec![] }),
    };
    let specs = hpa.spec.metrics.as_deref().unwrap_or_default();
    let tolerance = tolerance(hpa);
    let (spec_replicas, status_replicas) = (scale.replicas, scale.status_replicas);
    let target = Target { spec_replicas, status_replicas, pods, tolerance };
    let namespace = hpa.metadata.namespace.as_deref().unwrap_or_default();
    let mut best: Option<(i32, String)> = None;
    let (mut statuses, mut failures) = (Vec::new(), Vec::new());
    for (spec, reading) in specs.iter().zip(readings) {
        match evaluate(spec, reading, target, namespace, draft.now) {
            Ok(Evaluated { replicas, name, status }) => {
                statuses.push(status);
                if best.as_ref().is_none_or(|(most, _)| *most == 0 || replicas > *most) {
                    best = Some((replicas, name));
                }
            }
            Err(failed) => {
                statuses.push(MetricStatus::default());
                draft.events.push(PlannedEvent::warning(failed.reason, failed.message.clone()));
                failures.push(failed);
            }
        }
    }
    let refused = |failures: &[MetricError], statuses| {
        let first = failures.first().map(|failed| failed.error.as_str()).unwrap_or_default();
        let error = format!(
            "invalid metrics ({} invalid out of {}), first error is: {first}",
            failures.len(),
            specs.len()
        );
        Refused { error, statuses }
    };
    match best {
        Some((replicas, name)) if failures.is_empty() || replicas >= scale.replicas => {
            let message = format!("the HPA was able to successfully calculate a replica count from {name}");
            draft.set("ScalingActive", true, "ValidMetricFound", &message);
            Ok(ProposedReplicas { replicas, name, statuses })
        }
        _ => {
            if let Some(first) = failures.first() {
                let message = format!("the HPA was unable to compute the replica count: {}", first.message);
                draft.set("ScalingActive", false, first.reason, &message);
            }
            Err(refused(&failures, statuses))
        }
    }
}

/// Bounds the proposal of the metrics.
fn settle(
    mut draft: DecisionBuilder,
    hpa: &HorizontalPodAutoscaler,
    current: i32,
    proposed: ProposedReplicas,
    history: &mut History,
) -> Decision {
    let behavior = hpa.spec.behavior.as_ref();
    let desired = proposed.replicas.max(0);
    let sizes = ReplicaCounts { current, desired, min: min_replicas(hpa), max: max_replicas(hpa) };
    let bounded = bound(behavior, sizes, history, draft.now);
    draft.set("AbleToScale", true, bounded.able.0, bounded.able.1);
    draft.set("ScalingLimited", bounded.is_limited, bounded.limited.0, bounded.limited.1);
    draft.sizes(current, bounded.replicas, Some(proposed.statuses));
    let why = match desired {
        more if more > current => format!("{} above target", proposed.name),
        fewer if fewer < current => "All metrics below target".to_owned(),
        _ => String::new(),
    };
    draft.decide((bounded.replicas != current).then_some((bounded.replicas, why)))
}

/// The tolerances of the rules.
fn tolerance(hpa: &HorizontalPodAutoscaler) -> Tolerance {
    let behavior = hpa.spec.behavior.as_ref();
    let of = |rules: Option<&HPAScalingRules>| {
        let text = rules.and_then(|rules| rules.tolerance.as_ref())?;
        Quantity::parse(&text.0).ok().map(Quantity::as_f64)
    };
    Tolerance {
        up: of(behavior.and_then(|behavior| behavior.scale_up.as_ref())).unwrap_or(TOLERANCE),
        down: of(behavior.and_then(|behavior| behavior.scale_down.as_ref())).unwrap_or(TOLERANCE),
    }
}

/// The decision after the target was scaled.
pub(crate) fn rescaled(
    minor: Minor,
    mut decision: Decision,
    hpa: &HorizontalPodAutoscaler,
    from: i32,
    history: &mut History,
    now: Timestamp,
) -> Decision {
    let Some((size, why)) = decision.rescale.clone() else { return decision };
    let message = format!("the HPA controller was able to update the target scale to {size}");
    set(&mut decision.status, ("AbleToScale", true), ("SucceededRescale", &message), now);
    decision.status.last_scale_time = Some(seconds(now));
    let message = format!("New size: {size}; reason: {why}");
    if minor >= FIRST_TO_ZERO {
        let is_stopped = from > 0 && size == 0 && min_replicas(hpa) == 0 && has_metric_without_pods(hpa);
        let (reason, message) = match is_stopped {
            true => ("ScaledToZero", "the HPA controller scaled the workload to zero"),
            false => ("NotScaledToZero", "the HPA controller did not scale the workload to zero"),
        };
        set(&mut decision.status, (SCALED_TO_ZERO, is_stopped), (reason, message), now);
    }
    let (type_, reason) = (EventType::Normal, "SuccessfulRescale");
    decision.events.push(PlannedEvent { type_, reason, message });
    let behavior = hpa.spec.behavior.as_ref();
    if behavior.is_some() {
        history.rescaled((from, size), longest_periods(behavior), now);
    }
    decision
}

/// The decision after the server refused to scale the target.
pub(crate) fn refused(
    mut decision: Decision,
    hpa: &HorizontalPodAutoscaler,
    error: &str,
    now: Timestamp,
) -> Decision {
    let Some((size, why)) = decision.rescale.clone() else { return decision };
    let message = format!("the HPA controller was unable to update the target scale: {error}");
    set(&mut decision.status, ("AbleToScale", false), ("FailedUpdateScale", &message), now);
    let before = hpa.status.as_ref();
    decision.status.desired_replicas = before.map_or(0, |status| status.desired_replicas);
    let message = format!("New size: {size}; reason: {why}; error: {error}");
    decision.events.push(PlannedEvent::warning("FailedRescale", message));
    decision
}

/// The decision when the scale of the target cannot be read.
pub(crate) fn without_scale(hpa: &HorizontalPodAutoscaler, error: &str, now: Timestamp) -> Decision {
    let mut draft = DecisionBuilder::of(hpa, now);
    draft.events.push(PlannedEvent::warning("FailedGetScale", error));
    let message = format!("the HPA controller was unable to get the target's current scale: {error}");
    draft.set("AbleToScale", false, "FailedGetScale", &message);
    draft.decide(None)
}

/// A decision under construction.
struct DecisionBuilder {
    status: HorizontalPodAutoscalerStatus,
    events: Vec<PlannedEvent>,
    now: Timestamp,
}

impl DecisionBuilder {
    fn of(hpa: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        Self { status: hpa.status.clone().unwrap_or_default(), events: Vec::new(), now }
    }

    fn set(&mut self, type_: &str, status: bool, reason: &str, message: &str) {
        set(&mut self.status, (type_, status), (reason, message), self.now);
    }

    /// Records sizes and metrics in the status.
    fn sizes(&mut self, current: i32, desired: i32, metrics: Option<Vec<MetricStatus>>) {
        self.status.current_replicas = Some(current);
        self.status.desired_replicas = desired;
        self.status.current_metrics = metrics.filter(|metrics| !metrics.is_empty());
    }

    fn decide(self, rescale: Option<(i32, String)>) -> Decision {
        Decision { rescale, status: self.status, events: self.events }
    }
}

/// Sets a condition; its transition time changes with its status.
fn set(
    status: &mut HorizontalPodAutoscalerStatus,
    (type_, value): (&str, bool),
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let value = if value { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let at = conditions.iter().position(|condition| condition.type_ == type_).unwrap_or_else(|| {
        let type_ = type_.to_owned();
        conditions.push(HorizontalPodAutoscalerCondition { type_, ..Default::default() });
        conditions.len() - 1
    });
    let condition = &mut conditions[at];
    if condition.status != value {
        condition.last_transition_time = Some(seconds(now));
    }
    condition.status = value.to_owned();
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message.to_owned());
}
