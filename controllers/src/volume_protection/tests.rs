//! Tests of the protection finalizers.

use super::plan::{claim, class, class_of_volume, classes_of_claim, refers, unused, uses, volume};
use crate::action::Action;
use crate::view::Pod;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kstore_client::Kind;
use serde_json::{Value, from_value, json};

fn finalizers<K: Kind>(action: Option<&Action>) -> Option<Value> {
    let object: K = action?.updated().unwrap();
    assert_eq!(
        object.metadata().resource_version.as_deref(),
        Some("3"),
        "a list is replaced only as it was seen"
    );
    Some(json!(object.metadata().finalizers))
}

#[test]
fn a_claim_is_protected_while_a_scheduled_pod_uses_it() {
    let of = |have: Value, leaving: bool, used: bool| {
        let mut metadata = json!({"name": "c", "uid": "u", "resourceVersion": "3", "finalizers": have});
        if leaving {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let seen = from_value(json!({"metadata": metadata})).unwrap();
        finalizers::<PersistentVolumeClaim>(claim(&seen, || used).as_ref())
    };
    let ours = "kubernetes.io/pvc-protection";
    assert_eq!(of(json!([]), false, true), Some(json!([ours])));
    assert_eq!(of(json!(["x"]), false, true), Some(json!(["x", ours])));
    assert_eq!(of(json!(["x", ours]), false, false), None);
    assert_eq!(of(json!(["x", ours]), true, true), None);
    assert_eq!(of(json!(["x", ours, "y"]), true, false), Some(json!(["x", "y"])));
    assert_eq!(of(json!(["x"]), true, false), None, "it gets none on its way out");
}

#[test]
fn ended_and_unscheduled_pods_do_not_protect_claims() {
    let pod = |node: &str, phase: &str| -> Pod {
        from_value(json!({
            "spec": {"nodeName": node, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "status": {"phase": phase},
        }))
        .unwrap()
    };
    assert!(uses(&pod("n", "Running"), "c") && uses(&pod("n", "Pending"), "c"));
    assert!(!uses(&pod("n", "Succeeded"), "c") && !uses(&pod("n", "Failed"), "c"));
    assert!(!uses(&pod("", "Pending"), "c") && !uses(&pod("n", "Running"), "d"));
}

#[test]
fn a_bound_claim_shows_since_when_no_pod_refers_to_it() {
    let now: Timestamp = "2026-02-03T04:05:06Z".parse().unwrap();
    let resizing = json!({"type": "Resizing", "status": "True"});
    let shown = |status: &str| json!({"type": "Unused", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let of = |phase: &str, conditions: Value, is_used: bool| {
        let seen = json!({"metadata": {"name": "c", "resourceVersion": "3"}, "status": {"phase": phase, "conditions": conditions}});
        let action = unused(&from_value(seen).unwrap(), is_used, now)?;
        let claim: PersistentVolumeClaim = action.reported().unwrap();
        Some(json!(claim.status.unwrap().conditions))
    };
    let condition = |status: &str, reason: &str, message: &str| json!({"type": "Unused", "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-02-03T04:05:06Z"});
    let free = condition("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC");
    let used = condition("False", "PodUsingPVC", "A pod is currently referencing this PVC");
    for (phase, before, is_used, after) in [
        ("Pending", json!([]), false, None),
        ("Lost", json!([]), false, None),
        ("Bound", json!([]), false, Some(json!([free]))),
        ("Bound", json!([resizing]), true, Some(json!([resizing, used]))),
        ("Bound", json!([shown("True"), resizing]), true, Some(json!([resizing, used]))),
        ("Bound", json!([shown("False")]), false, Some(json!([free]))),
        ("Bound", json!([shown("True")]), false, None),
        ("Bound", json!([shown("False")]), true, None),
    ] {
        assert_eq!(of(phase, before.clone(), is_used), after, "{phase} {before} {is_used}");
    }
    let pod = |phase: &str| -> Pod {
        let spec = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
        from_value(json!({"spec": spec, "status": {"phase": phase}})).unwrap()
    };
    assert!(refers(&pod("Pending"), "c") && !refers(&pod("Pending"), "d") && !refers(&pod("Failed"), "c"));
}

#[test]
fn a_bound_volume_is_protected() {
    let of = |phase: &str| {
        let metadata = json!({
            "name": "v", "resourceVersion": "3", "finalizers": ["kubernetes.io/pv-protection"],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        });
        let seen = from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap();
        finalizers::<PersistentVolume>(volume(&seen).as_ref())
    };
    assert_eq!(of("Bound"), None);
    assert_eq!(of("Released"), Some(json!([])));
    assert_eq!(of("Available"), Some(json!([])));
}

#[test]
fn a_class_is_protected_while_a_claim_or_volume_names_it() {
    let of = |have: Value, leaving: bool, used: bool| {
        let mut metadata = json!({"name": "c", "resourceVersion": "3", "finalizers": have});
        if leaving {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let seen = from_value(json!({"metadata": metadata, "driverName": "d"})).unwrap();
        finalizers::<VolumeAttributesClass>(class(&seen, || used).as_ref())
    };
    let ours = "kubernetes.io/vac-protection";
    assert_eq!(of(json!([]), false, false), Some(json!([ours])));
    assert_eq!(of(json!([ours]), true, true), None);
    assert_eq!(of(json!([ours]), true, false), Some(json!([])));

    let claim: PersistentVolumeClaim = from_value(json!({
        "spec": {"volumeAttributesClassName": "wanted"},
        "status": {"currentVolumeAttributesClassName": "present",
            "modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": "target"}},
    }))
    .unwrap();
    assert_eq!(classes_of_claim(&claim).collect::<Vec<_>>(), ["wanted", "present", "target"]);
    let volume = |class: &str| from_value(json!({"spec": {"volumeAttributesClassName": class}})).unwrap();
    assert_eq!(class_of_volume(&volume("c")), Some("c"));
    assert_eq!(class_of_volume(&volume("")), None);
}
