//! Validation of structural schemas: the type of every value must be known without `allOf`, `anyOf`, `oneOf`
//! and `not`.

use super::structural_nested as nested;
use crate::crd::schema::members;
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use serde_json::Value;

pub(super) const EMBEDDED: &str = "x-kubernetes-embedded-resource";
pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
pub(super) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// Position of a node in its schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Root,
    Item,
    Field,
}

/// Why a schema cannot be converted to a structural one; the first reason in Kubernetes' order.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    if !schema.is_object() {
        return None;
    }
    let is_filled = |member: &str| schema[member].as_object().is_some_and(|own| !own.is_empty());
    let words = [
        (!text(&schema["id"]).is_empty(), "id"),
        (!text(&schema["$schema"]).is_empty(), "schema"),
        (!text(&schema["$ref"]).is_empty(), "$ref"),
        (is_filled("patternProperties"), "patternProperties"),
        (is_filled("dependencies"), "dependencies"),
        (!schema["additionalItems"].is_null(), "additionalItems"),
        (is_filled("definitions"), "definitions"),
    ];
    if let Some((_, word)) = words.into_iter().find(|(is_there, _)| *is_there) {
        return Some(format!("OpenAPIV3Schema '{word}' is not supported"));
    }
    if let Some(fault) = unsupported(&schema["not"]) {
        return Some(fault);
    }
    let branches = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|member| list(&schema[member]));
    if let Some(fault) = branches.into_iter().find_map(unsupported) {
        return Some(fault);
    }
    if schema[PRESERVE] == false {
        return Some(format!("internal error: '{PRESERVE}' must be true or undefined"));
    }
    if !list(&schema["items"]).is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let properties = members(&schema["properties"]).into_iter().map(|(_, property)| property);
    let inside = std::iter::once(&schema["items"]).chain(properties).chain([&schema["additionalProperties"]]);
    inside.into_iter().find_map(unsupported)
}

/// Whether a schema is not structural.
pub(super) fn is_not_structural(schema: &Value) -> bool {
    unsupported(schema).is_some() || !faults(&Path::ROOT, schema).is_empty()
}

/// Reasons why a schema is not structural, sorted by text.
pub(super) fn faults(path: &Path<'_>, schema: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    node(&mut errors, path, schema, Level::Root);
    nested::completeness(&mut errors, (path, path), schema, Some(schema));
    let mut found: Vec<_> = errors.iter().cloned().collect();
    found.sort_by_cached_key(ToString::to_string);
    let mut sorted = ErrorList::new();
    found.into_iter().for_each(|error| sorted.push(error));
    sorted
}

fn node(errors: &mut ErrorList, path: &Path<'_>, schema: &Value, level: Level) {
    if !schema.is_object() || errors.is_full() {
        return;
    }
    if schema["type"] == "array" && !schema["items"].is_object() {
        errors.required(&path.child("items"), "must be specified");
    }
    node(errors, &path.child("items"), &schema["items"], Level::Item);
    let properties = path.child("properties");
    for (name, property) in members(&schema["properties"]) {
        node(errors, &properties.key(name), property, Level::Field);
    }
    if !schema["additionalProperties"].is_null() {
        let at = path.child("additionalProperties");
        if level == Level::Root {
            errors.forbidden(&at, "must not be used at the root");
        }
        node(errors, &at, &schema["additionalProperties"], Level::Field);
    }
    int_or_string(errors, path, schema);
    nested::of_node(errors, path, schema);
    own_type(errors, path, schema, level);
    metadata(errors, path, schema, level);
    let is_empty = schema["properties"].as_object().is_none_or(|own| own.is_empty());
    if schema[EMBEDDED] == true && schema[PRESERVE] != true && is_empty {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(&path.child("properties"), detail);
    }
}

fn int_or_string(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    for member in [PRESERVE, EMBEDDED] {
        if schema[INT_OR_STRING] == true && schema[member] == true {
            errors.invalid(&path.child(member), &true, "must be false if x-kubernetes-int-or-string is true");
        }
    }
}

fn own_type(errors: &mut ErrorList, path: &Path<'_>, schema: &Value, level: Level) {
    let (at, own) = (path.child("type"), text(&schema["type"]));
    let is_embedded = schema[EMBEDDED] == true;
    if is_embedded && own != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match own {
            "" => errors.required(&at, detail),
            own => errors.invalid(&at, own, detail),
        }
    } else if own.is_empty() && schema[INT_OR_STRING] != true && schema[PRESERVE] != true {
        errors.required(
            &at,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        );
    }
    if is_embedded && !schema["additionalProperties"].is_null() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(&path.child("additionalProperties"), detail);
    }
    if level == Level::Root && !own.is_empty() && own != "object" {
        errors.invalid(&at, own, "must be object at the root");
    }
}

/// Checks the schemas of an object's kind, apiVersion and metadata.
fn metadata(errors: &mut ErrorList, path: &Path<'_>, schema: &Value, level: Level) {
    let properties = path.child("properties");
    if level != Level::Root && schema[EMBEDDED] != true {
        return;
    }
    for member in ["kind", "apiVersion"] {
        let own = &schema["properties"][member];
        if own.is_object() && own["type"] != "string" {
            errors.invalid(&properties.key(member).child("type"), text(&own["type"]), "must be string");
        }
    }
    let own = &schema["properties"]["metadata"];
    if !own.is_object() {
        return;
    }
    let at = properties.key("metadata");
    if own["type"] != "object" {
        errors.invalid(&at.child("type"), text(&own["type"]), "must be object");
    }
    if level == Level::Root && restricts_more_than_names(own) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(&at, detail);
    }
}

/// Whether a schema of metadata restricts more than its type, name and generateName.
fn restricts_more_than_names(metadata: &Value) -> bool {
    let names = members(&metadata["properties"]);
    let only_names = names.iter().all(|(name, _)| matches!(*name, "name" | "generateName"));
    super::print::members(metadata)
        .any(|(member, _)| !matches!(member, "Type" | "Default") && (member != "Properties" || !only_names))
}
