//! Tests of the facts that kubectl reads from documents.

use super::{DocumentScope, GroupVersion, Piece, ResourceDoc, custom_document, definition, frame, index};
use crate::crd::Definition;
use crate::kind::RESOURCES;
use crate::version::Minor;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn all() -> Vec<(GroupVersion, Vec<ResourceDoc>)> {
    let gvs: BTreeSet<(&str, &str)> = RESOURCES.iter().map(|r| (r.group, r.version)).collect();
    let docs = |(group, version): (&str, &str)| {
        let rows = RESOURCES.iter().filter(|r| r.group == group && r.version == version);
        let gv = GroupVersion { group: group.to_owned(), version: version.to_owned() };
        (gv, rows.map(ResourceDoc::from).collect())
    };
    gvs.into_iter().map(docs).collect()
}

/// The v2 document of all built-in resources and these pieces.
fn joined(custom: &[Piece]) -> Value {
    let all: Vec<DocumentScope> =
        all().into_iter().map(|(gv, docs)| DocumentScope::Resources(gv, docs)).collect();
    let all: Vec<&DocumentScope> = all.iter().collect();
    let built_in = Piece { definitions: Piece::models_of(&all).definitions, ..Piece::paths_of(&all) };
    let pieces: Vec<&Piece> = std::iter::once(&built_in).chain(custom).collect();
    let [before, between, after] = frame(Minor::DEFAULT, pieces.iter().map(|piece| &piece.parameters));
    let members = |of: fn(&Piece) -> &str| pieces.iter().map(|piece| of(piece)).collect::<Vec<_>>().join(",");
    let text =
        [before, members(|piece| &piece.paths), between, members(|piece| &piece.definitions), after].concat();
    serde_json::from_str(&text).unwrap()
}

fn one(group: &str) -> Value {
    let (gv, docs) = all().into_iter().find(|(gv, _)| gv.group == group).unwrap();
    DocumentScope::Resources(gv, docs).document()
}

