//! Tests of autoscalers: proposals, bounds, status, and properties.

mod behavior;
mod metrics;
mod properties;

use super::history::History;
use super::plan::{Decision, Metrics, Scale, needs_metrics, plan, refused, rescaled, without_scale};
use super::pods::Pod;
use super::report;
use super::sample::{Reading, Sample, Samples};
use crate::action::Action;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kstore_api::version::Minor;
use serde_json::{Value, from_value, json};
use std::time::Duration;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Time in seconds after the start of the pods.
fn at(seconds: i64) -> Timestamp {
    START.checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn autoscaler(spec: Value) -> HorizontalPodAutoscaler {
    let mut whole = json!({"maxReplicas": 10, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [cpu(50)]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    from_value(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": whole})).unwrap()
}

/// A CPU target in percent of the requests.
fn cpu(percent: i32) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

/// A pod with a request of 100m that became ready shortly after its start.
fn pod(name: usize) -> Pod {
    changed_pod(name, json!({}))
}

fn changed_pod(name: usize, status: Value) -> Pod {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": at(5)});
    let mut whole = json!({"phase": "Running", "startTime": START, "conditions": [ready]});
    whole.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}});
    from_value(
        json!({"metadata": {"name": name.to_string()}, "spec": {"containers": [container]}, "status": whole}),
    )
    .unwrap()
}

fn sample(value: i64, taken: Timestamp) -> Sample {
    Sample { value, at: taken, window: Duration::from_secs(30) }
}

/// Samples with these values for the pods `0`, `1`, ….
fn samples(values: &[i64], taken: Timestamp) -> Samples {
    values.iter().enumerate().map(|(name, value)| (name.to_string(), sample(*value, taken))).collect()
}

fn scale(replicas: i32) -> Scale {
    Scale { replicas, status_replicas: replicas, selector: "app=web".to_owned() }
}

/// Evaluates a target whose pods use these thousandths of a CPU, ten minutes after their start.
fn read_caches(hpa: &HorizontalPodAutoscaler, used: &[i64]) -> Decision {
    evaluate_with(hpa, used, &mut History::default(), at(600))
}

fn evaluate_with(
    hpa: &HorizontalPodAutoscaler,
    used: &[i64],
    history: &mut History,
    now: Timestamp,
) -> Decision {
    let pods: Vec<Pod> = (0..used.len()).map(pod).collect();
    let readings = [Reading::Pods(Ok(samples(used, now)))];
    let replicas = i32::try_from(used.len()).unwrap();
    let metrics = Metrics::Read { pods: &pods, readings: &readings };
    plan(Minor::DEFAULT, hpa, &scale(replicas), &metrics, history, now)
}

/// The resulting size of the target.
fn size(decision: &Decision) -> i32 {
    decision.status.desired_replicas
}

/// Status and reason of a condition.
fn condition(decision: &Decision, type_: &str) -> (String, String) {
    let conditions = decision.status.conditions.as_deref().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (found.status.clone(), found.reason.clone().unwrap_or_default())
}

fn is(condition: (String, String), status: &str, reason: &str) -> bool {
    (condition.0.as_str(), condition.1.as_str()) == (status, reason)
}

#[test]
fn a_target_is_scaled_by_its_usage() {
    // Usage of each pod against 50m of the requested 100m.
    let table: [(&[i64], i32, &str); 7] = [
        (&[50, 50, 50], 3, "ValidMetricFound"),
        (&[54, 55, 55], 3, "ValidMetricFound"),
        (&[60, 60, 60], 4, "ValidMetricFound"),
        (&[100, 100, 100], 6, "ValidMetricFound"),
        (&[1000, 1000, 1000], 6, "ValidMetricFound"),
        (&[46, 46, 46], 3, "ValidMetricFound"),
        (&[10, 10, 10], 3, "ValidMetricFound"),
    ];
    for (used, expected, reason) in table {
        let decision = read_caches(&autoscaler(json!({})), used);
        assert_eq!(size(&decision), expected, "{used:?}");
        assert!(is(condition(&decision, "ScalingActive"), "True", reason), "{used:?}");
    }
}

#[test]
fn without_rules_a_size_at_most_doubles_and_shrinks_after_five_minutes_of_lower_recommendations() {
    let hpa = autoscaler(json!({"maxReplicas": 100}));
    let mut history = History::default();
    let up = evaluate_with(&hpa, &[1000, 1000, 1000], &mut history, at(600));
    assert_eq!(size(&up), 6);
    assert!(is(condition(&up, "ScalingLimited"), "True", "ScaleUpLimit"));
    let mut history = History::default();
    for now in [600, 615, 885, 899] {
        let stays = evaluate_with(&hpa, &[10, 10, 10], &mut history, at(now));
        assert_eq!(size(&stays), 3, "{now}");
        assert!(is(condition(&stays, "AbleToScale"), "True", "ScaleDownStabilized"), "{now}");
    }
    let down = evaluate_with(&hpa, &[10, 10, 10], &mut history, at(901));
    assert_eq!((size(&down), down.rescale.unwrap().1.as_str()), (1, "All metrics below target"));
}

#[test]
fn size_bounds_hold_for_all_metrics() {
    let hpa = autoscaler(json!({"minReplicas": 2, "maxReplicas": 5}));
    let above = read_caches(&hpa, &[50; 7]);
    assert_eq!(above.rescale, Some((5, "Current number of replicas above Spec.MaxReplicas".to_owned())));
    let below = read_caches(&hpa, &[50]);
    assert_eq!(below.rescale, Some((2, "Current number of replicas below Spec.MinReplicas".to_owned())));
    let most = read_caches(&hpa, &[100, 100, 100, 100]);
    assert_eq!(size(&most), 5);
    assert!(is(condition(&most, "ScalingLimited"), "True", "TooManyReplicas"));
    let within = read_caches(&hpa, &[50, 50]);
    assert!(is(condition(&within, "ScalingLimited"), "False", "DesiredWithinRange"));
    assert!(is(condition(&within, "AbleToScale"), "True", "ReadyForNewScale"));
}

#[test]
fn a_target_with_zero_replicas_is_not_scaled() {
    let (hpa, mut history) = (autoscaler(json!({})), History::default());
    let decision = plan(Minor::DEFAULT, &hpa, &scale(0), &Metrics::Unread, &mut history, START);
    assert_eq!(decision.rescale, None);
    assert!(is(condition(&decision, "ScalingActive"), "False", "ScalingDisabled"));
}

#[test]
fn rescale_results_are_in_status_and_event() {
    let hpa = autoscaler(json!({}));
    let decision = read_caches(&hpa, &[100, 100, 100]);
    let done = rescaled(Minor::DEFAULT, decision.clone(), &hpa, 3, &mut History::default(), at(600));
    assert!(is(condition(&done, "AbleToScale"), "True", "SucceededRescale"));
    assert_eq!(done.status.last_scale_time.unwrap().0, at(600));
    let error_message = done.events.last().unwrap();
    assert_eq!(
        (error_message.reason, error_message.message.as_str()),
        (
            "SuccessfulRescale",
            "New size: 6; reason: cpu resource utilization (percentage of request) above target"
        )
    );
    let failed = refused(decision, &hpa, "no", at(600));
    assert!(is(condition(&failed, "AbleToScale"), "False", "FailedUpdateScale"));
    assert_eq!((size(&failed), failed.events.last().unwrap().reason), (0, "FailedRescale"));
    let lost = without_scale(&hpa, "gone", START);
    assert!(is(condition(&lost, "AbleToScale"), "False", "FailedGetScale"));
}

#[test]
fn condition_times_change_with_their_status_only() {
    let mut hpa = autoscaler(json!({}));
    hpa.status = Some(evaluate_with(&hpa, &[50, 50], &mut History::default(), at(600)).status);
    let later = evaluate_with(&hpa, &[50, 50], &mut History::default(), at(700)).status;
    assert_eq!(hpa.status, Some(later), "nothing to write");
}

/// An autoscaler of an external metric that allows zero replicas.
fn of_queue(min: i32) -> HorizontalPodAutoscaler {
    let queue = json!({"type": "External",
        "external": {"metric": {"name": "queued"}, "target": {"type": "AverageValue", "averageValue": "10"}}});
    autoscaler(json!({"minReplicas": min, "metrics": [queue]}))
}

#[test]
fn autoscalers_wake_what_they_stopped_themselves_since_1_37() {
    let unread = |minor, hpa: &HorizontalPodAutoscaler| {
        plan(minor, hpa, &scale(0), &Metrics::Unread, &mut History::default(), START)
    };
    let mut hpa = of_queue(0);
    assert!(needs_metrics(Minor::V36, &hpa, 0), "before 1.37 the lowest size alone decides");
    assert!(!needs_metrics(Minor::V37, &hpa, 0), "a user stopped the target");
    assert!(is(condition(&unread(Minor::V37, &hpa), "ScalingActive"), "False", "ScalingDisabled"));

    let stop = Decision { rescale: Some((0, "queued".to_owned())), ..unread(Minor::V37, &hpa) };
    let stopped = rescaled(Minor::V37, stop.clone(), &hpa, 2, &mut History::default(), START);
    assert!(is(condition(&stopped, "ScaledToZero"), "True", "ScaledToZero"));
    hpa.status = Some(stopped.status);
    assert!(needs_metrics(Minor::V37, &hpa, 0));
    let wake = Decision { rescale: Some((1, "queued".to_owned())), ..unread(Minor::V37, &hpa) };
    let woken = rescaled(Minor::V37, wake, &hpa, 0, &mut History::default(), START);
    assert!(is(condition(&woken, "ScaledToZero"), "False", "NotScaledToZero"));

    let mut raised = of_queue(1);
    raised.status = hpa.status;
    assert!(needs_metrics(Minor::V37, &raised, 0), "a raised lowest size wakes the target");
    let older = rescaled(Minor::V36, stop, &of_queue(0), 2, &mut History::default(), START);
    assert!(older.status.conditions.unwrap().iter().all(|one| one.type_ != "ScaledToZero"));
}

#[test]
fn status_and_conditions_have_the_generation_since_1_37() {
    let mut hpa = autoscaler(json!({}));
    hpa.metadata.generation = Some(3);
    let written = |minor| {
        let decision = read_caches(&hpa, &[50, 50]);
        match report(minor, &hpa, decision).pop() {
            Some(Action::UpdateStatus(object)) => serde_json::from_str::<Value>(object.json()).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let (old, new) = (written(Minor::V36), written(Minor::V37));
    assert!(old["status"]["observedGeneration"].is_null());
    assert!(old["status"]["conditions"][0]["observedGeneration"].is_null());
    assert_eq!(new["status"]["observedGeneration"], 3);
    let conditions = new["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions.len() > 1 && conditions.iter().all(|one| one["observedGeneration"] == 3),
        "{conditions:?}"
    );
}
