//! Validation of merge types: `x-kubernetes-map-type`, `x-kubernetes-list-type` and its keys.

use super::options::Options;
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use serde_json::Value;
use std::collections::BTreeSet;

const MAP_TYPE: &str = "x-kubernetes-map-type";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const KEYS: &str = "x-kubernetes-list-map-keys";

/// Checks list type and map type of a node.
pub(super) fn check(errors: &mut ErrorList, path: &Path<'_>, schema: &Value, options: &Options) {
    if let Some(own) = schema[MAP_TYPE].as_str() {
        must_be(errors, path, schema, "object", "must be object if x-kubernetes-map-type is specified");
        if !matches!(own, "atomic" | "granular") {
            errors.not_supported_as_listed(&path.child(MAP_TYPE), own, &["atomic", "granular"]);
        }
    }
    if let Some(own) = schema[LIST_TYPE].as_str() {
        if schema["type"] != "array" {
            must_be(errors, path, schema, "array", "must be array if x-kubernetes-list-type is specified");
        } else if options.atomic_sets && is_set_of_granular(schema) {
            atomic_items(errors, &path.child("items"), &schema["items"]);
        }
        if !matches!(own, "atomic" | "set" | "map") {
            errors.not_supported_as_listed(&path.child(LIST_TYPE), own, &["atomic", "set", "map"]);
        }
    }
    keys_need_map(errors, path, schema);
    if schema[LIST_TYPE] == "map" {
        map_of_objects(errors, path, schema);
    }
    if options.map_keys {
        keys_are_there(errors, path, schema);
    }
}

fn must_be(errors: &mut ErrorList, path: &Path<'_>, schema: &Value, wanted: &str, detail: &str) {
    match text(&schema["type"]) {
        own if own == wanted => {}
        "" => errors.required(&path.child("type"), detail),
        own => errors.invalid(&path.child("type"), own, detail),
    }
}

/// Whether a node is a set with granular items.
pub(super) fn is_set_of_granular(schema: &Value) -> bool {
    let items = &schema["items"];
    schema[LIST_TYPE] == "set"
        && match text(&items["type"]) {
            "array" => items[LIST_TYPE].as_str().is_some_and(|own| own != "atomic"),
            "object" => items[MAP_TYPE] != "atomic",
            _ => false,
        }
}

fn atomic_items(errors: &mut ErrorList, path: &Path<'_>, items: &Value) {
    let member = if items["type"] == "array" { LIST_TYPE } else { MAP_TYPE };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    // Kubernetes prints the list type in both cases.
    errors.invalid(&path.child(member), &items[LIST_TYPE], detail);
}

fn keys_need_map(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    match schema[LIST_TYPE].as_str() {
        _ if list(&schema[KEYS]).is_empty() => {}
        None => errors.required(&path.child(LIST_TYPE), detail),
        Some("map") => {}
        Some(own) => errors.invalid(&path.child(LIST_TYPE), own, detail),
    }
}

fn map_of_objects(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    let keys = list(&schema[KEYS]);
    if keys.is_empty() {
        errors.required(&path.child(KEYS), "must not be empty if x-kubernetes-list-type is map");
    }
    let (at, items) = (path.child("items"), &schema["items"]);
    match items {
        Value::Null => errors.required(&at, "must have a schema if x-kubernetes-list-type is map"),
        Value::Object(_) if items["type"] != "object" => {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            errors.invalid(&at.child("type"), text(&items["type"]), detail);
        }
        Value::Object(_) => map_keys(errors, path, schema, keys),
        other => {
            errors.invalid(&at, other, "must only have a single schema if x-kubernetes-list-type is map");
        }
    }
}

fn map_keys(errors: &mut ErrorList, path: &Path<'_>, schema: &Value, keys: &[Value]) {
    let items = path.child("items");
    let properties = items.child("properties");
    let mut seen = BTreeSet::new();
    for key in keys.iter().map(text) {
        match schema["items"]["properties"].get(key) {
            None => errors.invalid(&path.child(KEYS), keys, "entries must all be names of item properties"),
            Some(property) if matches!(text(&property["type"]), "array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                // Kubernetes prints the type of the items.
                errors.invalid(&properties.key(key).child("type"), text(&schema["items"]["type"]), detail);
            }
            Some(_) => {}
        }
        if !seen.insert(key) {
            errors.invalid(&path.child(KEYS), keys, "must not contain duplicate entries");
        }
    }
}

/// Whether keys of a list of type `map` can be absent or null.
pub(super) fn has_bad_keys(schema: &Value) -> bool {
    let mut errors = ErrorList::new();
    keys_are_there(&mut errors, &Path::ROOT, schema);
    !errors.is_empty()
}

fn keys_are_there(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    let (at, items) = (path.child("items"), &schema["items"]);
    let kind = text(&schema[LIST_TYPE]);
    if !items.is_object() || !matches!(kind, "set" | "map") {
        return;
    }
    if items["nullable"] == true {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.forbidden(&at.child("nullable"), detail);
    }
    if kind != "map" {
        return;
    }
    let properties = at.child("properties");
    let required: BTreeSet<&str> = list(&items["required"]).iter().map(text).collect();
    for key in list(&schema[KEYS]).iter().map(text) {
        let Some(property) = items["properties"].get(key) else { continue };
        let path = properties.key(key);
        if property["default"].is_null() && !required.contains(key) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&path.child("default"), detail);
        }
        if property["nullable"] == true {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&path.child("nullable"), detail);
        }
    }
}
