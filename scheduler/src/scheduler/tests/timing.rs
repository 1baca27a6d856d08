//! Tests of the time of a decision: it must not depend on the number of pods that run already.

use super::*;
use crate::pod::WorkloadKind;
use crate::testing::{decode_node, pod, processor_time, set};
use crate::workloads::decode_labels;
use std::time::Duration;

/// The processor time of 50 decisions for pods with this label `app`, beside as many pods `app=web` of a Service on each of
/// `nodes` nodes.
fn decisions(nodes: usize, pods_per_node: usize, app: &str) -> Duration {
    let mut s = scheduler();
    let service =
        json!({ "metadata": { "namespace": "ns", "name": "web" }, "spec": { "selector": { "app": "web" } } });
    s.workload(WorkloadChange { kind: WorkloadKind::Service, change: set(&service, decode_labels) });
    let labelled = |name: &str, app: &str| {
        with(&pod(name, json!({})), |pod| drop(pod.labels.insert("app".into(), app.into())))
    };
    for n in 0..nodes {
        let (name, zone) = (format!("n{n}"), format!("z{}", n % 3));
        let labels = json!({ "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone });
        let status = json!({ "allocatable": { "cpu": "100", "memory": "64Gi", "pods": "1000" } });
        let node = json!({ "metadata": { "name": name, "labels": labels }, "status": status });
        s.node(Change::Set(decode_node(&node)), at(0));
        for p in 0..pods_per_node {
            s.pod(Change::Set(on(&labelled(&format!("{name}-{p}"), "web"), &name)), at(0));
        }
    }
    let mut round = |round: usize| {
        for p in 0..50 {
            s.pod(Change::Set(labelled(&format!("new-{round}-{p}"), app)), at(0));
        }
        let began = processor_time();
        (0..50).for_each(|_| drop(bind(&mut s, 0)));
        processor_time() - began
    };
    // The first round counts all pods once.
    round(0);
    (1..8).map(round).min().unwrap()
}

#[test]
fn a_decision_for_a_pod_of_a_service_does_not_look_at_all_its_pods() {
    let (few, many) = (decisions(300, 2, "web"), decisions(300, 60, "web"));
    // To count thirty times as many pods for each decision would take thirty times as long.
    assert!(many < few * 4, "2 pods on each node: {few:?}, 60 pods: {many:?}");
    let other = decisions(300, 60, "other");
    println!("50 decisions over 300 nodes: {few:?} and {many:?} of a Service, {other:?} of none");
}
