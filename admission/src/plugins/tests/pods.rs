//! Pods with runtime classes, and on nodes with topology labels.

use super::{Case, Operation, TestRequest, pod};
use crate::subject::Subject;
use kstore_registry::lookup::core;
use kstore_registry::testing::MapLookup;
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};

fn class(name: &str, extra: &Value) -> Value {
    let mut class = json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": name }, "handler": "h" });
    class.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    class
}

#[test]
fn a_pod_gets_overhead_and_scheduling_of_its_runtime_class() {
    let toleration = json!({ "key": "rt", "operator": "Exists" });
    let heavy = json!({ "overhead": { "podFixed": { "cpu": "10m" } },
        "scheduling": { "nodeSelector": { "rt": "a" }, "tolerations": [toleration] } });
    let case = Case::create([class("heavy", &heavy), class("plain", &json!({}))]);
    let admit = |spec: Value| {
        let admitted = case.admit(pod(spec)).map_err(|status| status.message);
        admitted.map(|pod| pod["spec"].clone())
    };
    let spec = admit(json!({ "runtimeClassName": "heavy", "nodeSelector": { "x": "y" } })).unwrap();
    assert_eq!(spec["overhead"], json!({ "cpu": "10m" }));
    assert_eq!(spec["nodeSelector"], json!({ "rt": "a", "x": "y" }));
    assert!(spec["tolerations"].as_array().unwrap().contains(&toleration));
    assert!(admit(json!({ "runtimeClassName": "heavy", "overhead": { "cpu": "0.01" } })).is_ok());
    assert!(admit(json!({ "runtimeClassName": "plain" })).unwrap()["overhead"].is_null());
    for (spec, want) in [
        (json!({ "runtimeClassName": "none" }), r#"pod rejected: RuntimeClass "none" not found"#),
        (
            json!({ "runtimeClassName": "heavy", "overhead": { "cpu": "20m" } }),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({ "runtimeClassName": "plain", "overhead": { "cpu": "20m" } }),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({ "overhead": { "cpu": "20m" } }),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({ "runtimeClassName": "heavy", "nodeSelector": { "rt": "b" } }),
            "conflict: runtimeClass.scheduling.nodeSelector[rt] = a; pod.spec.nodeSelector[rt] = b",
        ),
    ] {
        assert_eq!(admit(spec), Err(format!("pods \"p\" is forbidden: {want}")));
    }
    let update = Case { operation: Operation::Update, ..Case::create([]) };
    assert!(update.admit(pod(json!({ "runtimeClassName": "none" }))).is_ok(), "only new pods are judged");
}

#[test]
fn a_pod_gets_the_topology_labels_of_its_node() {
    let labels =
        json!({ "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o" });
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": labels } });
    let case = Case::create([node.clone()]);
    let place = json!({ "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r" });
    assert_eq!(case.admit(pod(json!({ "nodeName": "n" }))).unwrap()["metadata"]["labels"], place);
    assert!(case.admit(pod(json!({}))).unwrap()["metadata"]["labels"].is_null());
    assert!(case.admit(pod(json!({ "nodeName": "missing" }))).is_ok());
    let mut own = pod(json!({ "nodeName": "n" }));
    own["metadata"]["labels"] = json!({ "topology.kubernetes.io/zone": "mine" });
    assert_eq!(case.admit(own).unwrap()["metadata"]["labels"]["topology.kubernetes.io/zone"], "mine");
    let admission = super::chain(MapLookup::of([node]));
    let bind = |kind: &str| {
        let mut binding = json!({ "metadata": { "name": "p" }, "target": { "kind": kind, "name": "n" } });
        let subject = Subject {
            user: &UserInfo::new("scheduler", [""; 0]),
            operation: Operation::Create,
            resource: core("pods"),
            subresource: "binding",
            namespace: "a",
            name: "p",
            seed: 0,
        };
        TestRequest::new(&admission, subject).admit_unstored(&mut binding).unwrap();
        binding["metadata"]["labels"].clone()
    };
    assert_eq!((bind("Node"), bind("Other")), (place, Value::Null));
}
