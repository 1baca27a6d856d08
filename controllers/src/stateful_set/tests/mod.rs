//! Tests of the StatefulSet plan, with tables and a simulated cluster with random changes of pods.

mod order;
mod properties;
mod storage;
mod update;
mod world;

use super::identity::{Range, claims, new_pod, ordinal, owns_claim};
use super::plan::{PlannedWrites, rename_revision};
use crate::action::Action;
use serde_json::json;
use world::{SimulatedCluster, set};

/// Pod operations of a run as text: `create web-0`, `delete web-2`.
fn moves(work: &PlannedWrites) -> Vec<String> {
    let verb = |action: &Action| match action {
        Action::Create(object) if object.resource.plural == "pods" => Some("create"),
        Action::Delete { .. } => Some("delete"),
        Action::Patch { .. } => Some("patch"),
        _ => None,
    };
    let of_step = |step: &super::step::Step| {
        let verb = step.actions.iter().find_map(verb);
        verb.map(|verb| format!("{verb} {}", step.pod))
    };
    work.steps.iter().filter_map(of_step).collect()
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
fn ordinals_have_one_name_each() {
    let set = set(json!({}));
    let table = [
        ("web-0", Some(0)),
        ("web-17", Some(17)),
        ("web-2147483647", Some(i32::MAX)),
        ("web-2147483648", None),
        ("web-01", None),
        ("web-+1", None),
        ("web--1", None),
        ("web-", None),
        ("web", None),
        ("web-a-1", None),
        ("xweb-1", None),
    ];
    for (name, expected) in table {
        assert_eq!(ordinal(&set, name), expected, "{name}");
    }
}

#[test]
fn ranges_begin_at_the_start_and_end_with_32_bits() {
    let range = |spec| Range::of(set(spec).spec.as_ref().unwrap());
    assert_eq!(range(json!({"replicas": 3})), Range { start: 0, end: 3 });
    assert_eq!(range(json!({"replicas": 3, "ordinals": {"start": 5}})), Range { start: 5, end: 8 });
    assert_eq!(range(json!({"replicas": 0})).len(), 0);
    let most = range(json!({"replicas": i32::MAX, "ordinals": {"start": i32::MAX}}));
    assert_eq!((most.start, most.len()), (i64::from(i32::MAX), 1));
}

#[test]
fn pods_carry_name_index_revision_host_name_and_claims() {
    let set = set(json!({
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
    }));
    let mut template = set.spec.as_ref().unwrap().template.clone();
    let volumes = json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]);
    template.spec.as_mut().unwrap().volumes = serde_json::from_value(volumes).unwrap();
    let pod = serde_json::to_value(new_pod(&set, 7, template, "web-abc")).unwrap();
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "web", "statefulset.kubernetes.io/pod-name": "web-7", "apps.kubernetes.io/pod-index": "7",
               "controller-revision-hash": "web-abc"})
    );
    let names = (&pod["metadata"]["name"], &pod["metadata"]["generateName"]);
    assert_eq!(names, (&json!("web-7"), &json!("web-")));
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-7"), &json!("headless")));
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-7"}},
               {"name": "tmp", "emptyDir": {}}])
    );
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("StatefulSet"), &json!(true)));
    let claim = serde_json::to_value(claims(&set, 7).next().unwrap()).unwrap();
    assert_eq!(
        claim,
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"accessModes": ["ReadWriteOnce"]},
               "metadata": {"name": "data-web-7", "namespace": "default", "labels": {"app": "web"}}})
    );
    assert!(
        owns_claim(&set, "data-web-7") && !owns_claim(&set, "data-web-x") && !owns_claim(&set, "log-web-7")
    );
}

#[test]
fn the_newest_revision_is_written_first() {
    let mut world = SimulatedCluster::new(json!({"replicas": 3}));
    let work = world.plan();
    assert!(matches!(work.revision, Some(Action::Create(_))));
    assert_eq!((work.steps.len(), &work.status), (0, &None));
    world.apply(&work);
    let work = world.plan();
    assert_eq!((work.revision.is_none(), moves(&work)), (true, vec!["create web-0".to_owned()]));
    let Action::UpdateStatus(set) = rename_revision(&world.set) else { panic!() };
    let set: k8s_openapi::api::apps::v1::StatefulSet = set.typed().unwrap();
    assert_eq!(set.status.unwrap().collision_count, Some(1));
}

#[test]
fn the_status_counts_pods_by_revision_readiness_and_availability() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 4, "minReadySeconds": 10}));
    let old = world.revision();
    world.roll("nginx:2");
    world.run();
    world.run();
    // web-3 with the old revision is terminating; web-2 is ready, but not for long enough.
    world.ready(2, 4);
    let work = world.plan();
    world.apply(&work);
    let status = world.set.status.clone().unwrap();
    let counts = (status.replicas, status.ready_replicas, status.available_replicas);
    assert_eq!(counts, (4, Some(4), Some(3)));
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(3), None));
    assert_eq!(status.current_revision.as_ref(), Some(&old));
    assert_eq!(status.update_revision.as_ref(), Some(&world.revision()));
    assert_ne!(old, world.revision());
    assert_eq!((status.observed_generation, status.collision_count), (Some(2), Some(0)));
    assert_eq!(work.wake.map(|wait| wait.as_secs()), Some(6), "when web-2 becomes available");
}

#[test]
fn a_terminating_stateful_set_only_updates_its_status() {
    let mut world = SimulatedCluster::settled(json!({"replicas": 2}));
    world.remove(1);
    world.set.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    let work = world.plan();
    assert_eq!((work.steps.len(), work.status.is_some()), (0, true));
    world.revisions.clear();
    assert_eq!(world.plan(), PlannedWrites::default());
}

#[test]
fn events_have_upstreams_words() {
    let mut world = SimulatedCluster::new(
        json!({"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}),
    );
    world.run();
    let work = world.plan();
    let step = &work.steps[0];
    assert_eq!(
        events(&step.actions),
        [
            "SuccessfulCreate: create Claim data-web-0 Pod web-0 in StatefulSet web success",
            "SuccessfulCreate: create Pod web-0 in StatefulSet web successful",
        ]
    );
    let complaints = |at, exists| events(&step.failure(&world.set, at, "quota", exists));
    assert_eq!(
        complaints(0, false),
        [
            "FailedCreate: create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: quota",
            "FailedCreate: create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: quota",
        ]
    );
    assert_eq!(
        complaints(2, false),
        ["FailedCreate: create Pod web-0 in StatefulSet web failed error: quota"]
    );
    assert_eq!(complaints(2, true), [""; 0], "the caches are behind");
    let mut world = SimulatedCluster::settled(json!({"replicas": 1}));
    world.scale(0);
    let work = world.plan();
    assert_eq!(
        events(&work.steps[0].actions),
        ["SuccessfulDelete: delete Pod web-0 in StatefulSet web successful"]
    );
}
