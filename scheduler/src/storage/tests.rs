//! Tests of decoding storage objects and of the events of their changes.

use super::volume::VolumePhase;
use super::*;
use crate::testing::{bound_claim, claim, claiming_pod, class, set, volume};
use serde_json::{Value, json};

fn claim_of(change: StorageChange) -> Record<Claim> {
    let StorageChange::Claim(Change::Set(record)) = change else { panic!("{change:?}") };
    Record::clone(&record)
}

#[test]
fn a_decoded_claim_keeps_its_request_only_while_unbound() {
    let more = json!({
        "metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { "volume.kubernetes.io/selected-node": "n1", "a": "b" },
            "ownerReferences": [{ "uid": "x" }, { "uid": "y", "controller": true }],
        },
        "spec": {
            "accessModes": ["ReadWriteOncePod"], "storageClassName": "fast", "volumeMode": "Block",
            "selector": { "matchLabels": { "a": "b" } }, "volumeAttributesClassName": "gold",
        },
    });
    let read = claim_of(claim("c", more.clone()));
    assert!(read.deleting && read.is_exclusive && !read.lost && !read.is_bound());
    assert_eq!((read.key.as_str(), read.revision, &*read.class), ("ns/c", Revision(5), "fast"));
    assert_eq!((read.selected_node.as_deref(), read.controller.as_deref()), (Some("n1"), Some("y")));
    let request = read.request.as_ref().unwrap();
    assert_eq!((request.size, request.is_block, &*request.attributes_class), (1 << 30, true, "gold"));
    assert!(request.selector.as_ref().unwrap().matches(&[("a".to_owned(), "b".to_owned())].into()));
    let bound = claim_of(bound_claim("c", "v", more));
    assert!(bound.is_bound() && bound.request.is_none() && bound.is_exclusive);
    let old = json!({
        "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "old" } },
        "spec": { "storageClassName": "new" }, "status": { "phase": "Lost" },
    });
    let old = claim_of(claim("c", old));
    assert_eq!((&*old.class, old.lost), ("old", true));
}

#[test]
fn a_volume_is_decoded() {
    let more = json!({
        "metadata": { "labels": { "zone": "a" } },
        "spec": {
            "claimRef": { "namespace": "ns", "name": "c", "uid": "c" }, "storageClassName": "fast",
            "csi": { "driver": "d", "volumeHandle": "h", "fsType": "ext4" }, "volumeMode": "Filesystem",
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": null }] } },
        },
        "status": { "phase": "Bound" },
    });
    let StorageChange::Volume(Change::Set(read)) = volume("v", "3Gi", more) else { panic!() };
    assert_eq!((read.size, read.phase, &*read.class), (3 << 30, VolumePhase::Unavailable, "fast"));
    assert_eq!(read.csi, Some(volume::CsiHandle { driver: "d".into(), handle: "h".into() }));
    let node = crate::testing::node("n", json!({}));
    assert!(!read.is_reachable_from(&node), "a term without requirements admits no node");
    let of = |key: &str, uid: &str| {
        let mut other = claim_of(claim(key, json!({})));
        other.uid = uid.to_owned();
        read.claim.as_ref().unwrap().refers_to(&other)
    };
    assert_eq!((of("c", "c"), of("c", "other"), of("d", "c")), (true, false, false));
}

#[test]
fn only_changes_that_filters_read_are_events() {
    let mut storage = Storage::default();
    let mut news = |change: StorageChange| storage.apply(change).is_some();
    assert!(news(claim("c", json!({}))));
    assert!(!news(claim("c", json!({ "metadata": { "labels": { "a": "b" }, "resourceVersion": "9" } }))));
    assert!(news(claim("c", json!({ "metadata": { "uid": "another" } }))));
    assert!(news(volume("v", "1Gi", json!({}))));
    assert!(!news(volume("v", "1Gi", json!({ "metadata": { "annotations": { "a": "b" } } }))));
    assert!(news(volume("v", "1Gi", json!({ "status": { "phase": "Bound" } }))));
    assert!(news(class("s", "x", "Immediate", json!({}))));
    assert!(!news(class("s", "x", "Immediate", json!({ "reclaimPolicy": "Retain" }))));
}

