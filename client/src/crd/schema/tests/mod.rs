//! Tests of schemas of Rust types: the rewriting as a table, and types whose schemas the API server's own
//! rules validate.

mod keywords;
mod types;

use super::super::{Definition, Rule, Scale};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kstore_api::crd::{self, strategy, validate};
use kstore_api::structural::{Origin, Tree, ValidationScope};
use serde_json::{Value, json, to_value};
use std::sync::Arc;

const LAMP: Definition = Definition {
    group: "shop.example.com",
    version: "v1",
    kind: "Lamp",
    plural: "lamps",
    singular: "lamp",
    short_names: &[],
    categories: &[],
    is_namespaced: true,
    has_status: false,
    scale: None,
    columns: &[],
    selectable: &[],
    rules: &[],
    deprecated: None,
};

/// A definition whose `spec` has this schema, with the API server's defaults.
fn definition(spec: JSONSchemaProps) -> Value {
    let mut crd = to_value(LAMP.with_schemas(spec, None)).unwrap();
    strategy::set_defaults(&mut crd);
    strategy::prepare_create(&mut crd);
    crd
}

/// The compiled schema of objects with such a `spec`; asserts that the API server accepts the definition.
fn accepted(spec: JSONSchemaProps) -> Arc<Tree> {
    let crd = definition(spec);
    let errors = validate::create(&crd);
    assert!(errors.is_empty(), "{errors:?}\n{crd:#}");
    assert_eq!(strategy::warnings(&crd, None), Vec::<String>::new());
    crd::Definition::compile(&crd).unwrap().version("v1").unwrap().tree.clone()
}

/// The `spec` as an API server stores it, or the validation error. Unknown fields are errors.
fn store(tree: &Tree, spec: Value) -> Result<Value, String> {
    let mut object = json!({"apiVersion": "shop.example.com/v1", "kind": "Lamp",
        "metadata": {"name": "hall"}, "spec": spec});
    let problems = tree.read(&mut object, Origin::Request).map_err(|error| format!("{error:?}"))?;
    if !problems.is_empty() {
        return Err(format!("unknown: {problems:?}"));
    }
    let errors = tree.validate(&object, None, ValidationScope::Whole);
    match errors.is_empty() {
        true => Ok(object["spec"].take()),
        false => Err(format!("{errors:?}")),
    }
}

#[test]
fn subresources_of_a_definition_are_enabled() {
    let scale = Scale { spec: ".spec.replicas", status: ".status.replicas", selector: None };
    let definition = Definition { has_status: true, scale: Some(scale), ..LAMP };
    let object = || serde_json::from_value(json!({"type": "object"})).unwrap();
    let mut crd = to_value(definition.with_schemas(object(), Some(object()))).unwrap();
    strategy::set_defaults(&mut crd);
    let compiled = crd::Definition::compile(&crd).unwrap();
    let version = compiled.version("v1").unwrap();
    assert!(version.has_status && version.scale.is_some());
    assert_eq!(crd["spec"]["versions"][0]["subresources"]["status"], json!({}));
}

#[test]
fn rules_of_a_definition_are_checked_against_the_schema_of_the_whole_object() {
    let spec =
        || serde_json::from_value(json!({"type": "object", "properties": {"watts": {"type": "integer"}}}));
    let rule = |rule| Rule {
        rule,
        message: Some("too bright"),
        message_expression: None,
        reason: None,
        field_path: Some(".spec.watts"),
        optional_old_self: None,
    };
    let errors = |rule: Rule| {
        let rules = Box::leak(Box::new([rule]));
        let crd = Definition { rules, ..LAMP }.with_schemas(spec().unwrap(), None);
        let mut crd = to_value(crd).unwrap();
        strategy::set_defaults(&mut crd);
        strategy::prepare_create(&mut crd);
        validate::create(&crd).len()
    };
    assert_eq!(errors(rule("self.spec.watts < 100 && self.metadata.name != 'sun'")), 0);
    assert_ne!(errors(rule("self.spec.lumen < 100")), 0);
}
