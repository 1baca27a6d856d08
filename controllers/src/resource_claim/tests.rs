//! Tests of claims for pods and of the end of reservations.

use super::claims::{Consumer, Release, drop_finalizer, is_unneeded, release};
use super::pods::{WantedClaims, create, names, reservations, wanted, wants_claims};
use crate::action::Action;
use crate::device_claims::used_by as claims;
use crate::view::{Pod, decode_pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use serde_json::{Value, from_value, json};
use std::collections::BTreeMap;

const PROTECTION: &str = "resource.kubernetes.io/delete-protection";

/// The pod `p` with a generated claim, and one that exists already.
fn pod(changes: Value) -> Pod {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"resourceClaims": [
            {"name": "gpu", "resourceClaimTemplateName": "one-gpu"},
            {"name": "shared", "resourceClaimName": "disk"}]}});
    for (path, value) in changes.as_object().unwrap() {
        let (part, field) = path.split_once('.').unwrap();
        pod[part][field] = value.clone();
    }
    decode_pod(pod.to_string().as_bytes()).unwrap()
}

fn status(name: Value) -> Value {
    json!({"status.resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]})
}

/// A claim that was generated for the pod with this uid.
fn claim(name: &str, uid: &str) -> ResourceClaim {
    from_value(json!({"metadata": {"name": name, "namespace": "ns",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true}]},
        "spec": {}}))
    .unwrap()
}

#[test]
fn an_entry_with_a_template_needs_its_own_claim() {
    let missing =
        || WantedClaims { missing: vec![("gpu".to_owned(), "one-gpu".to_owned())], names: BTreeMap::new() };
    let named = |name: &str| WantedClaims {
        missing: vec![],
        names: BTreeMap::from([("gpu".to_owned(), name.to_owned())]),
    };
    let done = WantedClaims::default;
    let table: [(Value, Vec<ResourceClaim>, WantedClaims); 7] = [
        (json!({}), vec![], missing()),
        (json!({}), vec![claim("p-gpu-1", "u")], named("p-gpu-1")),
        (json!({}), vec![claim("p-gpu-1", "other")], missing()),
        (status(json!("p-gpu-1")), vec![claim("p-gpu-1", "u")], done()),
        (status(json!("p-gpu-1")), vec![claim("p-gpu-1", "other")], missing()),
        (status(json!("p-gpu-1")), vec![claim("p-gpu-2", "u")], named("p-gpu-2")),
        (status(Value::Null), vec![], done()),
    ];
    for (changes, existing, expected) in table {
        let pod = pod(changes.clone());
        let find =
            |name: &str| existing.iter().find(|claim| claim.metadata.name.as_deref() == Some(name)).cloned();
        let of_pod: Vec<_> =
            existing.iter().filter(|claim| crate::device_claims::owner(claim).unwrap().uid == "u").collect();
        assert_eq!(wanted(&pod, find, &of_pod), expected, "{changes} {existing:?}");
    }
}

#[test]
fn pods_that_are_done_or_being_deleted_get_no_claims() {
    let deleted = json!("2026-01-01T00:00:00Z");
    let table = [
        (json!({}), true),
        (json!({"status.phase": "Running"}), true),
        (json!({"status.phase": "Succeeded"}), false),
        (json!({"metadata.deletionTimestamp": deleted}), false),
        (json!({"spec.resourceClaims": []}), false),
    ];
    for (changes, expected) in table {
        assert_eq!(wants_claims(&pod(changes.clone())), expected, "{changes}");
    }
    assert_eq!(claims(&pod(status(json!("p-gpu-1")))).collect::<Vec<_>>(), ["p-gpu-1", "disk"]);
}