#[test]
fn an_unbound_volume_is_open_in_its_class() {
    let mut storage = Storage::default();
    let open = |storage: &Storage, class: &str| {
        storage.open_volumes(class).map(|volume| volume.key.name().to_owned()).collect::<Vec<_>>()
    };
    let of_class = |class: &str, phase: &str| {
        volume("v", "1Gi", json!({ "spec": { "storageClassName": class }, "status": { "phase": phase } }))
    };
    let mut steps = |change: StorageChange| {
        storage.apply(change);
        (open(&storage, "a"), open(&storage, "b"))
    };
    let none: Vec<String> = Vec::new();
    let v = vec!["v".to_owned()];
    assert_eq!(steps(of_class("a", "Pending")), (v.clone(), none.clone()));
    assert_eq!(steps(of_class("b", "Available")), (none.clone(), v.clone()));
    assert_eq!(steps(of_class("b", "Bound")), (none.clone(), none.clone()));
    assert_eq!(steps(of_class("a", "Available")), (v, none.clone()));
    let StorageChange::Volume(Change::Set(last)) = of_class("a", "Available") else { panic!() };
    assert_eq!(steps(StorageChange::Volume(Change::Gone(last))), (none.clone(), none));
    assert!(storage.open.is_empty());
}

#[test]
fn an_assumed_volume_of_a_shared_claim_is_kept_until_the_last_pod_forgets_it() {
    let mut storage = Storage::default();
    storage.apply(claim("c", json!({})));
    storage.apply(claim("d", json!({})));
    storage.apply(volume("v", "1Gi", json!({})));
    let key = |name: &str| Key::new("ns", name);
    let get = |storage: &Storage, name: &str| Arc::clone(storage.claim(&key(name)).unwrap());
    let (c, d) = (get(&storage, "c"), get(&storage, "d"));
    let v = Arc::clone(storage.volume("v").unwrap());
    let plan = VolumePlan {
        bind: vec![(Arc::clone(&v), Arc::clone(&c))],
        provision: vec![Arc::clone(&d)],
        ..VolumePlan::default()
    };
    let (a, b): (Uid, Uid) = ("a".into(), "b".into());
    storage.assume(&a, &"n1".into(), &plan);
    storage.assume(&b, &"n1".into(), &plan);
    assert_eq!((storage.is_kept_for(&v, &c), storage.is_kept_for(&v, &d)), (Some(true), Some(false)));
    assert_eq!(storage.selected_node(&d), Some("n1"));
    assert!(storage.forget(&a, &plan).is_empty());
    assert_eq!(storage.selected_node(&d), Some("n1"));
    assert_eq!(storage.forget(&b, &plan).len(), 2);
    assert_eq!((storage.is_kept_for(&v, &c), storage.selected_node(&d)), (None, None));
}

#[test]
fn users_of_a_claim_are_counted() {
    let mut storage = Storage::default();
    let (a, b) = (claiming_pod("a", &["c", "d"]), claiming_pod("b", &["c"]));
    storage.add_user(&a);
    storage.add_user(&b);
    assert_eq!(["c", "d"].map(|name| storage.users(&Key::new("ns", name))), [2, 1]);
    storage.remove_user(&a);
    assert_eq!(["c", "d"].map(|name| storage.users(&Key::new("ns", name))), [1, 0]);
}

#[test]
fn capacity_applies_to_its_class_and_its_nodes() {
    let node = crate::testing::node("n1", json!({}));
    let capacity = |more: Value| {
        let mut value = json!({
            "metadata": { "namespace": "ns", "name": "x" }, "storageClassName": "s", "capacity": "4Gi",
            "nodeTopology": { "matchLabels": { "kubernetes.io/hostname": "n1" } },
        });
        crate::testing::merge(&mut value, more);
        let Change::Set(record) = set(&value, csi::decode_capacity) else { panic!() };
        record.suffices("s", 3 << 30, &node)
    };
    let table = [
        (json!({}), true),
        (json!({ "capacity": "2Gi" }), false),
        (json!({ "capacity": null }), false),
        (json!({ "capacity": "2Gi", "maximumVolumeSize": "3Gi" }), true),
        (json!({ "maximumVolumeSize": "1Gi" }), false),
        (json!({ "storageClassName": "other" }), false),
        (json!({ "nodeTopology": null }), false),
        (json!({ "nodeTopology": {} }), true),
        (json!({ "nodeTopology": { "matchLabels": { "kubernetes.io/hostname": "n2" } } }), false),
    ];
    for (more, expected) in table {
        assert_eq!(capacity(more.clone()), expected, "{more}");
    }
}
