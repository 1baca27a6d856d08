//! Holds every document byte for byte, by its length and hash in `golden.txt`. The first lines of that file are of
//! the documents that the Rust types of `k8s-openapi` 0.29 gave, before documents came from the field table.
//!
//! A change on purpose replaces the lines that the test prints. `KSTORE_OPENAPI_OUT=<folder>` writes the documents,
//! to compare them with those of another commit.

use super::{
    DocumentScope, GOLDEN, GroupVersion, Piece, ResourceDoc, custom_document, definition, frame, gnostic,
};
use crate::crd::Definition;
use crate::kind;
use crate::version::Minor;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Every document of a server that serves all kinds, also those that are off by default.
fn scopes() -> Vec<DocumentScope> {
    let mut resources: BTreeMap<(&str, &str), Vec<ResourceDoc>> = BTreeMap::new();
    for row in kind::every() {
        resources.entry((row.group, row.version)).or_default().push(row.into());
    }
    let mut groups: Vec<&str> = resources.keys().map(|(group, _)| *group).collect();
    groups.dedup();
    let groups = groups.into_iter().filter(|group| !group.is_empty()).map(|group| group.to_owned());
    let mut scopes: Vec<DocumentScope> =
        groups.map(|group| DocumentScope::Group(group, Minor::DEFAULT)).collect();
    for ((group, version), docs) in resources {
        let gv = GroupVersion { group: group.to_owned(), version: version.to_owned() };
        scopes.push(DocumentScope::Resources(gv, docs));
    }
    let pages = [DocumentScope::Versions, DocumentScope::Groups, DocumentScope::Version];
    scopes.extend(pages.map(|page| page(Minor::DEFAULT)));
    scopes.extend([DocumentScope::Issuer(Minor::DEFAULT), DocumentScope::Keys(Minor::DEFAULT)]);
    scopes
}

/// The v2 document of these scopes.
fn swagger(scopes: &[DocumentScope]) -> Value {
    let scopes: Vec<&DocumentScope> = scopes.iter().collect();
    let Piece { paths, parameters, .. } = Piece::paths_of(&scopes);
    let [before, between, after] = frame(Minor::DEFAULT, std::iter::once(&parameters));
    let text = [before, paths, between, Piece::models_of(&scopes).definitions, after].concat();
    serde_json::from_str(&text).unwrap()
}

/// A definition, namespaced or not, with every subresource and every form of a schema.
fn custom_definition(scope: &str) -> Value {
    let schema = json!({"type": "object", "description": "A foo.", "required": ["spec"], "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        "spec": {"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "replicas": {"type": "integer", "format": "int32", "default": 1, "minimum": 0},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true},
            "sizes": {"type": "object", "additionalProperties": {"type": "string", "enum": ["small", "large"]}},
            "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
            "choice": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
                "a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                "x-kubernetes-validations": [{"rule": "has(self.a)"}]}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com", "uid": "1"},
        "spec": {"group": "example.com", "scope": scope,
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas"}},
                "schema": {"openAPIV3Schema": schema}}]}})
}

/// The v3 and v2 documents of a custom kind, which refer to built-in models.
fn custom(scope: &str) -> (Value, Value) {
    let crd = custom_definition(scope);
    let definition = Definition::compile(&crd).unwrap();
    let piece = Piece::of_custom(&[definition::v2(&definition, &crd, "v1")]);
    let [before, between, after] = frame(Minor::DEFAULT, std::iter::once(&piece.parameters));
    let swagger = [before, piece.paths, between, piece.definitions, after].concat();
    (custom_document(&[definition::v3(&definition, &crd, "v1")]), serde_json::from_str(&swagger).unwrap())
}

/// Name of each document with its bytes as JSON and as protobuf.
fn documents() -> Vec<(String, [Vec<u8>; 2])> {
    let scopes = scopes();
    let bytes = |document: &Value, protobuf: Vec<u8>| [document.to_string().into_bytes(), protobuf];
    let mut out = Vec::new();
    for scope in &scopes {
        let document = scope.document();
        out.push((format!("v3/{}", scope.name()), bytes(&document, gnostic::v3(&document))));
    }
    for scope in ["Namespaced", "Cluster"] {
        let (v3, v2) = custom(scope);
        out.push((format!("v3/apis/example.com/v1 {scope}"), bytes(&v3, gnostic::v3(&v3))));
        out.push((format!("v2/apis/example.com/v1 {scope}"), bytes(&v2, gnostic::v2(&v2))));
    }
    let swagger = swagger(&scopes);
    out.push(("v2".to_owned(), bytes(&swagger, gnostic::v2(&swagger))));
    out
}

/// Length and first half of the hash.
fn summary(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash[..16].iter().fold(format!("{} ", bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
fn documents_are_byte_for_byte_those_of_the_golden_file() {
    let documents = documents();
    if let Some(folder) = std::env::var_os("KSTORE_OPENAPI_OUT").map(PathBuf::from) {
        for (name, [json, protobuf]) in &documents {
            let name = name.replace('/', "_");
            let value: Value = serde_json::from_slice(json).unwrap();
            std::fs::write(folder.join(format!("{name}.json")), format!("{value:#}\n")).unwrap();
            std::fs::write(folder.join(format!("{name}.pb")), protobuf).unwrap();
        }
    }
    let lines = documents.iter().map(|(name, [json, protobuf])| {
        format!("{name} json {} protobuf {}", summary(json), summary(protobuf))
    });
    let golden: Vec<&str> = GOLDEN.lines().filter(|line| !line.starts_with('#')).collect();
    let changed: Vec<String> = lines.filter(|line| !golden.contains(&line.as_str())).collect();
    assert!(changed.is_empty(), "new or changed documents:\n{}", changed.join("\n"));
    assert_eq!(documents.len(), golden.len(), "the golden file has documents that no longer exist");
}
