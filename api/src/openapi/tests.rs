//! What kubectl looks for in a document.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{GroupVersion, ResourceDoc, document, fingerprint, index};
use crate::kind::RESOURCES;

fn all() -> Vec<(GroupVersion, Vec<ResourceDoc>)> {
    let gvs: BTreeSet<(&str, &str)> = RESOURCES.iter().map(|r| (r.group, r.version)).collect();
    let docs = |(group, version): (&str, &str)| {
        let rows = RESOURCES.iter().filter(|r| r.group == group && r.version == version);
        let gv = GroupVersion { group: group.to_owned(), version: version.to_owned() };
        (gv, rows.map(ResourceDoc::from).collect())
    };
    gvs.into_iter().map(docs).collect()
}

fn one(group: &str) -> Value {
    let (gv, docs) = all().into_iter().find(|(gv, _)| gv.group == group).unwrap();
    document(&gv, &docs)
}

/// Every `$ref` in a document.
fn references(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            out.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|v| references(v, out));
        }
        Value::Array(items) => items.iter().for_each(|v| references(v, out)),
        _ => {}
    }
}

#[test]
fn every_resource_has_its_schema_and_no_reference_dangles() {
    for (gv, docs) in all() {
        let document = document(&gv, &docs);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for doc in &docs {
            assert!(schemas.contains_key(&doc.schema_name), "{} has no schema", doc.schema_name);
        }
        let mut found = Vec::new();
        references(&document, &mut found);
        for reference in found {
            let name =
                reference.strip_prefix("#/components/schemas/").expect("references stay in the document");
            assert!(schemas.contains_key(name), "{name} dangles in {gv:?}");
        }
        let mut ids = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for operation in item.as_object().unwrap().values().filter_map(|o| o.get("operationId")) {
                assert!(ids.insert(operation.as_str().unwrap()), "{operation} repeats at {path}");
            }
        }
    }
}

#[test]
fn schemas_carry_kinds_merge_keys_and_list_types() {
    let core = one("");
    let schema = |name: &str| &core["components"]["schemas"][format!("io.k8s.api.core.v1.{name}")];
    assert_eq!(
        schema("Pod")["x-kubernetes-group-version-kind"],
        json!([{"group": "", "version": "v1", "kind": "Pod"}])
    );
    assert_eq!(schema("Pod").get("required"), None);
    let containers = &schema("PodSpec")["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(schema("PodSpec")["properties"]["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(schema("PodSpec")["required"], json!(["containers"]));
    assert!(schema("PodSpec")["properties"]["containers"]["description"].as_str().unwrap().len() > 20);
    let security = &schema("PodSpec")["properties"]["securityContext"];
    assert_eq!(security["allOf"][0]["$ref"], "#/components/schemas/io.k8s.api.core.v1.PodSecurityContext");
    assert_eq!(schema("ObjectReference")["x-kubernetes-map-type"], "atomic");
    assert_eq!(schema("PodList")["properties"]["items"]["type"], "array");
}

#[test]
fn patch_operations_tell_kubectl_how_to_patch_and_validate() {
    let apps = one("apps");
    let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    assert_eq!(
        (&patch["x-kubernetes-action"], &patch["x-kubernetes-group-version-kind"]),
        (&json!("patch"), &kind)
    );
    let names: Vec<_> =
        patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let content: Vec<_> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(content.len(), 4);
    let scale = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
    assert_eq!(apps["paths"]["/apis/apps/v1/deployments"]["get"]["x-kubernetes-action"], "list");
}

#[test]
fn custom_resources_have_their_schema_and_no_strategic_merge() {
    let gv = GroupVersion { group: "example.com".into(), version: "v1".into() };
    let doc = ResourceDoc {
        plural: "foos".into(),
        kind: "Foo".into(),
        schema_name: "com.example.v1.Foo".into(),
        namespaced: false,
        verbs: ["create", "get", "list", "patch"].map(str::to_owned).into(),
        subresources: Vec::new(),
        custom: Some(json!({"type": "object", "properties": {"spec": {"type": "object"}}})),
    };
    let document = document(&gv, std::slice::from_ref(&doc));
    let schema = &document["components"]["schemas"]["com.example.v1.Foo"];
    assert_eq!(schema["properties"]["spec"]["type"], "object");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Foo");
    let content = &document["paths"]["/apis/example.com/v1/foos/{name}"]["patch"]["requestBody"]["content"];
    assert_eq!(content.as_object().unwrap().len(), 3);
    let changed = ResourceDoc { custom: Some(json!({})), ..doc.clone() };
    assert_ne!(fingerprint(&gv, &[doc]), fingerprint(&gv, &[changed]));
}

#[test]
fn the_index_names_every_document_with_its_fingerprint() {
    let all = all();
    let index = index(all.iter().map(|(gv, docs)| (gv, docs.as_slice())));
    let apps = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    assert!(apps.starts_with("/openapi/v3/apis/apps/v1?hash="));
    assert!(index["paths"]["api/v1"].is_object());
}
