//! NodeDeclaredFeatureValidator.

use super::{Case, Operation, pod};
use serde_json::{Value, json};

/// A bound pod with an init container, a sidecar and resources of its own.
fn bound(init: &str, sidecar: &str, whole: &str) -> Value {
    let sized = |cpu: &str| json!({ "requests": { "cpu": cpu } });
    pod(json!({
        "nodeName": "n", "resources": sized(whole), "containers": [{ "name": "c", "image": "i" }],
        "initContainers": [
            { "name": "a", "image": "i", "resources": sized(init) },
            { "name": "b", "image": "i", "restartPolicy": "Always", "resources": sized(sidecar) },
        ],
    }))
}

#[test]
fn a_bound_pod_is_changed_only_by_features_that_its_node_declares() {
    const WHOLE: &str = "InPlacePodLevelResourcesVerticalScaling";
    const INIT: &str = "InPlacePodVerticalScalingInitContainers";
    let ask = |declared: &[&str], subresource: &'static str, new: Value| {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": { "kubernetes.io/os": "linux" } },
            "status": { "allocatable": { "cpu": "9", "memory": "1Gi" }, "declaredFeatures": declared },
        });
        let old = bound("1", "1", "3");
        let mut new = new;
        new["metadata"]["generation"] = if new == old { Value::Null } else { json!(2) };
        let case = Case { operation: Operation::Update, subresource, old: Some(old), ..Case::create([node]) };
        case.admit(new).err().map_or_else(String::new, |status| {
            assert_eq!(status.code, 403);
            status.message.trim_start_matches("pods \"p\" is forbidden: ").to_owned()
        })
    };
    let lacks = |features: &str| {
        format!("pod update requires features {features} which are not available on node \"n\"")
    };
    assert_eq!(ask(&[], "resize", bound("1", "1", "3")), "", "nothing changes");
    assert_eq!(ask(&[], "resize", bound("1", "2", "3")), "", "sidecars are resized on every node");
    assert_eq!(ask(&[], "resize", bound("2", "1", "3")), lacks(INIT));
    assert_eq!(ask(&[WHOLE], "resize", bound("2", "1", "3")), lacks(INIT));
    assert_eq!(ask(&[INIT], "resize", bound("2", "1", "3")), "");
    assert_eq!(ask(&[], "resize", bound("2", "1", "4")), lacks(&format!("{WHOLE}, {INIT}")));
    assert_eq!(ask(&[INIT, WHOLE], "resize", bound("2", "1", "4")), "");
    assert_eq!(ask(&[], "status", bound("2", "1", "4")), "", "a status changes no spec");
    let mut elsewhere = bound("2", "1", "3");
    elsewhere["spec"]["nodeName"] = json!("gone");
    assert_eq!(ask(&[], "resize", elsewhere), "node \"gone\" not found");
}
