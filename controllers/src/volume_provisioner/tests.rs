//! Tests of created, enlarged and deleted volumes.

use super::plan::{PROVISIONER, expand, provision, remove};
use crate::action::Action;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, from_value, json};

fn class(mode: &str, provisioner: &str) -> StorageClass {
    from_value(json!({
        "metadata": {"name": "s"}, "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Retain",
        "allowVolumeExpansion": true, "mountOptions": ["ro"],
    }))
    .unwrap()
}

fn claim(annotations: Value, size: &str) -> PersistentVolumeClaim {
    from_value(json!({
        "metadata": {"namespace": "n", "name": "c", "uid": "u", "annotations": annotations},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", "volumeName": "v", "resources": {"requests": {"storage": size}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    }))
    .unwrap()
}

const ASKED: &str = "volume.kubernetes.io/storage-provisioner";

#[test]
fn a_requested_volume_is_provisioned_with_the_claims_size() {
    let made = provision(&claim(json!({ASKED: PROVISIONER}), "3Gi"), &class("Immediate", PROVISIONER));
    let volume: PersistentVolume = made[0].created().unwrap();
    let value = json!(volume);
    assert_eq!(value["metadata"]["name"], "pvc-u");
    assert_eq!(value["spec"]["capacity"]["storage"], "3Gi");
    assert_eq!(value["spec"]["claimRef"]["uid"], "u");
    assert_eq!(value["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(value["spec"]["mountOptions"], json!(["ro"]));
    assert!(matches!(&made[1], Action::Event(event) if event.reason == "ProvisioningSucceeded"));
}

#[test]
fn a_provisioned_volume_has_the_allowed_topologies_as_node_affinity() {
    let zones = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]);
    let class =
        StorageClass { allowed_topologies: from_value(zones).unwrap(), ..class("Immediate", PROVISIONER) };
    let made = provision(&claim(json!({ASKED: PROVISIONER}), "3Gi"), &class);
    let value = json!(made[0].created::<PersistentVolume>().unwrap());
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]});
    assert_eq!(value["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"], json!([term]));
}

#[test]
fn other_provisioners_and_unscheduled_claims_get_no_volume() {
    let (here, later) = (class("Immediate", PROVISIONER), class("WaitForFirstConsumer", PROVISIONER));
    let none =
        |annotations: Value, class: &StorageClass| provision(&claim(annotations, "1Gi"), class).is_empty();
    assert!(none(json!({}), &here), "the binder has not asked yet");
    assert!(none(json!({ASKED: "other"}), &here));
    assert!(none(json!({ASKED: PROVISIONER}), &class("Immediate", "other")));
    assert!(none(json!({ASKED: PROVISIONER}), &later));
    assert!(!none(json!({ASKED: PROVISIONER, "volume.kubernetes.io/selected-node": "n1"}), &later));
    assert!(none(json!({ASKED: PROVISIONER, "pv.kubernetes.io/bind-completed": "yes"}), &here));
}

fn volume(by: &str, policy: &str, phase: &str) -> PersistentVolume {
    from_value(json!({
        "metadata": {"name": "v", "uid": "v", "annotations": {"pv.kubernetes.io/provisioned-by": by}},
        "spec": {"persistentVolumeReclaimPolicy": policy}, "status": {"phase": phase},
    }))
    .unwrap()
}

#[test]
fn released_volumes_are_deleted_by_their_reclaim_policy() {
    assert_eq!(remove(&volume(PROVISIONER, "Delete", "Released")).len(), 1);
    assert!(remove(&volume(PROVISIONER, "Retain", "Released")).is_empty());
    assert!(remove(&volume(PROVISIONER, "Delete", "Bound")).is_empty());
    assert!(remove(&volume("other", "Delete", "Released")).is_empty());
}

#[test]
fn a_volume_expansion_is_one_transaction() {
    let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let ours = volume(PROVISIONER, "Delete", "Bound");
    let class = class("Immediate", PROVISIONER);
    let grown = expand(&claim(bound.clone(), "2Gi"), &class, &ours);
    assert!(matches!(&grown[0], Action::Transaction(writes) if writes.len() == 2), "{grown:?}");
    assert!(expand(&claim(bound.clone(), "1Gi"), &class, &ours).is_empty());
    assert!(expand(&claim(json!({}), "2Gi"), &class, &ours).is_empty());
    assert!(expand(&claim(bound.clone(), "2Gi"), &class, &volume("other", "Delete", "Bound")).is_empty());
    let fixed = StorageClass { allow_volume_expansion: None, ..class };
    assert!(expand(&claim(bound, "2Gi"), &fixed, &ours).is_empty());
}
