//! Tests of reading values that other programs stored.

use super::*;
use crate::kind::{self, RESOURCES};
use serde_json::json;

fn row(group: &str, version: &str, plural: &str) -> &'static Resource {
    kind::lookup(group, version, plural).unwrap()
}

fn definitions() -> &'static Resource {
    row("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

fn read_json(resource: &Resource, value: &Value) -> Value {
    let stored = read(resource, value.to_string().as_bytes()).unwrap().unwrap();
    assert!(is_stored_form(resource.storage_row(), &stored));
    serde_json::from_slice(&stored).unwrap()
}

/// The definition of the first-use report: what `v1` says for each version stands at the top in `v1beta1`.
fn former_definition() -> Value {
    json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": {"name": "widgets.ex.io", "uid": "u", "generation": 1, "creationTimestamp": "2026-11-27T00:00:00Z"},
        "spec": {
            "group": "ex.io", "version": "v1", "scope": "Namespaced", "preserveUnknownFields": false,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "validation": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "size": {"type": "integer", "maximum": 10.5}}}}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}],
            "versions": [{"name": "v1", "served": true, "storage": true}],
            "conversion": {"strategy": "None"},
        },
        "status": {"conditions": [{"type": "Established", "status": "True", "lastTransitionTime": "2026-11-27T00:00:00Z",
            "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"}],
            "acceptedNames": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "storedVersions": ["v1"]},
    })
}

#[test]
fn a_definition_that_a_kube_apiserver_stored_keeps_its_schema_columns_and_subresources() {
    let read = read_json(definitions(), &former_definition());
    assert_eq!(read["apiVersion"], "apiextensions.k8s.io/v1");
    let version = &read["spec"]["versions"][0];
    assert_eq!(
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["maximum"],
        10.5
    );
    assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.size");
    assert_eq!(
        version["additionalPrinterColumns"],
        json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}])
    );
    for gone in ["validation", "subresources", "additionalPrinterColumns", "version", "preserveUnknownFields"]
    {
        assert_eq!(read["spec"][gone], Value::Null, "{gone}");
    }
    assert_eq!(read["status"], former_definition()["status"]);
    let compiled = crate::crd::Definition::compile_after(&read, None).unwrap();
    assert!(compiled.versions[0].has_status && compiled.versions[0].scale.is_some());
}

#[test]
fn a_definition_with_webhook_conversion_and_columns_of_each_version_is_converted() {
    let mut definition = former_definition();
    let spec = definition["spec"].as_object_mut().unwrap();
    for of_all in ["version", "validation", "additionalPrinterColumns", "preserveUnknownFields"] {
        spec.remove(of_all);
    }
    spec["versions"] = json!([
        {"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".a"}]},
        {"name": "v2", "served": true, "storage": false, "subresources": {"status": {}}},
    ]);
    let client = json!({"service": {"namespace": "n", "name": "s", "port": 443}});
    spec["conversion"] =
        json!({"strategy": "Webhook", "webhookClientConfig": client, "conversionReviewVersions": ["v1"]});
    let read = read_json(definitions(), &definition);
    assert_eq!(
        read["spec"]["conversion"],
        json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}})
    );
    assert_eq!(read["spec"]["preserveUnknownFields"], true, "it was the default");
    let versions = &read["spec"]["versions"];
    assert_eq!(versions[0]["additionalPrinterColumns"][0]["jsonPath"], ".a");
    assert!(versions[0]["subresources"]["scale"].is_object());
    assert_eq!(versions[1]["subresources"], json!({"status": {}}), "its own");
}

#[test]
fn protobuf_of_every_stored_kind_is_read() {
    for resource in RESOURCES.iter().filter(|row| row.is_stored()) {
        let row = resource.storage_row();
        if row.object_type().is_none() {
            continue;
        }
        let object = json!({"apiVersion": row.api_version(), "kind": row.kind, "metadata": {
            "name": "a", "uid": "u", "labels": {"a": "b", "kubernetes.io/metadata.name": "a"},
            "annotations": {"deprecated.daemonset.template.generation": "2"},
            "creationTimestamp": "2026-11-27T00:00:00Z"}});
        let stored = read(resource, &protobuf::encode(&object).unwrap()).unwrap().unwrap();
        let read: Value = serde_json::from_slice(&stored).unwrap();
        assert_eq!(read["metadata"], object["metadata"], "{}", row.kind);
        assert!(is_stored_form(row, &stored), "{}", row.kind);
        assert!(super::read(resource, &stored).unwrap().is_none(), "{}", row.kind);
    }
}