/// Collects every `$ref` in a document.
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
fn every_resource_has_a_schema_and_every_reference_resolves() {
    for (gv, docs) in all() {
        let document = DocumentScope::Resources(gv.clone(), docs.clone()).document();
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
fn schemas_have_kinds_merge_keys_and_list_types() {
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
fn patch_operations_list_media_types_and_field_validation() {
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

fn foo(schema: &Value) -> (Definition, Value) {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com", "uid": "1"},
        "spec": {"group": "example.com", "scope": "Cluster",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    (Definition::compile(&crd).unwrap(), crd)
}

#[test]
fn custom_resources_have_a_schema_and_no_strategic_merge_patch() {
    let (definition, crd) = foo(&json!({"type": "object", "properties": {"spec": {"type": "object"}}}));
    let document = custom_document(&[definition::v3(&definition, &crd, "v1")]);
    let schemas = &document["components"]["schemas"];
    let schema = &schemas["com.example.v1.Foo"];
    assert_eq!(schema["properties"]["spec"]["type"], "object");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Foo");
    let content = &document["paths"]["/apis/example.com/v1/foos/{name}"]["patch"]["requestBody"]["content"];
    assert_eq!(content.as_object().unwrap().len(), 3);
    let mut found = Vec::new();
    references(&document, &mut found);
    for reference in found {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference} dangles");
    }
}

#[test]
fn fingerprints_of_custom_kinds_change_only_with_their_schema() {
    let (definition, mut crd) = foo(&json!({"type": "object"}));
    let facts = definition::facts(&definition, "v1");
    crd["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(definition::facts(&Definition::compile(&crd).unwrap(), "v1"), facts);
    let (changed, _) = foo(&json!({"type": "object", "description": "other"}));
    assert_ne!(definition::facts(&changed, "v1"), facts);
    assert_eq!(definition::facts(&definition, "v2"), None);
}

#[test]
fn joined_v2_pieces_form_a_document_without_dangling_references() {
    let (definition, crd) =
        foo(&json!({"type": "object", "properties": {"spec": {"type": "object", "nullable": true}}}));
    let document = joined(&[Piece::of_custom(&[definition::v2(&definition, &crd, "v1")])]);
    assert_eq!(document["definitions"]["com.example.v1.Foo"]["properties"]["spec"], json!({}));
    assert!(document["definitions"]["io.k8s.api.apps.v1.Deployment"].is_object());
    assert!(document["paths"]["/apis/example.com/v1/foos/{name}"]["get"].is_object());
    let mut found = Vec::new();
    references(&document, &mut found);
    for reference in found {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference} dangles");
    }
    let alone: Value = serde_json::from_str(&frame(Minor::V34, std::iter::empty()).concat()).unwrap();
    assert_eq!((&alone["swagger"], &alone["paths"]), (&json!("2.0"), &json!({})));
}

#[test]
fn index_lists_every_document_with_its_fingerprint() {
    let index = index([("apis/apps/v1", "ABC"), ("version", "DEF")]);
    assert_eq!(index["paths"]["apis/apps/v1"]["serverRelativeURL"], "/openapi/v3/apis/apps/v1?hash=ABC");
    assert_eq!(index["paths"]["version"]["serverRelativeURL"], "/openapi/v3/version?hash=DEF");
}

#[test]
fn members_have_defaults_and_enumerations() {
    let core = one("");
    let property = |name: &str, field: &str| {
        core["components"]["schemas"][format!("io.k8s.api.core.v1.{name}")]["properties"][field].clone()
    };
    let protocol = property("ServicePort", "protocol");
    assert_eq!((&protocol["default"], &protocol["enum"]), (&json!("TCP"), &json!(["SCTP", "TCP", "UDP"])));
    assert_eq!(property("ServicePort", "port")["default"], 0);
    assert_eq!(property("ServicePort", "name").get("default"), None, "left out when empty");
    assert_eq!(property("Pod", "spec")["default"], json!({}));
    assert_eq!(property("PodSpec", "securityContext").get("default"), None, "a pointer");
    assert_eq!(property("PodSpec", "containers")["items"].get("default"), None, "elements are never absent");
    assert_eq!(property("ServiceSpec", "ipFamilies")["items"]["enum"], json!(["", "IPv4", "IPv6"]));
    let seccomp = &core["components"]["schemas"]["io.k8s.api.core.v1.SeccompProfile"];
    assert_eq!(seccomp["x-kubernetes-unions"][0]["discriminator"], "type");
    assert_eq!(property("PersistentVolumeSpec", "claimRef")["x-kubernetes-map-type"], "granular");
}

#[test]
fn references_have_no_siblings_in_v3_and_siblings_in_v2() {
    fn alone(value: &Value) -> bool {
        match value {
            Value::Object(map) if map.get("$ref").is_some_and(Value::is_string) => map.len() == 1,
            Value::Object(map) => map.values().all(alone),
            Value::Array(items) => items.iter().all(alone),
            _ => true,
        }
    }
    assert!(all().into_iter().all(|(gv, docs)| alone(&DocumentScope::Resources(gv, docs).document())));
    let swagger = joined(&[]);
    let spec = &swagger["definitions"]["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.apps.v1.DeploymentSpec");
    assert_eq!((spec.get("default"), spec["description"].is_string()), (None, true));
    let port = &swagger["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
    assert_eq!((&port["type"], &port["format"]), (&json!("string"), &json!("int-or-string")));
    let mut found = Vec::new();
    references(&swagger, &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("references stay in the document");
        assert!(swagger.pointer(pointer).is_some(), "{reference} dangles");
    }
    let post = &swagger["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"];
    let body = &post["parameters"][0];
    assert_eq!(
        (&body["in"], &body["schema"]["$ref"]),
        (&json!("body"), &json!("#/definitions/io.k8s.api.apps.v1.Deployment"))
    );
    assert_eq!(post["consumes"], json!(["*/*"]));
    assert!(post["produces"].as_array().unwrap().contains(&json!("application/json")));
    assert_eq!(post["responses"]["201"]["schema"]["$ref"], "#/definitions/io.k8s.api.apps.v1.Deployment");
}
