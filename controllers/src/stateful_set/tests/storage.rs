//! Tests of the claims of pods: creation before their pods, and deletion by the retention policy.

use super::super::retention::{Ownership, Policy};
use super::world::SimulatedCluster;
use super::{events, moves};
use crate::action::Action;
use crate::view::Phase;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, from_value, json};

fn with_claims(replicas: i32, when_scaled: &str, when_deleted: &str) -> Value {
    json!({
        "replicas": replicas, "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": when_scaled, "whenDeleted": when_deleted},
    })
}

/// The owners of a claim as `Kind/name`.
fn owners(claim: &PersistentVolumeClaim) -> Vec<String> {
    let all = claim.metadata.owner_references.iter().flatten();
    all.map(|owner| format!("{}/{}", owner.kind, owner.name)).collect()
}

#[test]
fn claims_are_created_before_their_pod_and_reused() {
    let mut world = SimulatedCluster::new(with_claims(1, "Retain", "Retain"));
    world.run();
    let work = world.run();
    let created: Vec<_> = work.steps[0]
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Create(object) => Some(object.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(created, ["data-web-0", "web-0"]);
    world.settle();
    world.scale(0);
    world.settle();
    assert_eq!((world.pods.len(), world.claims.len()), (0, 1));
    world.scale(1);
    world.settle();
    assert_eq!((world.pods.len(), world.claims.len()), (1, 1));
}

#[test]
fn claims_have_the_owners_of_the_retention_policy() {
    let table = [
        ("Retain", "Retain", vec![], vec![]),
        ("Retain", "Delete", vec!["StatefulSet/web"], vec!["StatefulSet/web"]),
        ("Delete", "Retain", vec![], vec!["Pod/web-1"]),
        ("Delete", "Delete", vec!["StatefulSet/web"], vec!["Pod/web-1"]),
    ];
    for (scaled, deleted, wanted, condemned) in table {
        let mut world = SimulatedCluster::settled(with_claims(2, scaled, deleted));
        assert_eq!(owners(&world.claims["data-web-1"]), wanted, "{scaled} {deleted}");
        world.scale(1);
        world.run();
        assert_eq!(owners(&world.claims["data-web-1"]), condemned, "{scaled} {deleted}, scaled down");
        assert_eq!(owners(&world.claims["data-web-0"]), wanted, "{scaled} {deleted}, that stays");
        // The ordinal is desired again before its pod is gone: the claim stays.
        world.scale(2);
        world.run();
        assert_eq!(owners(&world.claims["data-web-1"]), wanted, "{scaled} {deleted}, scaled up again");
    }
}

#[test]
fn a_changed_policy_reaches_existing_claims() {
    let mut world = SimulatedCluster::settled(with_claims(1, "Retain", "Retain"));
    let policy = json!({"whenScaled": "Retain", "whenDeleted": "Delete"});
    world.set.spec.as_mut().unwrap().persistent_volume_claim_retention_policy = from_value(policy).unwrap();
    let work = world.run();
    assert_eq!(owners(&world.claims["data-web-0"]), ["StatefulSet/web"]);
    assert_eq!(
        events(&work.steps[0].actions),
        ["SuccessfulUpdate: update Pod web-0 in StatefulSet web successful"]
    );
    assert_eq!(world.run().steps, []);
}

#[test]
fn a_new_pod_waits_for_the_deletion_of_its_stale_claim() {
    let mut world = SimulatedCluster::settled(with_claims(2, "Delete", "Retain"));
    world.scale(1);
    world.run();
    world.remove(1);
    world.scale(2);
    assert_eq!(world.run().steps, [], "the garbage collector will delete the claim");
    world.claims.get_mut("data-web-1").unwrap().metadata.deletion_timestamp = Some(Time(world.now));
    world.claims.get_mut("data-web-1").unwrap().metadata.owner_references = None;
    let work = world.run();
    assert_eq!(
        events(&work.steps[0].actions),
        ["FailedCreate: create Pod web-1 in StatefulSet web failed error: pvc data-web-1 is being deleted"]
    );
    assert_eq!(moves(&work), [""; 0]);
    world.claims.remove("data-web-1");
    assert_eq!(moves(&world.run()), ["create web-1"]);
    assert_eq!(world.claims.len(), 2);
}

#[test]
fn missing_claims_of_a_pending_pod_are_created() {
    let mut world = SimulatedCluster::settled(with_claims(1, "Retain", "Delete"));
    world.claims.clear();
    assert_eq!(world.run().steps, [], "a running pod has its storage");
    world.phase(0, Phase::Pending);
    world.run();
    assert_eq!(owners(&world.claims["data-web-0"]), ["StatefulSet/web"]);
    world.terminate(0);
    world.claims.clear();
    assert_eq!(world.run().steps, [], "its successor makes them");
}

#[test]
fn a_refused_storage_correction_of_a_pod_is_reported() {
    let mut world = SimulatedCluster::settled(with_claims(1, "Retain", "Retain"));
    world.pods.get_mut("web-0").unwrap().spec.claim_volumes.clear();
    world.claims.clear();
    let work = world.plan();
    let [Action::Create(claim), Action::Event(_), Action::Patch { patch, .. }, Action::Event(_)] =
        work.steps[0].actions.as_slice()
    else {
        panic!("{:?}", work.steps)
    };
    assert_eq!(claim.name, "data-web-0");
    assert_eq!(patch["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-web-0");
    let complaint = work.steps[0].failure(&world.set, 2, "Forbidden", false);
    assert_eq!(
        events(&complaint),
        ["FailedUpdate: update Pod web-0 in StatefulSet web failed error: Forbidden"]
    );
}

#[test]
fn owner_references_of_other_controllers_and_earlier_sets_are_kept() {
    let world = SimulatedCluster::settled(with_claims(2, "Delete", "Delete"));
    let pod = &world.pods["web-1"];
    let policy = Policy::of(&world.set);
    let own = |uid: &str, controller: bool| json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid, "controller": controller});
    let of_pod = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": uid, "controller": true});
    let other = |controller: bool| json!({"apiVersion": "v1", "kind": "Backup", "name": "b", "uid": "b", "controller": controller});
    let evaluate = |references: Value| {
        let claim =
            from_value(json!({"metadata": {"name": "data-web-1", "ownerReferences": references}})).unwrap();
        match policy.evaluate(&world.set, pod, 1, &claim) {
            Ownership::Settled => None,
            Ownership::Owners(owners) => {
                Some(owners.into_iter().map(|o| o.kind).collect::<Vec<_>>().join(" "))
            }
        }
    };
    let table = [
        (json!([own("sts", true)]), None),
        (json!([own("sts", false)]), Some("StatefulSet")),
        (json!([]), Some("StatefulSet")),
        (json!([own("earlier", true)]), None),
        (json!([of_pod("earlier"), own("sts", true)]), None),
        (json!([of_pod(&pod.metadata.uid)]), Some("StatefulSet")),
        (json!([other(false)]), Some("Backup StatefulSet")),
        (json!([other(true)]), None),
        (json!([other(true), own("sts", true)]), Some("Backup")),
    ];
    for (references, expected) in table {
        assert_eq!(evaluate(references.clone()).as_deref(), expected, "{references}");
    }
}

#[test]
fn a_claim_of_another_controller_is_released_with_an_event() {
    let mut world = SimulatedCluster::settled(with_claims(1, "Retain", "Delete"));
    let backup = json!({"apiVersion": "v1", "kind": "Backup", "name": "b", "uid": "b", "controller": true});
    let claim = world.claims.get_mut("data-web-0").unwrap();
    claim.metadata.owner_references.as_mut().unwrap().push(from_value(backup).unwrap());
    let work = world.run();
    assert!(
        events(&work.steps[0].actions)[0]
            .starts_with("ConflictingController: PersistentVolumeClaim data-web-0 has a")
    );
    assert_eq!(owners(&world.claims["data-web-0"]), ["Backup/b"]);
    assert_eq!(world.run().steps, []);
}