#[test]
fn protobuf_of_a_former_version_is_read_by_its_own_numbers() {
    let stored = read(definitions(), &protobuf::encode(&former_definition()).unwrap()).unwrap().unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&stored).unwrap(),
        read_json(definitions(), &former_definition())
    );
    let ingress = json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": {
        "backend": {"serviceName": "d", "servicePort": 80},
        "rules": [{"host": "h", "http": {"paths": [{"path": "/", "backend": {"serviceName": "s", "servicePort": "web"}}]}}]}});
    let ingresses = row("networking.k8s.io", "v1", "ingresses");
    for stored in [protobuf::encode(&ingress).unwrap().to_vec(), ingress.to_string().into_bytes()] {
        let read: Value = serde_json::from_slice(&read(ingresses, &stored).unwrap().unwrap()).unwrap();
        assert_eq!(read["spec"]["defaultBackend"], json!({"service": {"name": "d", "port": {"number": 80}}}));
        assert_eq!(
            read["spec"]["rules"][0]["http"]["paths"][0],
            json!({"path": "/", "pathType": "ImplementationSpecific", "backend": {"service": {"name": "s", "port": {"name": "web"}}}})
        );
    }
}

#[test]
fn every_former_version_is_of_a_stored_kind_and_is_converted() {
    for (api_version, kind) in versions::all() {
        let resource = kind::every().find(|row| row.kind == kind && row.is_stored());
        let resource = resource.unwrap_or_else(|| panic!("{kind} is not stored"));
        let read =
            read_json(resource, &json!({"kind": kind, "apiVersion": api_version, "metadata": {"name": "a"}}));
        assert_eq!(read["apiVersion"], resource.storage_row().api_version(), "{api_version} {kind}");
    }
}

#[test]
fn what_is_unknown_is_refused() {
    let pods = row("", "v1", "pods");
    let of = |bytes: &[u8]| read(pods, bytes).unwrap_err().to_string();
    assert!(
        of(br#"{"kind":"Pod","apiVersion":"v2","metadata":{"name":"a"}}"#).contains("stored in version v2")
    );
    assert!(of(br#"{"kind":"Node","apiVersion":"v1","metadata":{}}"#).contains("a Node of v1"));
    assert!(of(br#"{"kind":"Pod","apiVersion":"v1"}"#).contains("lacks"));
    assert!(of(b"{").contains("not JSON"));
    assert!(of(b"k8s\0\xff").contains("protobuf"));
    let other = |api_version: &str| {
        protobuf::encode(&json!({"apiVersion": api_version, "kind": "Ingress", "metadata": {}})).unwrap()
    };
    assert!(of(&other("networking.k8s.io/v1")).contains("a Ingress of networking.k8s.io/v1"));
}

#[test]
fn an_autoscaler_that_was_stored_as_v1_is_read_as_v2() {
    let scalers = row("autoscaling", "v2", "horizontalpodautoscalers");
    let former = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 50}});
    let read = read_json(scalers, &former);
    assert_eq!(read["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
}

#[test]
fn the_empty_selector_of_a_former_budget_still_selects_no_pod() {
    let budgets = row("policy", "v1", "poddisruptionbudgets");
    let former = json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1beta1", "metadata": {"name": "b"},
        "spec": {"selector": {}}});
    let read = read_json(budgets, &former);
    assert_eq!(read["spec"]["selector"]["matchExpressions"][0]["operator"], "Exists");
}

#[test]
fn an_object_of_a_kube_apiserver_is_read_with_the_defaults_of_its_kind() {
    // Not stored by kube-apiserver, which sets it whenever it decodes.
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}, "status": {}});
    let bytes = protobuf::encode(&claim).unwrap();
    let read: Value = serde_json::from_slice(
        &super::read(row("", "v1", "persistentvolumeclaims"), &bytes).unwrap().unwrap(),
    )
    .unwrap();
    assert_eq!(read["status"]["phase"], "Pending", "{read}");
}

#[test]
fn members_of_a_former_version_count_as_those_that_they_become() {
    let mut definition = former_definition();
    let members = |definition: &Value| members_not_shown(definitions(), definition.to_string().as_bytes());
    assert_eq!(members(&definition), [""; 0]);
    definition["spec"]["later"] = json!(1);
    assert_eq!(members(&definition), ["spec.later"]);
    assert_eq!(members_not_shown(definitions(), b"k8s\0"), [""; 0]);
}
