//! Tests of the DaemonSet plan, with tables and a simulated cluster with random changes of nodes and pods.

mod history;
mod manage;
mod nodes;
mod properties;
mod update;
mod world;

use super::backoff::Backoff;
use super::plan::PlannedWrites;
use super::pod::{Version, for_node, node_of, template};
use crate::action::Action;
use crate::view::Pod;
use jiff::SignedDuration;
use serde_json::{from_value, json};
use std::time::Duration;
use world::{START, SimulatedCluster, set};

/// Pod changes of a run as text: `create on n1`, `delete p3`.
fn moves(work: &PlannedWrites) -> Vec<String> {
    let create = work.create.iter().map(|object| {
        let pod: Pod = serde_json::from_str(object.json()).unwrap();
        format!("create on {}", node_of(&pod).unwrap())
    });
    create.chain(work.delete.iter().map(|pod| format!("delete {}", pod.metadata.name))).collect()
}

/// Events of a run as `reason: message`.
fn events(actions: &[Action]) -> Vec<String> {
    let text = |action: &Action| match action {
        Action::Event(event) => Some(format!("{}: {}", event.reason, event.message)),
        _ => None,
    };
    actions.iter().filter_map(text).collect()
}

#[test]
fn daemon_pods_have_node_affinity_and_daemon_tolerations() {
    let mut set = set(json!({}));
    let spec = set.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    let preferred =
        json!([{"weight": 1, "preference": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}}]);
    spec.affinity = from_value(json!({"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]},
    }}))
    .unwrap();
    let generation = [("deprecated.daemonset.template.generation".to_owned(), "3".to_owned())];
    set.metadata.annotations = Some(generation.into());
    let pod = for_node(&template(&set, Version::of(&set, "abc")), "n1");
    let json = serde_json::to_value(&pod).unwrap();
    assert_eq!(
        json["spec"]["affinity"],
        json!({"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
        }})
    );
    assert_eq!(
        json["metadata"]["labels"],
        json!({"app": "agent", "controller-revision-hash": "abc", "pod-template-generation": "3"})
    );
    assert_eq!(json["metadata"]["generateName"], "agent-");
    assert_eq!(json["metadata"]["ownerReferences"][0]["kind"], "DaemonSet");
    assert_eq!(json["spec"]["tolerations"].as_array().unwrap().len(), 6);
    let seen: Pod = from_value(json).unwrap();
    assert_eq!(node_of(&seen), Some("n1"), "as the cache shows it");
}

#[test]
fn failed_pod_back_off_doubles_up_to_fifteen_minutes() {
    let after = |seconds: i64| START.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    let mut backoff = Backoff::default().of("u", 1, START);
    assert_eq!(backoff.wait("n1", START), None);
    let mut now = 0;
    for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
        backoff.advance("n1", after(now));
        assert_eq!(backoff.wait("n1", after(now)), Some(Duration::from_secs(expected)), "{expected}");
        assert_eq!(backoff.wait("n2", after(now)), None, "another node");
        now += i64::try_from(expected).unwrap();
        assert_eq!(backoff.wait("n1", after(now)), None);
    }
    let kept = backoff.of("u", 1, after(now));
    assert_eq!(kept, backoff);
    assert_eq!(
        backoff.of("u", 2, after(now)),
        Backoff::default().of("u", 2, START),
        "a new generation begins anew"
    );
    assert_eq!(backoff.of("v", 1, after(now)), Backoff::default().of("v", 1, START), "another set too");
    let mut late = backoff.of("u", 1, after(now + 1000));
    late.advance("n1", after(now + 1000));
    assert_eq!(late.wait("n1", after(now + 1000)), Some(Duration::from_secs(1)), "long without failure");
}

#[test]
fn the_daemon_set_status_counts_one_pod_per_node() {
    let mut world = SimulatedCluster::new(json!({"minReadySeconds": 10}), &["n1", "n2", "n3", "n4"]);
    world.taint("n4", "NoSchedule");
    world.pod("old", "n1", json!({"hash": "old", "ready": 100}));
    world.pod("surplus", "n1", json!({}));
    world.pod("new", "n2", json!({"ready": 4}));
    world.pod("stray", "n4", json!({"ready": 100}));
    let work = world.run();
    let status = world.set.status.clone().unwrap();
    assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (3, 2));
    assert_eq!((status.number_misscheduled, status.number_ready), (1, 2));
    assert_eq!((status.number_available, status.number_unavailable), (Some(1), Some(2)));
    assert_eq!((status.updated_number_scheduled, status.observed_generation), (Some(1), Some(1)));
    assert_eq!(work.wake.map(|w| w.as_secs()), Some(6));
}
