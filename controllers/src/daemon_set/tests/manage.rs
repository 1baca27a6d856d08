//! Tests of missing, surplus, ended and misplaced pods.

use super::super::plan::PlannedWrites;
use super::world::{SimulatedCluster, rolling};
use super::{events, moves};
use crate::limits::DAEMON_BURST;
use crate::view::Phase;
use jiff::SignedDuration;
use serde_json::json;

#[test]
fn every_node_gets_a_pod_and_new_nodes_too() {
    let mut world = SimulatedCluster::new(json!({}), &["n1", "n2"]);
    assert_eq!(moves(&world.run()), ["create on n1", "create on n2"]);
    assert_eq!(moves(&world.run()), [""; 0], "pods that are not bound yet count");
    world.node("n3");
    assert_eq!(moves(&world.run()), ["create on n3"]);
}

#[test]
fn taints_keep_or_delete_daemon_pods() {
    let mut world = SimulatedCluster::new(json!({}), &["n1", "n2", "n3"]);
    world.taint("n1", "NoSchedule");
    world.taint("n2", "NoExecute");
    world.pod("a", "n1", json!({"ready": 9}));
    world.pod("b", "n2", json!({"ready": 9}));
    assert_eq!(moves(&world.run()), ["create on n3", "delete b"]);
    world.pods.remove("a");
    world.pods.remove("b");
    assert_eq!(moves(&world.run()), [""; 0]);
    world.untaint("n1");
    assert_eq!(moves(&world.run()), ["create on n1"]);
}

#[test]
fn the_oldest_bound_pod_of_a_node_is_kept() {
    let mut world = SimulatedCluster::new(json!({}), &["n1"]);
    world.pod("unbound", "n1", json!({}));
    let unbound = world.pods.get_mut("unbound").unwrap();
    unbound.spec.affine_node = std::mem::take(&mut unbound.spec.node_name);
    world.pod("older", "n1", json!({}));
    world.pod("newer", "n1", json!({"ready": 9}));
    world.pod("leaving", "n1", json!({"deleting": true}));
    assert_eq!(moves(&world.run()), ["delete newer", "delete unbound"]);
}

#[test]
fn a_terminating_pod_delays_its_successor_without_surge() {
    for (surge, expected) in [(json!(0), vec![]), (json!(1), vec!["create on n1".to_owned()])] {
        let mut world = SimulatedCluster::new(rolling(json!(1), surge.clone()), &["n1"]);
        world.pod("a", "n1", json!({"deleting": true}));
        assert_eq!(moves(&world.run()), expected, "{surge}");
        // An ended and terminating pod only waits for its removal.
        world.pods.retain(|name, _| name == "a");
        world.pods.get_mut("a").unwrap().status.phase = Phase::Failed;
        assert_eq!(moves(&world.run()), ["create on n1"], "{surge}");
    }
}

#[test]
fn ended_pods_are_deleted_with_an_event_and_failed_ones_with_back_off() {
    let mut world = SimulatedCluster::new(json!({}), &["n1"]);
    world.pod("a", "n1", json!({"phase": "Succeeded"}));
    let work = world.run();
    assert_eq!(moves(&work), ["delete a"]);
    assert_eq!(
        events(&work.events),
        ["SucceededDaemonPod: Found succeeded daemon pod default/a on node n1, will try to delete it"]
    );
    world.pods.clear();
    world.pod("b", "n1", json!({"phase": "Failed"}));
    let work = world.run();
    assert_eq!(moves(&work), ["delete b"]);
    assert_eq!(
        events(&work.events),
        ["FailedDaemonPod: Found failed daemon pod default/b on node n1, will try to kill it"]
    );
    for wait in [1, 2, 4] {
        world.pods.clear();
        world.pod("c", "n1", json!({"phase": "Failed"}));
        let work = world.run();
        assert_eq!((moves(&work), work.wake.map(|w| w.as_secs())), (vec![], Some(wait)));
        world.now = world.now.checked_add(SignedDuration::from_secs(i64::try_from(wait).unwrap())).unwrap();
        assert_eq!(moves(&world.run()), ["delete c"]);
    }
}

#[test]
fn surge_creates_no_pod_beside_a_failed_pod_in_back_off() {
    let mut world = SimulatedCluster::settled(rolling(json!(0), json!(1)), &["n1"]);
    world.pods.clear();
    world.pod("a", "n1", json!({"phase": "Failed"}));
    assert_eq!(moves(&world.run()), ["create on n1", "delete a"]);
    world.pods.clear();
    world.pod("b", "n1", json!({"phase": "Failed"}));
    assert_eq!(moves(&world.run()), [""; 0]);
}

#[test]
fn unscheduled_pods_of_missing_nodes_are_deleted() {
    let mut world = SimulatedCluster::new(json!({}), &["n1"]);
    world.run();
    world.pod("bound", "gone", json!({"ready": 9}));
    world.nodes.clear();
    let unbound = world.pods.keys().next().unwrap().clone();
    assert_eq!(moves(&world.run()), [format!("delete {unbound}")]);
}

#[test]
fn bursts_are_bounded() {
    let names: Vec<_> = (0..DAEMON_BURST + 7).map(|i| format!("n{i}")).collect();
    let mut world = SimulatedCluster::new(json!({}), &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(world.run().create.len(), DAEMON_BURST);
    assert_eq!(world.run().create.len(), 7);
    names.iter().for_each(|name| world.taint(name, "NoExecute"));
    assert_eq!(world.run().delete.len(), DAEMON_BURST);
    assert_eq!(world.run().delete.len(), 7);
}

#[test]
fn empty_selectors_and_terminating_daemon_sets_do_nothing() {
    let mut world = SimulatedCluster::new(json!({}), &["n1"]);
    world.set.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert_eq!(world.plan(), PlannedWrites::default());
    let world = SimulatedCluster::new(json!({"selector": {}}), &["n1"]);
    let work = world.plan();
    assert_eq!(
        events(&work.events),
        ["SelectingAll: This daemon set is selecting all pods. A non-empty selector is required."]
    );
    assert_eq!(moves(&work), [""; 0]);
}
