//! Tests of the claims of ephemeral volumes.

use super::plan::{ExistingClaim, claims, missing, owner, wants_claims};
use crate::action::Action;
use crate::view::decode_pod;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, from_value, json};
use std::collections::BTreeSet;

fn pod() -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": [], "volumes": [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "empty", "emptyDir": {}}]}})
}

fn view(pod: &Value) -> crate::view::Pod {
    decode_pod(pod.to_string().as_bytes()).unwrap()
}

#[test]
fn an_ephemeral_volume_gets_a_claim_owned_by_its_pod() {
    let seen = view(&pod());
    assert!(wants_claims(&seen));
    let wanted = missing(&seen, |_| None).unwrap();
    assert_eq!(wanted, BTreeSet::from(["scratch".to_owned()]));
    let made = claims(&from_value(pod()).unwrap(), &wanted);
    let claim: PersistentVolumeClaim = made[0].created().unwrap();
    assert_eq!(claim.metadata.name.as_deref(), Some("p-scratch"));
    assert_eq!(claim.metadata.labels.as_ref().unwrap()["a"], "b");
    let reference = &claim.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((reference.uid.as_str(), reference.controller), ("u", Some(true)));
    assert_eq!(owner(&claim).unwrap().to_string(), "ns/p");
    assert!(missing(&seen, |_| Some(ExistingClaim::of(&claim))).unwrap().is_empty(), "it is the pod's");
}

#[test]
fn a_foreign_claim_is_a_conflict_with_an_event() {
    let seen = view(&pod());
    for owner in [None, Some("other".to_owned())] {
        let conflict = missing(&seen, |_| Some(ExistingClaim { owner: owner.clone() })).unwrap_err();
        let text =
            "ephemeral volume scratch: PVC ns/p-scratch was not created for pod ns/p (pod is not owner)";
        assert_eq!(conflict.to_string(), text);
        assert!(matches!(conflict.event(&seen), Action::Event(_)));
    }
}

#[test]
fn pods_without_ephemeral_volumes_and_terminating_pods_need_no_claims() {
    let mut leaving = pod();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!wants_claims(&view(&leaving)));
    let mut plain = pod();
    plain["spec"]["volumes"].as_array_mut().unwrap().remove(0);
    assert!(!wants_claims(&view(&plain)));
}

#[test]
fn the_claim_of_an_ephemeral_volume_belongs_to_its_pod() {
    assert_eq!(view(&pod()).claims().collect::<Vec<_>>(), ["p-scratch", "data"]);
}
