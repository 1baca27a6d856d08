//! Tests of updates to a new template.

use super::world::SimulatedCluster;
use super::{events, moves};
use crate::view::Phase;
use serde_json::json;

#[test]
fn rolling_updates_proceed_from_the_highest_ordinal_down() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 3}));
    let old = world.revision();
    world.roll("nginx:2");
    world.run();
    assert_eq!(moves(&world.run()), ["delete web-2"]);
    assert_eq!(moves(&world.run()), [""; 0]);
    world.remove(2);
    assert_eq!(moves(&world.run()), ["create web-2"]);
    let label = |world: &SimulatedCluster, name: &str| {
        world.pods[name].metadata.labels["controller-revision-hash"].clone()
    };
    assert_eq!(label(&world, "web-2"), world.revision());
    assert_eq!(moves(&world.run()), [""; 0], "web-2 is not ready");
    world.ready(2, 0);
    assert_eq!(moves(&world.run()), ["delete web-1"]);
    assert_eq!(world.set.status.as_ref().unwrap().current_revision.as_ref(), Some(&old));
    world.settle();
    assert!(world.pods.keys().all(|name| label(&world, name) == world.revision()));
    let status = world.set.status.clone().unwrap();
    assert_eq!(status.current_revision, status.update_revision, "the update is complete");
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(3), Some(3)));
}

#[test]
fn recreated_pods_below_the_partition_keep_their_template() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 4}));
    let old = world.revision();
    world.strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}));
    world.roll("nginx:2");
    world.settle();
    let new = world.revision();
    let labels = |world: &SimulatedCluster| {
        let label = |pod: &crate::view::Pod| pod.metadata.labels["controller-revision-hash"].clone();
        world.pods.values().map(label).collect::<Vec<_>>()
    };
    assert_eq!(labels(&world), [&old, &old, &new, &new].map(Clone::clone));
    let status = world.set.status.clone().unwrap();
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(2), Some(2)));
    assert_eq!((status.current_revision, status.update_revision), (Some(old.clone()), Some(new.clone())));
    world.remove(1);
    world.remove(3);
    world.settle();
    assert_eq!(labels(&world), [&old, &old, &new, &new].map(Clone::clone));
    world.strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 9}}));
    assert_eq!(moves(&world.run()), [""; 0], "a partition beyond all pods updates none");
    world.strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    assert_eq!(moves(&world.run()), ["delete web-1"]);
}

#[test]
fn an_update_is_not_complete_before_the_last_pod_is_ready() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 1}));
    let old = world.revision();
    world.roll("nginx:2");
    world.run();
    world.run();
    world.remove(0);
    world.run();
    world.phase(0, Phase::Running);
    world.run();
    let status = world.set.status.clone().unwrap();
    assert_eq!((status.replicas, status.updated_replicas, status.current_revision), (1, Some(1), Some(old)));
    world.ready(0, 0);
    world.run();
    assert_eq!(world.set.status.clone().unwrap().current_revision, Some(world.revision()));
}

#[test]
fn a_partition_counts_from_the_first_ordinal() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 3, "ordinals": {"start": 10}}));
    world.strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}));
    world.roll("nginx:2");
    world.run();
    assert_eq!(moves(&world.run()), ["delete web-12"]);
    world.settle();
    assert_eq!(world.set.status.as_ref().unwrap().updated_replicas, Some(1));
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}}));
    world.roll("nginx:2");
    world.settle();
    assert_eq!(world.set.status.as_ref().unwrap().updated_replicas, None);
    world.remove(0);
    world.settle();
    let label = &world.pods["web-0"].metadata.labels["controller-revision-hash"];
    assert_eq!((label, world.set.status.as_ref().unwrap().updated_replicas), (&world.revision(), Some(1)));
    assert_ne!(world.set.status.as_ref().unwrap().current_revision, Some(world.revision()), "never complete");
}

