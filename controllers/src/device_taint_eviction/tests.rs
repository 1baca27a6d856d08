//! Tests of evictions because of tainted devices.

use super::plan::{evaluate, eviction_time, newest};
use super::slices::{Slice, devices_of};
use crate::eviction::Verdict;
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
    assert_eq!(new.spec.devices[0].taints.len(), 1);
}
