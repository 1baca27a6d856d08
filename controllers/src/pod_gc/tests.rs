//! Tests of pod garbage collection.

use super::plan::{Missing, Observed, plan};
use crate::action::Action;
use crate::limits::TERMINATED_PODS;
use crate::view::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, from_value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn pod(name: &str, node: &str, phase: &str, deleting: bool) -> Arc<Pod> {
    let mut value = json!({"metadata": {"name": name, "uid": name}, "spec": {"nodeName": node}, "status": {"phase": phase}});
    if deleting {
        value["metadata"]["deletionTimestamp"] = json!(START);
    }
    Arc::new(from_value(value).unwrap())
}

fn node(more: Value) -> Node {
    from_value(more).unwrap()
}

fn sweep(pods: &[Arc<Pod>], nodes: &[Node], missing: &mut Missing, at: i64) -> (Vec<String>, Option<u64>) {
    let now = START.checked_add(SignedDuration::from_secs(at)).unwrap();
    let nodes: BTreeMap<&str, &Node> =
        nodes.iter().map(|n| (n.metadata.name.as_deref().unwrap(), n)).collect();
    let plan = plan(Observed { pods, nodes: &nodes }, missing, now);
    let deleted = plan.independent.iter().map(|removal| match removal.last() {
        Some(Action::Delete { target, force: true, .. }) => target.name.clone(),
        other => panic!("{other:?}"),
    });
    (deleted.collect(), plan.wake.map(|w| w.as_secs()))
}

#[test]
fn pods_of_a_missing_node_are_deleted_after_its_quarantine() {
    let pods = [pod("a", "n1", "Running", false), pod("b", "n2", "Running", false)];
    let nodes = [node(json!({"metadata": {"name": "n1"}}))];
    let mut missing = Missing::new();
    assert_eq!(sweep(&pods, &nodes, &mut missing, 0), (vec![], Some(40)));
    assert_eq!(sweep(&pods, &nodes, &mut missing, 39), (vec![], Some(1)));
    assert_eq!(sweep(&pods, &nodes, &mut missing, 40), (vec!["b".to_owned()], None));
    let both = [node(json!({"metadata": {"name": "n1"}})), node(json!({"metadata": {"name": "n2"}}))];
    assert_eq!(sweep(&pods, &both, &mut missing, 41), (vec![], None));
    assert!(missing.is_empty());
    assert_eq!(sweep(&pods, &nodes, &mut missing, 42), (vec![], Some(40)), "its time starts anew");
}

#[test]
fn a_collected_pod_is_marked_failed_before_its_deletion() {
    let pods = [pod("b", "n2", "Running", false)];
    let mut missing = Missing::from([("n2".to_owned(), START)]);
    let now = START.checked_add(SignedDuration::from_secs(60)).unwrap();
    let plan = plan(Observed { pods: &pods, nodes: &BTreeMap::new() }, &mut missing, now);
    let [removal] = &plan.independent[..] else { panic!("{plan:?}") };
    let [Action::Patch { patch, status: true, .. }, Action::Delete { .. }] = &removal[..] else {
        panic!("{removal:?}")
    };
    assert_eq!(patch["status"]["phase"], "Failed");
    assert_eq!(patch["status"]["conditions"][0]["reason"], "DeletionByPodGC");
}

#[test]
fn unscheduled_and_out_of_service_terminating_pods_are_deleted() {
    let taint = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    let nodes = [
        node(json!({"metadata": {"name": "down"}, "spec": {"taints": taint}})),
        node(json!({"metadata": {"name": "up"}, "spec": {"taints": taint},
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]}})),
    ];
    let pods = [
        pod("unscheduled", "", "Pending", true),
        pod("waiting", "", "Pending", false),
        pod("stuck", "down", "Running", true),
        pod("staying", "down", "Running", false),
        pod("ending", "up", "Running", true),
    ];
    assert_eq!(sweep(&pods, &nodes, &mut Missing::new(), 0).0, ["unscheduled", "stuck"]);
}

#[test]
fn the_oldest_ended_pods_above_the_limit_are_deleted() {
    let nodes = [node(json!({"metadata": {"name": "n"}}))];
    let mut pods: Vec<Arc<Pod>> =
        (0..TERMINATED_PODS).map(|i| pod(&format!("p{i:05}"), "n", "Succeeded", false)).collect();
    assert_eq!(sweep(&pods, &nodes, &mut Missing::new(), 0).0, [""; 0]);
    pods.push(pod("p99999", "n", "Failed", false));
    assert_eq!(sweep(&pods, &nodes, &mut Missing::new(), 0).0, ["p00000"]);
}
