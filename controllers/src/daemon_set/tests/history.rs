//! Tests of the revision history of a DaemonSet.

use super::super::plan::rename_revision;
use super::moves;
use super::world::SimulatedCluster;
use crate::action::Action;
use crate::revision::POD_LABEL;
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::json;

#[test]
fn a_new_template_gets_a_revision_first_and_a_restored_one_reuses_its_own() {
    let mut world = SimulatedCluster::settled(json!({}), &["n1"]);
    let first = world.hash();
    world.roll("agent:2");
    let work = world.run();
    assert_eq!((work.revisions.len(), moves(&work).len()), (1, 0));
    world.settle();
    let second = world.hash();
    assert_ne!(first, second);
    assert!(world.pods.values().all(|pod| pod.metadata.labels[POD_LABEL] == second));
    world.roll("agent:1");
    world.settle();
    assert_eq!((world.hash(), world.revisions.len()), (first, 2));
    assert_eq!(world.revisions.iter().map(|r| r.revision).max(), Some(3));
}

#[test]
fn equal_revisions_are_merged_and_their_pods_relabelled() {
    let mut world = SimulatedCluster::settled(json!({}), &["n1", "n2"]);
    let (kept, name) = (world.hash(), world.pods.keys().next().unwrap().clone());
    let mut copy = world.revisions[0].clone();
    copy.metadata.name = Some("copy".into());
    copy.metadata.labels.as_mut().unwrap().insert(POD_LABEL.into(), "copy".into());
    copy.revision = 0;
    world.revisions.push(copy);
    world.pods.get_mut(&name).unwrap().metadata.labels.insert(POD_LABEL.into(), "copy".into());
    world.run();
    assert_eq!((world.revisions.len(), world.hash()), (1, kept.clone()));
    assert_eq!(world.pods[&name].metadata.labels[POD_LABEL], kept);
    assert_eq!(moves(&world.run()), [""; 0], "no pod was replaced");
}

#[test]
fn a_revision_without_a_hash_gets_its_name() {
    let mut world = SimulatedCluster::settled(json!({}), &["n1"]);
    world.revisions[0].metadata.labels.as_mut().unwrap().remove(POD_LABEL);
    world.run();
    assert_eq!(Some(world.hash()), world.revisions[0].metadata.name);
}

#[test]
fn unused_revisions_beyond_the_limit_are_deleted() {
    let spec = json!({"revisionHistoryLimit": 1, "updateStrategy": {"type": "OnDelete"}});
    let mut world = SimulatedCluster::settled(spec, &["n1"]);
    let first = world.hash();
    for image in ["agent:2", "agent:3", "agent:4"] {
        world.roll(image);
        world.settle();
    }
    let hashes: Vec<_> =
        world.revisions.iter().map(|r| r.metadata.labels.as_ref().unwrap()[POD_LABEL].clone()).collect();
    assert_eq!(hashes, [first, world.hash()], "that of its pod, and the newest");
}

#[test]
fn a_name_collision_increments_the_collision_count() {
    let world = SimulatedCluster::new(json!({}), &[]);
    let Action::UpdateStatus(set) = rename_revision(&world.set) else { panic!() };
    let set: DaemonSet = set.typed().unwrap();
    assert_eq!(set.status.unwrap().collision_count, Some(1));
}
