//! Tests of the eligibility of nodes.

use super::super::placement::{Eligibility, Placement, tolerations};
use Eligibility::{Keep, Leave, Run};
use k8s_openapi::api::core::v1::{Node, PodSpec};
use serde_json::{Value, from_value, json};

fn evaluate(spec: &Value, node: &Value) -> Eligibility {
    let spec: PodSpec = from_value(spec.clone()).unwrap();
    let node: Node = from_value(node.clone()).unwrap();
    Placement::of(&spec).evaluate(&node)
}

fn with(mut spec: Value) -> Value {
    spec["containers"] = json!([]);
    spec
}

fn required(terms: &Value) -> Value {
    with(json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}))
}

#[test]
fn name_selector_and_affinity_must_match() {
    let node = json!({"metadata": {"name": "n1", "labels": {"disk": "ssd", "size": "8"}}});
    let expression = |key: &str, operator: &str, values: Value| {
        required(&json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
    };
    let field = |operator: &str, name: &str| {
        required(
            &json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]}]),
        )
    };
    let table = [
        (with(json!({})), Run),
        (with(json!({"nodeName": "n1"})), Run),
        (with(json!({"nodeName": "n2"})), Leave),
        (with(json!({"nodeSelector": {"disk": "ssd"}})), Run),
        (with(json!({"nodeSelector": {"disk": "hdd"}})), Leave),
        (with(json!({"nodeSelector": {"disk": "ssd", "zone": "a"}})), Leave),
        (expression("disk", "In", json!(["hdd", "ssd"])), Run),
        (expression("disk", "NotIn", json!(["ssd"])), Leave),
        (expression("zone", "NotIn", json!(["a"])), Run),
        (expression("zone", "In", json!(["a"])), Leave),
        (expression("disk", "Exists", json!([])), Run),
        (expression("zone", "Exists", json!([])), Leave),
        (expression("zone", "DoesNotExist", json!([])), Run),
        (expression("size", "Gt", json!(["7"])), Run),
        (expression("size", "Gt", json!(["8"])), Leave),
        (expression("size", "Lt", json!(["9"])), Run),
        (expression("size", "Lt", json!(["8"])), Leave),
        (expression("disk", "Gt", json!(["1"])), Leave),
        (expression("disk", "Like", json!(["ssd"])), Leave),
        (field("In", "n1"), Run),
        (field("In", "n2"), Leave),
        (field("NotIn", "n1"), Leave),
        (required(&json!([])), Leave),
        (required(&json!([{}])), Leave),
        (
            required(
                &json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]},
                          {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]),
            ),
            Run,
        ),
        (
            required(&json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                           "matchExpressions": [{"key": "zone", "operator": "Exists"}]}])),
            Leave,
        ),
    ];
    for (spec, expected) in table {
        assert_eq!(evaluate(&spec, &node), expected, "{spec}");
    }
}

#[test]
fn untolerated_taints_prevent_or_delete_daemon_pods() {
    let tainted = |key: &str, effect: &str| json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": key, "effect": effect, "value": "v"}]}});
    let tolerating = |toleration: Value| with(json!({"tolerations": [toleration]}));
    let (none, host) = (with(json!({})), with(json!({"hostNetwork": true})));
    let network = "node.kubernetes.io/network-unavailable";
    let table = [
        (&none, tainted("t", "NoSchedule"), Keep),
        (&none, tainted("t", "NoExecute"), Leave),
        (&none, tainted("t", "PreferNoSchedule"), Run),
        (&none, tainted("node.kubernetes.io/not-ready", "NoExecute"), Run),
        (&none, tainted("node.kubernetes.io/unreachable", "NoExecute"), Run),
        (&none, tainted("node.kubernetes.io/not-ready", "NoSchedule"), Keep),
        (&none, tainted("node.kubernetes.io/disk-pressure", "NoSchedule"), Run),
        (&none, tainted("node.kubernetes.io/memory-pressure", "NoSchedule"), Run),
        (&none, tainted("node.kubernetes.io/pid-pressure", "NoSchedule"), Run),
        (&none, tainted("node.kubernetes.io/unschedulable", "NoSchedule"), Run),
        (&none, tainted("node.kubernetes.io/out-of-service", "NoExecute"), Leave),
        (&none, tainted(network, "NoSchedule"), Keep),
        (&host, tainted(network, "NoSchedule"), Run),
        (&tolerating(json!({"operator": "Exists"})), tainted("t", "NoExecute"), Run),
        (&tolerating(json!({"key": "t", "value": "v"})), tainted("t", "NoSchedule"), Run),
        (&tolerating(json!({"key": "t", "value": "w"})), tainted("t", "NoSchedule"), Keep),
        (
            &tolerating(json!({"key": "t", "operator": "Exists", "effect": "NoSchedule"})),
            tainted("t", "NoExecute"),
            Leave,
        ),
    ];
    for (spec, node, expected) in table {
        assert_eq!(evaluate(spec, &node), expected, "{spec} {node}");
    }
}

#[test]
fn a_toleration_with_other_seconds_is_replaced() {
    let own = |operator: &str| json!({"key": "node.kubernetes.io/not-ready", "operator": operator, "effect": "NoExecute", "tolerationSeconds": 30});
    let all = |own: Value| tolerations(&from_value(with(json!({"tolerations": [own]}))).unwrap());
    let replaced = all(own("Exists"));
    assert_eq!((replaced.len(), replaced[0].toleration_seconds), (6, None));
    let added = all(own("Equal"));
    assert_eq!((added.len(), added[0].toleration_seconds), (7, Some(30)));
}