#[test]
fn a_claim_is_created_from_its_template_for_its_pod() {
    let template: ResourceClaimTemplate = from_value(json!({"metadata": {"name": "one-gpu"},
        "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}}))
    .unwrap();
    let claim: ResourceClaim = create(&pod(json!({})), "gpu", &template).created().unwrap();
    let metadata = &claim.metadata;
    assert_eq!((metadata.name.as_deref(), metadata.generate_name.as_deref()), (None, Some("p-gpu-")));
    let annotations = [("c", "d"), ("resource.kubernetes.io/pod-claim-name", "gpu")];
    let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(metadata.annotations, Some(annotations.into()));
    assert_eq!(metadata.labels.as_ref().unwrap()["a"], "b");
    let owner = &metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.uid.as_str(), owner.controller, owner.block_owner_deletion),
        ("u", Some(true), Some(true))
    );
    assert_eq!(claim.spec, template.spec.spec);

    let long = pod(json!({"metadata.name": "p".repeat(200)}));
    let claim: ResourceClaim = create(&long, &"e".repeat(63), &template).created().unwrap();
    let base = claim.metadata.generate_name.unwrap();
    assert!(base.len() <= 58 && base.contains("p-e") && base.ends_with("e-"), "{base}");
}

#[test]
fn the_status_of_a_pod_names_its_claims() {
    let pod = pod(json!({}));
    assert_eq!(names(&pod, &BTreeMap::new()), None);
    let found = names(&pod, &BTreeMap::from([("gpu".to_owned(), "p-gpu-1".to_owned())]));
    let Some(Action::Patch { status: true, patch, .. }) = found else { panic!("{found:?}") };
    let entries = json!([{"name": "gpu", "resourceClaimName": "p-gpu-1"}]);
    assert_eq!(patch, json!({"metadata": {"uid": "u"}, "status": {"resourceClaimStatuses": entries}}));
}

/// A claim with these reservations, protected by the scheduler's finalizer.
fn reserved(uids: &[&str], is_allocated: bool) -> ResourceClaim {
    let mut claim = claim("p-gpu-1", "u");
    claim.metadata.finalizers = Some(vec!["other".to_owned(), PROTECTION.to_owned()]);
    let consumers: Vec<_> =
        uids.iter().map(|uid| json!({"resource": "pods", "name": "p", "uid": uid})).collect();
    let mut status = json!({});
    if !consumers.is_empty() {
        status["reservedFor"] = json!(consumers);
    }
    if is_allocated {
        status["allocation"] = json!({"devices": {}});
    }
    claim.status = from_value(status).unwrap();
    claim
}

#[test]
fn a_pod_on_a_node_reserves_its_allocated_claims() {
    let on_node = |node: &str| {
        let mut changes = status(json!("p-gpu-1"));
        changes["spec.nodeName"] = json!(node);
        pod(changes)
    };
    let table: [(&str, ResourceClaim, bool); 4] = [
        ("n", reserved(&[], true), true),
        ("", reserved(&[], true), false),
        ("n", reserved(&[], false), false),
        ("n", reserved(&["u"], true), false),
    ];
    for (node, claim, expected) in table {
        let find = |name: &str| (name == "p-gpu-1").then(|| claim.clone());
        let made = reservations(&on_node(node), find);
        assert_eq!(made.len(), usize::from(expected), "{node} {claim:?}");
        for action in made {
            let reserved: ResourceClaim = action.reported().unwrap();
            assert_eq!(super::claims::reserved(&reserved).last().unwrap().uid, "u");
        }
    }
    let mut foreign = reserved(&[], true);
    foreign.metadata.owner_references.as_mut().unwrap()[0].uid = "other".to_owned();
    assert_eq!(reservations(&on_node("n"), |_| Some(foreign.clone())).len(), 1, "only the shared one");
}

#[test]
fn reservations_of_pods_that_are_over_end_and_then_the_allocation() {
    let over = BTreeMap::from([("u".to_owned(), Consumer::Over), ("v".to_owned(), Consumer::Active)]);
    let deleted = |mut claim: ResourceClaim| {
        claim.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        claim
    };
    let unprotected = |mut claim: ResourceClaim| {
        claim.metadata.finalizers = None;
        claim
    };
    // The claim, the uids that stay (`None`: the status stays), whether it stays allocated, and whether the
    // finalizer goes.
    let table = [
        (reserved(&["u"], true), Some(vec![]), false, true),
        (reserved(&["u", "v"], true), Some(vec!["v"]), true, false),
        (reserved(&["v"], true), None, true, false),
        (reserved(&[], true), None, true, false),
        (reserved(&[], false), None, false, false),
        (deleted(reserved(&[], true)), Some(vec![]), false, true),
        (deleted(reserved(&[], false)), None, false, true),
        (deleted(reserved(&["v"], true)), None, true, false),
        (unprotected(reserved(&["u"], true)), Some(vec![]), true, false),
    ];
    for (claim, kept, is_allocated, drops) in table {
        let found = release(&claim, &over);
        let status = kept.map(|uids| {
            let mut status = reserved(&uids, is_allocated).status.unwrap();
            status.devices = None;
            status
        });
        assert_eq!(found, Release { status, drops_finalizer: drops }, "{claim:?}");
    }
    let mut json = serde_json::to_value(reserved(&[], false)).unwrap();
    assert!(drop_finalizer(&mut json));
    assert_eq!(json["metadata"]["finalizers"], json!(["other"]));
    assert!(!drop_finalizer(&mut json));
}

#[test]
fn a_generated_claim_without_reservations_ends_with_its_pod() {
    let (none, over) = (BTreeMap::new(), BTreeMap::from([("u".to_owned(), Consumer::Over)]));
    let (running, done) = (pod(json!({})), pod(json!({"status.phase": "Failed"})));
    let other = pod(json!({"metadata.uid": "other"}));
    let table = [
        (reserved(&[], false), &none, Some(&done), true),
        (reserved(&[], false), &none, Some(&other), true),
        (reserved(&[], false), &none, Some(&running), false),
        (reserved(&[], false), &none, None, false),
        (reserved(&["u"], true), &over, Some(&done), true),
        (reserved(&["u"], true), &none, Some(&done), false),
    ];
    for (claim, consumers, pod, expected) in table {
        assert_eq!(is_unneeded(&claim, consumers, pod), expected, "{claim:?} {pod:?}");
    }
}

#[test]
fn the_claim_for_extended_resources_is_one_of_the_pod() {
    let status = json!({"resourceClaimName": "p-extended-resources-x", "requestMappings": []});
    let pod = decode_pod(
        json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"nodeName": "n"},
            "status": {"extendedResourceClaimStatus": status}})
        .to_string()
        .as_bytes(),
    )
    .unwrap();
    assert_eq!(claims(&pod).collect::<Vec<_>>(), ["p-extended-resources-x"]);
    assert!(wants_claims(&pod));
    let claim_of = |uid: &str| {
        let mut claim = claim("p-extended-resources-x", uid);
        claim.status = from_value(json!({"allocation": {}})).unwrap();
        claim
    };
    assert_eq!(wanted(&pod, |_| Some(claim_of("u")), &[&claim_of("u")]), WantedClaims::default());
    assert_eq!(reservations(&pod, |_| Some(claim_of("u"))).len(), 1);
    assert_eq!(
        reservations(&pod, |_| Some(claim_of("other"))),
        [],
        "a claim of another pod of the same name"
    );
}
