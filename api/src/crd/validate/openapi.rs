//! OpenAPI rules for every node of a schema, including those inside `allOf`, `anyOf`, `oneOf` and `not`.

use super::options::Options;
use super::{list_types, rule};
use crate::crd::schema::members;
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use serde_json::Value;

/// Types of OpenAPI.
pub(super) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// Members that every object has.
const META_MEMBERS: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// Restrictions on a node from its position.
#[derive(Clone, Copy)]
struct NodePosition<'a> {
    is_root: bool,
    /// Why defaults are forbidden here, if they are; empty if no reason is given.
    no_default: Option<&'a str>,
    /// Whether the node is below metadata, kind or apiVersion of an object.
    in_meta: bool,
}

/// Checks a schema by the OpenAPI rules.
pub(super) fn check(errors: &mut ErrorList, path: &Path<'_>, root: &Value, options: &Options) {
    node(errors, path, root, NodePosition { is_root: true, no_default: None, in_meta: false }, options);
}

/// Whether a node has a type that OpenAPI does not have.
pub(super) fn has_unknown_type(node: &Value) -> bool {
    let own = text(&node["type"]);
    !own.is_empty() && !TYPES.contains(&own)
}

fn node(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    position: NodePosition<'_>,
    options: &Options,
) {
    if !schema.is_object() || errors.is_full() {
        return;
    }
    check_keywords(errors, path, schema, position, options);
    if schema["uniqueItems"] == true {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(&path.child("uniqueItems"), detail);
    }
    inside(errors, path, schema, position, options);
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.invalid(&at, &false, "must be true or undefined");
    }
    list_types::check(errors, path, schema, options);
    rule::check(errors, path, schema);
}

/// Reports unsupported keywords.
fn check_keywords(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    position: NodePosition<'_>,
    options: &Options,
) {
    if options.known_types && has_unknown_type(schema) {
        errors.not_supported(&path.child("type"), text(&schema["type"]), &TYPES);
    }
    if let Some(reason) = position.no_default
        && !schema["default"].is_null()
    {
        errors.forbidden(&path.child("default"), format!("must not be set {reason}").trim_end());
    }
    let is_filled = |member: &str| schema[member].as_object().is_some_and(|own| !own.is_empty());
    let banned = [
        (!text(&schema["id"]).is_empty(), "id"),
        (!schema["additionalItems"].is_null(), "additionalItems"),
        (is_filled("patternProperties"), "patternProperties"),
        (is_filled("definitions"), "definitions"),
        (!schema["dependencies"].is_null(), "dependencies"),
        (!schema["$ref"].is_null(), "$ref"),
    ];
    for (_, member) in banned.into_iter().filter(|(is_there, _)| *is_there) {
        errors.forbidden(&path.child(member), format!("{member} is not supported"));
    }
    if schema["type"] == "null" {
        errors.forbidden(&path.child("type"), "type cannot be set to null, use nullable as an alternative");
    }
    if !list(&schema["items"]).is_empty() {
        errors.forbidden(&path.child("items"), "items must be a schema object and not an array");
    }
    if position.in_meta && schema["x-kubernetes-embedded-resource"] == true {
        let at = path.child("x-kubernetes-embedded-resource");
        errors.forbidden(&at, "must not be used inside of resource meta");
    }
}

/// Checks the schemas inside a schema.
fn inside(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    position: NodePosition<'_>,
    options: &Options,
) {
    let below = NodePosition { is_root: false, ..position };
    let values = &schema["additionalProperties"];
    if !values.is_null() {
        let has_properties = schema["properties"].as_object().is_some_and(|own| !own.is_empty());
        let at = path.child("additionalProperties");
        if has_properties && *values != true {
            errors.forbidden(&at, "additionalProperties and properties are mutual exclusive");
        }
        let reason = Some("inside additionalProperties applying to object metadata");
        let no_default = if position.in_meta { reason } else { position.no_default };
        node(errors, &at, values, NodePosition { no_default, ..below }, options);
    }
    properties(errors, path, schema, position, options);
    node(errors, &path.child("not"), &schema["not"], below, options);
    for member in ["allOf", "oneOf", "anyOf"] {
        let at = path.child(member);
        for (i, branch) in list(&schema[member]).iter().enumerate() {
            node(errors, &at.index(i), branch, below, options);
        }
    }
    named(errors, &path.child("definitions"), &schema["definitions"], below, options);
    let at = path.child("items");
    node(errors, &at, &schema["items"], below, options);
    for (i, item) in list(&schema["items"]).iter().enumerate() {
        node(errors, &at.index(i), item, below, options);
    }
    named(errors, &path.child("dependencies"), &schema["dependencies"], below, options);
}

fn named(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schemas: &Value,
    position: NodePosition<'_>,
    options: &Options,
) {
    for (name, schema) in members(schemas) {
        node(errors, &path.key(name), schema, position, options);
    }
}

fn properties(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    position: NodePosition<'_>,
    options: &Options,
) {
    let at = path.child("properties");
    for (name, property) in members(&schema["properties"]) {
        let is_object = position.is_root || schema["x-kubernetes-embedded-resource"] == true;
        let is_meta = is_object && META_MEMBERS.contains(&name);
        let reason = format!("in top-level {name}");
        let position = NodePosition {
            is_root: false,
            in_meta: position.in_meta || is_meta,
            no_default: if is_meta && position.is_root { Some(&reason) } else { position.no_default },
        };
        node(errors, &at.key(name), property, position, options);
    }
}
