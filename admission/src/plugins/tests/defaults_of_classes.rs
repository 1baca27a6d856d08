//! Defaults from classes for claims, volumes and Ingresses, and the growth of claims.

use super::{Case, Operation};
use serde_json::{Value, json};

fn claim(spec: Value, phase: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "c", "namespace": "a" },
        "spec": spec, "status": { "phase": phase } })
}

#[test]
fn new_claims_volumes_and_attribute_classes_have_a_protection_finalizer() {
    let case = Case::create([]);
    let finalizers = |object: Value| case.admit(object).unwrap()["metadata"]["finalizers"].clone();
    assert_eq!(finalizers(claim(json!({}), "Pending")), json!(["kubernetes.io/pvc-protection"]));
    let mut own = claim(json!({}), "Pending");
    own["metadata"]["finalizers"] = json!(["a/b", "kubernetes.io/pvc-protection"]);
    assert_eq!(finalizers(own), json!(["a/b", "kubernetes.io/pvc-protection"]));
    let volume =
        json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "v" }, "spec": {} });
    assert_eq!(finalizers(volume), json!(["kubernetes.io/pv-protection"]));
    let class = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": { "name": "c" },
        "driverName": "d" });
    assert_eq!(finalizers(class), json!(["kubernetes.io/vac-protection"]));
}

#[test]
fn a_claim_can_grow_only_if_its_class_allows_expansion() {
    let storage = |name: &str, grows: bool| {
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x",
            "metadata": { "name": name }, "allowVolumeExpansion": grows })
    };
    let sized = |class: &str, size: &str, phase: &str| {
        claim(json!({ "storageClassName": class, "resources": { "requests": { "storage": size } } }), phase)
    };
    let resize = |class: &str, from: &str, to: &str, phase: &str| {
        let old = Some(sized(class, from, phase));
        let case = Case {
            operation: Operation::Update,
            old,
            ..Case::create([storage("grow", true), storage("fixed", false)])
        };
        case.admit(sized(class, to, phase)).map(|_| ()).map_err(|status| status.message)
    };
    assert_eq!(resize("grow", "1Gi", "2Gi", "Bound"), Ok(()));
    assert_eq!(resize("fixed", "2Gi", "2Gi", "Bound"), Ok(()));
    assert_eq!(resize("fixed", "2Gi", "1Gi", "Bound"), Ok(()), "for validation to refuse");
    let refused = "persistentvolumeclaims \"c\" is forbidden: only dynamically provisioned pvc can be resized and the \
                   storageclass that provisions the pvc must support resize";
    for class in ["fixed", "missing", ""] {
        assert_eq!(resize(class, "1Gi", "2Gi", "Bound"), Err(refused.to_owned()));
    }
    assert!(resize("grow", "1Gi", "2Gi", "Pending").unwrap_err().contains("Only bound"));
}

#[test]
fn an_ingress_without_a_class_gets_the_newest_default() {
    let class = |name: &str, created: &str, default: &str| {
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "spec": { "controller": "c" },
            "metadata": { "name": name, "creationTimestamp": created,
                "annotations": { "ingressclass.kubernetes.io/is-default-class": default } } })
    };
    let ingress = |spec: Value, annotations: Value| {
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": { "name": "i", "namespace": "a", "annotations": annotations }, "spec": spec })
    };
    let case = Case::create([
        class("old", "2026-01-01T00:00:00Z", "true"),
        class("new-b", "2026-01-02T00:00:00Z", "true"),
        class("new-a", "2026-01-02T00:00:00Z", "true"),
        class("newest", "2026-01-03T00:00:00Z", "false"),
    ]);
    let given = |case: &Case, spec: Value, annotations: Value| {
        case.admit(ingress(spec, annotations)).unwrap()["spec"]["ingressClassName"].clone()
    };
    assert_eq!(given(&case, json!({}), json!({})), "new-a");
    assert_eq!(given(&case, json!({ "ingressClassName": "own" }), json!({})), "own");
    assert!(given(&case, json!({}), json!({ "kubernetes.io/ingress.class": "x" })).is_null());
    assert!(given(&Case::create([]), json!({}), json!({})).is_null());
}
