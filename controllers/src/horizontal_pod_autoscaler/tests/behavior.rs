//! Tests of rates, windows and their conditions.

use super::super::behavior::{Bounded, ReplicaCounts, bound};
use super::{History, at};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use serde_json::{Value, from_value, json};

fn rules(up: Value, down: Value) -> HorizontalPodAutoscalerBehavior {
    from_value(json!({"scaleUp": up, "scaleDown": down})).unwrap()
}

fn policies(select: &str, window: i32, list: &[(&str, i32, i32)]) -> Value {
    let policies: Vec<Value> = list
        .iter()
        .map(|(type_, value, period)| json!({"type": type_, "value": value, "periodSeconds": period}))
        .collect();
    json!({"selectPolicy": select, "stabilizationWindowSeconds": window, "policies": policies})
}

/// Sizes with bounds of 1 and 100.
fn sizes(current: i32, desired: i32) -> ReplicaCounts {
    ReplicaCounts { current, desired, min: 1, max: 100 }
}

fn bounded(behavior: &HorizontalPodAutoscalerBehavior, sizes: ReplicaCounts) -> Bounded {
    bound(Some(behavior), sizes, &mut History::default(), at(0))
}

#[test]
fn policies_bound_one_step() {
    let free = || policies("Max", 0, &[("Percent", 1000, 15)]);
    let both: &[(&str, i32, i32)] = &[("Pods", 4, 15), ("Percent", 100, 15)];
    let table = [
        (rules(policies("Max", 0, both), free()), 3, 50, 7, "ScaleUpLimit"),
        (rules(policies("Max", 0, both), free()), 10, 50, 20, "ScaleUpLimit"),
        (rules(policies("Min", 0, both), free()), 10, 50, 14, "ScaleUpLimit"),
        (rules(policies("Disabled", 0, both), free()), 10, 50, 10, "ScaleUpLimit"),
        (rules(policies("Max", 0, &[("Percent", 10, 15)]), free()), 1, 50, 2, "ScaleUpLimit"),
        (rules(policies("Max", 0, both), free()), 10, 15, 15, "DesiredWithinRange"),
        (rules(policies("Max", 0, both), free()), 60, 500, 100, "TooManyReplicas"),
        (rules(free(), policies("Max", 0, both)), 10, 2, 2, "DesiredWithinRange"),
        (rules(free(), policies("Max", 0, both)), 10, 0, 1, "TooFewReplicas"),
        (rules(free(), policies("Min", 0, both)), 10, 2, 6, "ScaleDownLimit"),
        (rules(free(), policies("Max", 0, &[("Percent", 10, 15)])), 99, 2, 89, "ScaleDownLimit"),
        (rules(free(), policies("Disabled", 0, both)), 10, 2, 10, "ScaleDownLimit"),
    ];
    for (behavior, current, desired, replicas, reason) in table {
        let found = bounded(&behavior, sizes(current, desired));
        assert_eq!((found.replicas, found.limited.0), (replicas, reason), "{current} -> {desired}");
        assert_eq!(found.is_limited, replicas != desired, "{current} -> {desired}");
    }
}

#[test]
fn a_scaling_policy_counts_changes_within_its_period() {
    let behavior = rules(policies("Max", 0, &[("Pods", 4, 60)]), policies("Max", 0, &[("Pods", 2, 60)]));
    let mut history = History::default();
    history.rescaled((4, 7), (60, 60), at(0));
    let mut size = |now, desired| bound(Some(&behavior), sizes(7, desired), &mut history, at(now)).replicas;
    assert_eq!(size(58, 50), 8, "three of four are used up");
    assert_eq!(size(59, 1), 2, "what grew may shrink again, beside the two");
    assert_eq!(size(61, 50), 11);
    history.rescaled((7, 6), (60, 60), at(61));
    assert_eq!(bound(Some(&behavior), sizes(6, 1), &mut history, at(62)).replicas, 5);
}

#[test]
fn stabilization_windows_delay_scaling() {
    let behavior =
        rules(policies("Max", 60, &[("Pods", 100, 15)]), policies("Max", 120, &[("Pods", 100, 15)]));
    let mut history = History::default();
    history.begin(5, at(0));
    let mut at_size = |now, current, desired| {
        let found = bound(Some(&behavior), sizes(current, desired), &mut history, at(now));
        (found.replicas, found.able.0)
    };
    assert_eq!(at_size(10, 5, 9), (5, "ScaleUpStabilized"));
    assert_eq!(at_size(59, 5, 8), (5, "ScaleUpStabilized"));
    assert_eq!(at_size(61, 5, 9), (8, "ScaleUpStabilized"), "the lowest within a minute");
    assert_eq!(
        at_size(62, 8, 3),
        (8, "ScaleDownStabilized"),
        "the size is within what both windows recommend"
    );
    assert_eq!(at_size(190, 8, 3), (3, "ReadyForNewScale"));
}