#[test]
fn a_broken_template_blocks_ordered_sets_and_is_replaced_in_parallel_sets() {
    for (policy, expected) in [("OrderedReady", vec![]), ("Parallel", vec!["delete web-1".to_owned()])] {
        let mut world = SimulatedCluster::settled(json!({"replicas": 2, "podManagementPolicy": policy}));
        world.roll("broken");
        world.run();
        world.run();
        world.remove(1);
        world.run();
        world.phase(1, Phase::Running);
        world.roll("nginx:1");
        world.run();
        assert_eq!(moves(&world.run()), expected, "{policy}");
    }
}

#[test]
fn max_unavailable_allows_several_updates_at_once() {
    let with = |policy: &str, most| {
        let strategy =
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": most}});
        let mut world = SimulatedCluster::settled(json!({"replicas": 5, "podManagementPolicy": policy}));
        world.strategy(strategy);
        world.roll("nginx:2");
        world.run();
        world
    };
    let first = |most| moves(&with("OrderedReady", most).run());
    assert_eq!(first(json!(2)), ["delete web-4", "delete web-3"]);
    assert_eq!(first(json!("50%")), ["delete web-4", "delete web-3"], "rounded down");
    assert_eq!(first(json!("10%")), ["delete web-4"], "but at least one");
    assert_eq!(first(json!(9)), ["delete web-4", "delete web-3", "delete web-2", "delete web-1"]);
    // Unavailable pods of all ordinals count; old ones are replaced freely.
    let mut world = with("Parallel", json!(2));
    world.unready(0);
    assert_eq!(moves(&world.run()), ["delete web-4"], "web-0 is below the partition");
    let mut world = with("Parallel", json!(2));
    world.unready(1);
    world.unready(2);
    assert_eq!(moves(&world.run()), ["delete web-2", "delete web-1"]);
    let mut world = with("Parallel", json!(1));
    world.unready(1);
    assert_eq!(moves(&world.run()), ["delete web-1"], "available pods stay");
}

#[test]
fn an_undo_reuses_the_old_revision() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 2}));
    let first = world.revision();
    world.roll("nginx:2");
    world.settle();
    world.roll("nginx:1");
    world.settle();
    assert_eq!((world.revision(), world.revisions.len()), (first, 2));
    assert_eq!(world.revisions.iter().map(|r| r.revision).max(), Some(3));
}

#[test]
fn revisions_in_use_are_kept_beyond_the_limit() {
    let mut world = SimulatedCluster::settled(
        json!({"replicas": 1, "revisionHistoryLimit": 0, "updateStrategy": {"type": "OnDelete"}}),
    );
    let first = world.revision();
    world.set.status.as_mut().unwrap().current_revision = None;
    for image in ["nginx:2", "nginx:3"] {
        world.roll(image);
        world.settle();
    }
    let names: Vec<_> = world.revisions.iter().map(|r| r.metadata.name.clone().unwrap()).collect();
    assert!(names.contains(&first) && names.contains(&world.revision()), "{names:?}");
    assert!(names.len() <= 3, "{names:?}");
    let pod = world.pods.get_mut("web-0").unwrap();
    pod.metadata.labels.remove("controller-revision-hash");
    world.settle();
    assert!(
        !world.revisions.iter().any(|r| r.metadata.name.as_ref() == Some(&first)),
        "no pod has it any more"
    );
}

#[test]
fn an_adopted_pod_gets_its_identity() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 1}));
    let labels = &mut world.pods.get_mut("web-0").unwrap().metadata.labels;
    labels.remove("statefulset.kubernetes.io/pod-name");
    labels.remove("apps.kubernetes.io/pod-index");
    let work = world.run();
    assert_eq!(moves(&work), ["patch web-0"]);
    assert_eq!(
        events(&work.steps[0].actions),
        ["SuccessfulUpdate: update Pod web-0 in StatefulSet web successful"]
    );
    assert_eq!(world.pods["web-0"].metadata.labels["apps.kubernetes.io/pod-index"], "0");
    assert_eq!(moves(&world.run()), [""; 0]);
}
