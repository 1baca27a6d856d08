//! Tests of evictions because of tainted devices.

use super::plan::{evaluate, eviction_time, newest};
use super::rules::{self, RuleCounts};
use super::slices::{Slice, devices_of};
use crate::action::{Action, PatchKind};
use crate::eviction::Verdict;
use crate::stable_kinds::DeviceTaintRule;
use crate::view::{Pod, decode};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::resource::v1::DeviceRequestAllocationResult;
use serde_json::{Value, from_value, json};
use std::time::Duration;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn allocated(tolerations: Value) -> DeviceRequestAllocationResult {
    from_value(json!({"driver": "d", "pool": "p", "device": "a", "request": "r", "tolerations": tolerations}))
        .unwrap()
}

fn slice(name: &str, generation: i64, devices: Value) -> Slice {
    let slice = json!({"metadata": {"name": name}, "spec": {"driver": "d", "devices": devices,
        "pool": {"name": "p", "generation": generation, "resourceSliceCount": 1}}});
    decode(slice.to_string().as_bytes()).unwrap()
}

#[test]
fn the_shortest_toleration_of_each_taint_counts_and_the_earliest_taint() {
    let taint = |key: &str, value: &str, second: i64| json!({"key": key, "value": value, "effect": "NoExecute", "timeAdded": Timestamp::from_second(START.as_second() + second).unwrap()});
    let sick = || json!([taint("sick", "yes", 0)]);
    let tolerated = |seconds: Value| json!({"key": "sick", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    let with = |value: &str| json!({"key": "sick", "value": value, "effect": "NoExecute"});
    let table = [
        (sick(), json!([]), Some(0)),
        (sick(), json!([tolerated(json!(60))]), Some(60)),
        (sick(), json!([tolerated(json!(60)), tolerated(json!(30))]), Some(30)),
        (sick(), json!([tolerated(json!(60)), tolerated(Value::Null)]), None),
        (sick(), json!([tolerated(json!(-5))]), Some(0)),
        (sick(), json!([with("yes")]), None),
        (sick(), json!([with("no")]), Some(0)),
        (sick(), json!([{"operator": "Exists", "effect": "NoExecute"}]), None),
        (sick(), json!([{"operator": "Exists"}]), Some(0)),
        (sick(), json!([{"operator": "Exists", "effect": "NoSchedule"}]), Some(0)),
        (json!([taint("sick", "", 0), taint("old", "", 20)]), json!([tolerated(json!(60))]), Some(20)),
        (json!([]), json!([]), None),
    ];
    for (taints, tolerations, expected) in table {
        let found =
            eviction_time(&allocated(tolerations.clone()), &from_value::<Vec<_>>(taints.clone()).unwrap());
        let seconds = found.map(|time| time.duration_since(START).as_secs());
        assert_eq!(seconds, expected, "{taints} {tolerations}");
    }
}

#[test]
fn active_pods_on_nodes_are_evicted_at_their_time() {
    let pod = |spec: Value, changes: Value| -> Pod {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
        for (member, value) in changes.as_object().unwrap() {
            pod[member] = value.clone();
        }
        from_value(pod).unwrap()
    };
    let on_node = || json!({"nodeName": "n"});
    let soon = START.checked_add(SignedDuration::from_secs(5)).unwrap();
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let table = [
        (pod(on_node(), json!({})), None, Verdict::Stay),
        (pod(on_node(), json!({})), Some(START), Verdict::Leave),
        (pod(on_node(), json!({})), Some(soon), Verdict::StayFor(Duration::from_secs(5))),
        (pod(json!({}), json!({})), Some(START), Verdict::Stay),
        (pod(on_node(), json!({"status": {"phase": "Succeeded"}})), Some(START), Verdict::Stay),
        (pod(on_node(), deleting), Some(START), Verdict::Stay),
    ];
    for (pod, time, expected) in table {
        assert_eq!(evaluate(&pod, time, START), expected, "{pod:?} {time:?}");
    }
}

#[test]
fn only_no_execute_taints_of_the_newest_generation_count() {
    let device = |name: &str, effects: &[&str]| {
        let taints: Vec<_> = effects.iter().map(|effect| json!({"key": "k", "effect": effect})).collect();
        json!({"name": name, "taints": taints})
    };
    let old = slice("old", 1, json!([device("a", &["NoExecute"]), device("b", &["NoExecute"])]));
    let new =
        slice("new", 2, json!([device("a", &[]), device("b", &["NoSchedule", "NoExecute"]), {"name": "c"}]));
    let names = |slices: &[&Slice]| -> Vec<String> {
        newest(slices.iter().copied()).flat_map(devices_of).map(|device| device.device).collect()
    };
    assert_eq!(names(&[&old]), ["a", "b"]);
    assert_eq!(names(&[&old, &new]), ["b"]);
    assert_eq!(new.spec.devices[1].taints.len(), 1);
}

fn rule(selector: Value, effect: &str, status: Value) -> DeviceTaintRule {
    let taint = json!({"key": "sick", "effect": effect, "timeAdded": START});
    from_value(json!({"metadata": {"name": "r", "uid": "u", "generation": 2}, "status": status,
        "spec": {"deviceSelector": selector, "taint": taint}}))
    .unwrap()
}

#[test]
fn a_rule_evicts_from_the_devices_that_it_selects_unless_they_tolerate_its_taint() {
    let forever = json!([{"operator": "Exists", "effect": "NoExecute"}]);
    let minute =
        json!([{"key": "sick", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    for (selector, tolerations, expected) in [
        (Value::Null, json!([]), None),
        (json!({}), json!([]), Some(0)),
        (json!({}), forever, None),
        (json!({}), minute, Some(60)),
        (json!({"driver": "d", "pool": "p", "device": "a"}), json!([]), Some(0)),
        (json!({"driver": "e"}), json!([]), None),
        (json!({"pool": "q"}), json!([]), None),
        (json!({"driver": "d", "device": "b"}), json!([]), None),
    ] {
        for effect in ["NoExecute", "None"] {
            let time = rules::eviction_time(
                &rule(selector.clone(), effect, json!({})),
                &allocated(tolerations.clone()),
            );
            let seconds = time.map(|time| time.duration_since(START).as_secs());
            assert_eq!(seconds, expected, "{selector} {tolerations} {effect}");
        }
    }
}

#[test]
fn the_condition_of_a_rule_says_how_far_its_evictions_are() {
    let counts = |pending, namespaces, evicted| RuleCounts {
        pending,
        namespaces,
        evicted,
        published: 3,
        allocated: 1,
    };
    let preview = |pods: &str| {
        format!(
            "3 published devices selected. 1 allocated device selected. {pods} if the effect was NoExecute. This information \
             will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
    };
    let (one, none) = (
        preview("1 pod would be evicted in 1 namespace"),
        preview("0 pods would be evicted in 0 different namespaces"),
    );
    for (effect, counts, expected) in [
        (
            "NoExecute",
            counts(2, 1, 0),
            ["True", "PodsPendingEviction", "2 pods need to be evicted in 1 namespace."],
        ),
        (
            "NoExecute",
            counts(1, 1, 1),
            [
                "True",
                "PodsPendingEviction",
                "1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller.",
            ],
        ),
        (
            "NoExecute",
            counts(3, 2, 0),
            ["True", "PodsPendingEviction", "3 pods need to be evicted in 2 different namespaces."],
        ),
        (
            "NoExecute",
            counts(0, 0, 2),
            ["False", "Completed", "2 pods evicted since starting the controller."],
        ),
        ("NoExecute", counts(0, 0, 0), ["False", "NotStarted", ""]),
        ("None", counts(1, 1, 0), ["False", "NoEffect", &*one]),
        ("None", counts(0, 0, 0), ["False", "NoEffect", &*none]),
        (
            "NoSchedule",
            counts(0, 0, 0),
            ["False", "OtherEffect", "Eviction only happens for the NoExecute effect."],
        ),
    ] {
        let fresh = rule(json!({}), effect, json!({}));
        let Some(Action::Patch { target, status: true, kind: PatchKind::Apply, patch }) =
            rules::condition(&fresh, &counts, START)
        else {
            panic!("{effect} {counts:?}: no write")
        };
        assert_eq!((&*target.name, &*target.uid, target.resource_version), ("r", "u", None));
        let conditions = patch["status"]["conditions"].clone();
        let found = ["status", "reason", "message"].map(|member| conditions[0][member].as_str().unwrap());
        assert_eq!(found, expected, "{effect} {counts:?}");
        assert_eq!(conditions[0]["observedGeneration"], 2);
        let written = rule(json!({}), effect, json!({"conditions": conditions}));
        assert_eq!(rules::condition(&written, &counts, START), None, "it is up to date");
        let more = RuleCounts { evicted: counts.evicted + 1, ..counts };
        assert!(rules::condition(&written, &more, START).is_some(), "a pod more was evicted");
    }
}

#[test]
fn a_condition_stays_for_ten_seconds_unless_the_rule_changes() {
    let with = |generation: i64| {
        rule(
            json!({}),
            "NoExecute",
            json!({"conditions": [{"type": "EvictionInProgress", "status": "True", "reason": "R",
            "message": "", "observedGeneration": generation, "lastTransitionTime": START}]}),
        )
    };
    let at = |seconds| START.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    assert_eq!(rules::wait(&with(2), at(4)), Some(Duration::from_secs(6)));
    assert_eq!(rules::wait(&with(2), at(10)), None);
    assert_eq!(rules::wait(&with(1), at(4)), None, "the rule changed");
    assert_eq!(rules::wait(&rule(json!({}), "None", json!({})), at(0)), None);
}
