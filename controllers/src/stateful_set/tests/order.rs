//! Tests of the order of pod creation and deletion.

use super::moves;
use super::world::SimulatedCluster;
use crate::view::Phase;
use serde_json::json;

#[test]
fn ordered_pods_are_created_one_after_another_when_available() {
    let mut world = SimulatedCluster::new(json!({"replicas": 3, "minReadySeconds": 10}));
    world.run();
    assert_eq!(moves(&world.run()), ["create web-0"]);
    assert_eq!(moves(&world.run()), [""; 0], "web-0 is pending");
    world.phase(0, Phase::Running);
    assert_eq!(moves(&world.run()), [""; 0], "web-0 is not ready");
    world.ready(0, 4);
    let work = world.run();
    assert_eq!((moves(&work).len(), work.wake.map(|w| w.as_secs())), (0, Some(6)), "web-0 is not available");
    world.ready(0, 10);
    assert_eq!(moves(&world.run()), ["create web-1"]);
    world.ready(1, 10);
    world.unready(0);
    assert_eq!(moves(&world.run()), [""; 0], "web-0 is no longer ready");
    world.ready(0, 10);
    assert_eq!(moves(&world.run()), ["create web-2"]);
}

#[test]
fn ordinals_start_at_spec_ordinals_start() {
    let mut world = SimulatedCluster::new(json!({"replicas": 2, "ordinals": {"start": 5}}));
    world.settle();
    assert_eq!(world.pods.keys().collect::<Vec<_>>(), ["web-5", "web-6"]);
    // After a move to lower ordinals: new pods first, then the others are deleted, the highest first.
    world.set.spec.as_mut().unwrap().ordinals = None;
    assert_eq!(moves(&world.run()), ["create web-0"]);
    world.ready(0, 0);
    assert_eq!(moves(&world.run()), ["create web-1"]);
    world.ready(1, 0);
    assert_eq!(moves(&world.run()), ["delete web-6"]);
    world.remove(6);
    assert_eq!(moves(&world.run()), ["delete web-5"]);
}

#[test]
fn scale_down_deletes_the_highest_ordinal_first_and_waits() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 4}));
    world.scale(2);
    assert_eq!(moves(&world.run()), ["delete web-3"]);
    assert_eq!(moves(&world.run()), [""; 0], "web-3 is on its way out");
    world.remove(3);
    world.unready(0);
    assert_eq!(moves(&world.run()), [""; 0], "a lower ordinal is not ready");
    world.ready(0, 0);
    assert_eq!(moves(&world.run()), ["delete web-2"]);
    world.remove(2);
    assert_eq!(moves(&world.run()), [""; 0]);
}

#[test]
fn scale_down_deletes_only_the_lowest_unavailable_pod() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 3}));
    world.scale(0);
    world.unready(1);
    world.unready(2);
    assert_eq!(moves(&world.run()), [""; 0], "web-2 waits for web-1");
    world.ready(1, 0);
    assert_eq!(moves(&world.run()), ["delete web-2"], "the only unavailable one");
    // As upstream: ended pods never become available, so a user has to delete the lower one.
    world.remove(2);
    world.phase(0, Phase::Failed);
    world.phase(1, Phase::Failed);
    assert_eq!(moves(&world.run()), [""; 0]);
    world.remove(0);
    assert_eq!(moves(&world.run()), ["delete web-1"]);
}

#[test]
fn parallel_sets_create_and_delete_all_at_once() {
    let mut world = SimulatedCluster::new(json!({"replicas": 3, "podManagementPolicy": "Parallel"}));
    world.run();
    let work = world.run();
    assert_eq!(
        (work.is_parallel, moves(&work)),
        (true, ["create web-0", "create web-1", "create web-2"].map(String::from).to_vec())
    );
    world.phase(1, Phase::Failed);
    assert_eq!(moves(&world.run()), ["delete web-1"]);
    world.scale(0);
    assert_eq!(moves(&world.run()), ["delete web-2", "delete web-0"]);
}

#[test]
fn parallel_pod_creation_is_bounded_per_run() {
    let mut world =
        SimulatedCluster::new(json!({"replicas": 1_000_000_000, "podManagementPolicy": "Parallel"}));
    world.run();
    assert_eq!(moves(&world.run()).len(), crate::limits::STATEFUL_BURST);
    let work = world.run();
    assert_eq!(moves(&work)[0], format!("create web-{}", crate::limits::STATEFUL_BURST));
}

#[test]
fn ended_pods_are_deleted_and_then_recreated() {
    for phase in [Phase::Failed, Phase::Succeeded] {
        let mut world = SimulatedCluster::settled(json!({"replicas": 3}));
        world.phase(1, phase);
        assert_eq!(moves(&world.run()), ["delete web-1"]);
        assert_eq!(moves(&world.run()), [""; 0], "it is not deleted again");
        world.remove(1);
        assert_eq!(moves(&world.run()), ["create web-1"]);
    }
}

#[test]
fn a_terminating_pod_is_not_replaced() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 2}));
    // The node is unreachable: the pod stays forever.
    world.terminate(0);
    world.remove(1);
    assert_eq!(moves(&world.run()), [""; 0]);
    world.remove(0);
    assert_eq!(moves(&world.run()), ["create web-0"]);
    let mut world = SimulatedCluster::settled(json!({"replicas": 2, "podManagementPolicy": "Parallel"}));
    world.terminate(0);
    world.remove(1);
    assert_eq!(moves(&world.run()), ["create web-1"], "the others do not wait");
}
