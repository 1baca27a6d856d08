//! Compares discovery, models, tables, scales and selectors of a custom kind with recorded answers of
//! Kubernetes.

use super::replay::lines;
use crate::crd::{Definition, columns, discovery, names, scale, strategy};
use crate::meta;
use crate::object::{list, text};
use crate::openapi::definition as openapi;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The recorded definition with its accepted names.
fn shop(lines: &[Value]) -> (Value, Definition) {
    let mut crd = lines.iter().find(|line| line["id"] == "custom-objects-001").unwrap()["body"].clone();
    strategy::set_defaults(&mut crd);
    strategy::prepare_create(&mut crd);
    for (_, status) in names::plan_names(&[&crd.clone()], "2026-01-01T00:00:00Z") {
        crd["status"] = status;
    }
    let definition = Definition::compile(&crd).unwrap();
    (crd, definition)
}

fn answer<'l>(lines: &'l [Value], id: &str) -> &'l Value {
    &lines.iter().find(|line| line["id"] == id).unwrap()["response"]
}

#[test]
fn discovery_matches_recorded_answers() {
    let lines = lines("custom-objects.jsonl");
    if lines.is_empty() {
        return;
    }
    let (_, shop) = shop(&lines);
    assert_eq!(
        discovery::group_versions([&shop]).iter().map(|own| &**own).collect::<Vec<_>>(),
        ["v1", "v1beta1", "v1alpha1"]
    );
    for (id, version) in [("custom-objects-003", "v1"), ("custom-objects-004", "v1beta1")] {
        let own = discovery::api_resources(&shop, shop.version(version).unwrap());
        assert_eq!(json!(own), answer(&lines, id)["resources"]);
    }
    for version in list(&answer(&lines, "custom-objects-006")["items"][0]["versions"]) {
        let own = discovery::aggregated_resource(&shop, shop.version(text(&version["version"])).unwrap());
        assert_eq!(json!([own]), version["resources"]);
    }
    let beta = shop.version("v1beta1").unwrap();
    assert_eq!(
        beta.warning.as_deref(),
        Some("shop.rec.dev/v1beta1 Shop is deprecated; use shop.rec.dev/v1 Shop")
    );
}

#[test]
fn openapi_v3_matches_recorded_answers() {
    let lines = lines("custom-objects.jsonl");
    if lines.is_empty() {
        return;
    }
    let (crd, shop) = shop(&lines);
    let recorded = answer(&lines, "openapi-v1");
    let own = openapi::v3(&shop, &crd, "v1");
    for (name, model) in &own.schemas {
        assert_eq!(*model, recorded["components"]["schemas"][name], "{name}");
    }
    let beta = openapi::v3(&shop, &crd, "v1beta1");
    for (name, model) in &beta.schemas {
        assert_eq!(*model, answer(&lines, "openapi-v1beta1-schemas")[name], "{name}");
    }
    for name in own.references() {
        assert!(recorded["components"]["schemas"].get(name).is_some(), "{name}");
    }
    let facts = |paths: &Value| {
        let mut out = BTreeMap::new();
        for (path, item) in paths.as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let Some(id) = operation.get("operationId") else { continue };
                let content = |body: &Value| body["content"].clone();
                let body = content(&operation["requestBody"]);
                // Kubernetes lists apply-patch+yaml first, and its v3 documents have no CBOR.
                let facts = json!([
                    id,
                    operation["tags"],
                    operation["description"],
                    operation["x-kubernetes-group-version-kind"],
                    operation["x-kubernetes-action"],
                    content(&operation["responses"]["200"]),
                    body.as_object().map(|own| own.keys().collect::<Vec<_>>())
                ]);
                out.insert(format!("{method} {path}"), facts);
            }
        }
        out
    };
    let (own, recorded) = (facts(&json!(own.paths)), facts(&recorded["paths"]));
    assert_eq!(own.keys().collect::<Vec<_>>(), recorded.keys().collect::<Vec<_>>());
    for (operation, facts) in &recorded {
        assert_eq!(own[operation], *facts, "{operation}");
    }
}

#[test]
fn tables_match_recorded_answers() {
    let lines = lines("custom-objects.jsonl");
    if lines.is_empty() {
        return;
    }
    let (_, shop) = shop(&lines);
    for (id, version) in [("custom-objects-123", "v1"), ("custom-objects-129", "v1beta1")] {
        let own = serde_json::to_value(&shop.version(version).unwrap().columns[..]).unwrap();
        assert_eq!(own, answer(&lines, id)["columnDefinitions"]);
    }
    let now = meta::parse_time("2026-01-01T01:00:00Z").unwrap();
    let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:58:00Z"},
        "spec": {"size": 3.7, "colour": "red", "on": true, "when": "2026-01-01T00:00:00Z", "tags": ["x", "y"], "ratio": 2},
        "status": {"phase": null}});
    let cells = columns::cells(&shop.version("v1").unwrap().columns, &object, now);
    assert_eq!(
        cells,
        [
            json!("a"),
            json!(3),
            json!("red"),
            json!("<no value>"),
            json!(true),
            json!("60m"),
            json!("x"),
            json!("[\"x\",\"y\"]"),
            json!(2),
            json!("2m")
        ]
    );
}

#[test]
fn scales_match_recorded_answers() {
    let lines = lines("custom-objects.jsonl");
    if lines.is_empty() {
        return;
    }
    let (_, shop) = shop(&lines);
    let paths: &scale::ScalePaths = shop.version("v1").unwrap().scale.as_ref().unwrap();
    let mut object = json!({"metadata": {"name": "one", "namespace": "default", "uid": "<uid>", "resourceVersion": "<rv>",
        "creationTimestamp": "<time>"}, "spec": {"replicas": 1}, "status": {"replicas": 2, "selector": "a=b"}});
    assert_eq!(paths.of(&object).unwrap(), *answer(&lines, "custom-objects-109"));
    paths.apply(&json!({"spec": {"replicas": 3}}), &mut object).unwrap();
    assert_eq!(paths.of(&object).unwrap(), *answer(&lines, "custom-objects-110"));
    paths.apply(&json!({"spec": {"replicas": -1}}), &mut object).unwrap();
    let errors = paths.check_spec(&object);
    assert_eq!(errors.aggregate(), ".spec.replicas: Invalid value: -1: should be a non-negative integer");
    let causes = |id: &str| text(&answer(&lines, id)["message"]).to_owned();
    let errors = paths.check_spec(&json!({"spec": "x"}));
    assert!(causes("custom-objects-021").contains(&errors.aggregate()));
    let errors = paths.check_status(&json!({"status": "x"}));
    for error in errors.iter() {
        assert!(causes("custom-objects-105").contains(&error.to_string()), "{error}");
    }
    assert_eq!(errors.len(), 2);
}
