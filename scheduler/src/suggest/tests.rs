//! Tests of suggestions: each one, applied, places the pod.

use super::*;
use crate::pod;
use crate::testing::{cpu_pod, decode_pod, node, on, with};
use serde_json::json;

fn object(spec: Value) -> Value {
    let mut spec = spec;
    spec["schedulerName"] = "default-scheduler".into();
    json!({ "metadata": { "name": "p", "namespace": "ns", "uid": "p" }, "spec": spec })
}

fn container(cpu: &str) -> Value {
    json!([{ "name": "db", "resources": { "requests": { "cpu": cpu } } }])
}

fn suggestions(state: &mut Reconstruction, object: &Value) -> Vec<String> {
    let (registry, pod) = (Registry::in_tree(), decode_pod(object));
    let table = state.table(&registry, &pod);
    let found = suggest(state, &registry, (object, &pod), &table);
    found.into_iter().map(|found| format!("{} → {}", found.change, found.node)).collect()
}

/// Three nodes of four cores: one nearly full of pods of low priority, one tainted, one cordoned.
fn cluster() -> Reconstruction {
    let mut state = Reconstruction::default();
    state.set_node(node("full", json!({})));
    for (name, cpu, priority) in [("batch", "500m", 0), ("web", "2", 5)] {
        state.add_pod(on(&with(&cpu_pod(name, cpu), |pod| pod.priority = priority), "full"));
    }
    let taint = json!([{ "key": "maintenance", "effect": "NoSchedule" }]);
    state.set_node(node("tainted", json!({ "taints": taint })));
    state.set_node(node("cordoned", json!({ "unschedulable": true })));
    state
}

#[test]
fn the_smallest_changes_of_pod_nodes_and_other_pods_are_found_in_this_order() {
    let found = suggestions(&mut cluster(), &object(json!({ "containers": container("2") })));
    let expected = [
        "request cpu 1500m instead of 2 in container db → full",
        "tolerate maintenance:NoSchedule → tainted",
        "a priority of 1 or more, which evicts 1 pod(s) → full",
        "uncordon node cordoned → cordoned",
        "remove maintenance:NoSchedule from node tainted → tainted",
        "one more node like full → (new node)",
        "remove 1 pod from full: ns/batch (priority 0) → full",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_cluster_is_as_before_after_the_search() {
    let mut state = cluster();
    let pod = object(json!({ "containers": container("2") }));
    let first = suggestions(&mut state, &pod);
    assert_eq!(suggestions(&mut state, &pod), first);
    let table = state.table(&Registry::in_tree(), &decode_pod(&pod));
    assert_eq!((table.nodes.len(), state.pods_on("full").len()), (3, 2));
}

#[test]
fn constraints_of_the_pod_are_suggested_away_one_at_a_time() {
    let mut state = Reconstruction::default();
    state.set_node(node("a", json!({})));
    let labels = json!({ "matchLabels": { "app": "db" } });
    let term = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": labels });
    let affinity = json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    let spec = json!({ "containers": container("1"), "affinity": affinity });
    let found = suggestions(&mut state, &object(spec));
    assert_eq!(found, ["remove the required pod affinity over kubernetes.io/hostname → a"]);
    let spec = json!({ "containers": container("1"), "nodeSelector": { "disk": "ssd" } });
    let found = suggestions(&mut state, &object(spec));
    assert_eq!(found, ["remove disk=ssd from nodeSelector → a", "label node a with disk=ssd → a"]);
}

#[test]
fn several_pods_are_removed_only_if_one_is_not_enough() {
    let mut state = Reconstruction::default();
    state.set_node(node("a", json!({})));
    for name in ["x", "y", "z"] {
        state.add_pod(on(&cpu_pod(name, "1"), "a"));
    }
    let pod = object(json!({ "containers": container("3"), "priority": -1 }));
    let found = suggestions(&mut state, &pod);
    let removal = found.iter().find(|text| text.starts_with("remove")).unwrap();
    assert_eq!(removal, "remove 2 pods from a: ns/x (priority 0), ns/y (priority 0) → a");
}

#[test]
fn a_pod_that_no_change_helps_gets_no_suggestion() {
    let mut state = Reconstruction::default();
    let impossible = object(json!({ "containers": container("1"), "nodeName": null,
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } } } }));
    assert!(pod::decode(impossible.to_string().as_bytes()).is_ok());
    assert_eq!(suggestions(&mut state, &impossible), Vec::<String>::new(), "without nodes nothing fits");
}
