//! Tests of updates to a new template.

use super::moves;
use super::world::{START, SimulatedCluster, rolling};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// A DaemonSet with a new template and an available old pod on each node: `old-n1`, …
fn outdated(unavailable: serde_json::Value, surge: serde_json::Value) -> SimulatedCluster {
    let mut world = SimulatedCluster::new(rolling(unavailable, surge), &NODES);
    for node in NODES {
        world.pod(&format!("old-{node}"), node, json!({"hash": "old", "ready": 99}));
    }
    world
}

#[test]
fn max_unavailable_bounds_the_deletion_of_available_old_pods() {
    let first = |unavailable| moves(&outdated(unavailable, json!(0)).run());
    assert_eq!(first(json!(1)), ["delete old-n1"]);
    assert_eq!(first(json!(2)), ["delete old-n1", "delete old-n2"]);
    assert_eq!(first(json!("30%")), ["delete old-n1", "delete old-n2"], "of four, rounded up");
    assert_eq!(first(json!("0%")), ["delete old-n1"], "or nothing could ever move");
    let mut world = outdated(json!(1), json!(0));
    world.run();
    assert_eq!(moves(&world.run()), [""; 0], "it is on its way out");
    world.pods.remove("old-n1");
    assert_eq!(moves(&world.run()), ["create on n1"]);
    assert_eq!(moves(&world.run()), [""; 0], "the new pod is not available");
    world.obey_all();
    assert_eq!(moves(&world.run()), ["delete old-n2"]);
}

#[test]
fn unavailable_old_pods_are_replaced_first_and_counted() {
    let mut world = outdated(json!(2), json!(0));
    world.unready("old-n3");
    assert_eq!(moves(&world.run()), ["delete old-n3", "delete old-n1"]);
    let mut world = outdated(json!(1), json!(0));
    world.unready("old-n3");
    world.unready("old-n4");
    assert_eq!(moves(&world.run()), ["delete old-n3", "delete old-n4"]);
}

#[test]
fn min_ready_seconds_slow_the_update_down() {
    let mut world = outdated(json!(1), json!(0));
    world.set.spec.as_mut().unwrap().min_ready_seconds = Some(30);
    world.run();
    world.pods.remove("old-n1");
    world.run();
    let new = world.on("n1").remove(0);
    world.make_ready(&new, 10);
    let work = world.run();
    assert_eq!((moves(&work), work.wake.map(|w| w.as_secs())), (vec![], Some(20)));
    world.make_ready(&new, 30);
    assert_eq!(moves(&world.run()), ["delete old-n2"]);
}

#[test]
fn surge_creates_new_pods_before_deleting_old_ones() {
    let first = |surge| moves(&outdated(json!(0), surge).run());
    assert_eq!(first(json!(1)), ["create on n1"]);
    assert_eq!(first(json!("30%")), ["create on n1", "create on n2"], "of four, rounded up");
    let mut world = outdated(json!(0), json!(1));
    world.run();
    assert_eq!(moves(&world.run()), [""; 0], "the new pod is not available");
    world.obey_all();
    assert_eq!(moves(&world.run()), ["delete old-n1"]);
    world.pods.remove("old-n1");
    assert_eq!(moves(&world.run()), ["create on n2"]);
}

#[test]
fn surge_does_not_wait_for_unavailable_old_pods() {
    let mut world = outdated(json!(0), json!(1));
    world.unready("old-n2");
    world.unready("old-n3");
    assert_eq!(moves(&world.run()), ["create on n2", "create on n3", "create on n1"]);
    assert_eq!(moves(&world.run()), ["delete old-n2", "delete old-n3"], "they are of no use any more");
}

#[test]
fn surge_allows_one_old_and_one_new_pod_per_node() {
    let mut world = outdated(json!(0), json!(1));
    world.pod("old-2", "n1", json!({"hash": "old", "ready": 9}));
    world.pod("new-1", "n1", json!({}));
    world.pod("new-2", "n1", json!({}));
    assert_eq!(moves(&world.run()), ["delete new-2", "delete old-2"]);
}

#[test]
fn surge_keeps_pods_of_ineligible_nodes_until_others_are_available() {
    let mut world = outdated(json!(0), json!(1));
    world.taint("n1", "NoSchedule");
    world.unready("old-n2");
    assert_eq!(moves(&world.run()), ["create on n2", "create on n3"], "three available, three wanted");
    let mut world = outdated(json!(0), json!(1));
    world.taint("n1", "NoSchedule");
    assert_eq!(moves(&world.run()), ["create on n2", "delete old-n1"], "four available, three wanted");
    world.taint("n2", "NoSchedule");
    world.unready("old-n2");
    let mut world = outdated(json!(0), json!(1));
    world.taint("n1", "NoSchedule");
    world.unready("old-n1");
    assert_eq!(moves(&world.run()), ["create on n2", "delete old-n1"], "an unavailable one is of no use");
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let mut world = outdated(json!(1), json!(0));
    world.set.spec.as_mut().unwrap().update_strategy.as_mut().unwrap().type_ = Some("OnDelete".into());
    assert_eq!(moves(&world.run()), [""; 0]);
    world.pods.remove("old-n3");
    assert_eq!(moves(&world.run()), ["create on n3"]);
    assert_eq!(world.set.status.as_ref().unwrap().updated_number_scheduled, None);
}

#[test]
fn updates_wait_until_every_node_has_its_pod() {
    let mut world = outdated(json!(4), json!(0));
    world.node("n5");
    assert_eq!(moves(&world.run()), ["create on n5"]);
    assert_eq!(moves(&world.run()).len(), 3, "one of four is unavailable already");
}

#[test]
fn pods_match_their_version_by_template_generation() {
    let mut world = outdated(json!(1), json!(0));
    let annotation = ("deprecated.daemonset.template.generation".to_owned(), "7".to_owned());
    world.set.metadata.annotations = Some([annotation].into());
    for pod in world.pods.values_mut() {
        pod.metadata.labels.insert("pod-template-generation".into(), "7".into());
    }
    assert_eq!(moves(&world.run()), [""; 0]);
    assert_eq!(world.set.status.as_ref().unwrap().updated_number_scheduled, Some(4));
}

#[test]
fn of_several_old_pods_the_oldest_stays_though_a_younger_one_is_ready() {
    // As in `podsShouldBeOnNode`. They become several when the template changes while their node is away.
    let mut world = outdated(json!(0), json!(1));
    world.pod("older-n1", "n1", json!({"hash": "older"}));
    world.pods.get_mut("older-n1").unwrap().metadata.creation_timestamp = Some(Time(START));
    assert_eq!(moves(&world.run()), ["delete old-n1"]);
}
