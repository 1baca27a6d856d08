//! Writes nodes as the JSON of a structural schema.

use super::error::{SchemaError, SchemaProblem};
use super::node::{Checks, Node, ValueKind};
use serde_json::{Map, Value, json};

/// The position of a schema, which decides how null is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaPosition {
    /// The field of an object: API servers drop a null if it is not nullable.
    Field,
    /// An item of a list or a value of a map.
    Element,
}

/// The JSON of a node.
///
/// # Errors
///
/// A check has no type.
pub(super) fn schema(node: Node, position: SchemaPosition) -> Result<Value, SchemaError> {
    let mut out = Map::new();
    if let Some(text) = description(&node) {
        out.insert("description".to_owned(), text.into());
    }
    if let Some(value) = node.default {
        out.insert("default".to_owned(), value);
    }
    let mut checks = node.checks;
    let is_nullable = node.is_nullable && allow_null(&mut checks, position);
    match node.kind {
        None if checks.is_empty() => {
            out.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        }
        None => {
            let names: Vec<&str> = checks.keywords.keys().map(String::as_str).collect();
            return Err(SchemaProblem::NoType(names.join(", ")).into());
        }
        Some(ValueKind::IntOrString) => {
            out.insert("x-kubernetes-int-or-string".to_owned(), true.into());
        }
        Some(kind) => {
            out.insert("type".to_owned(), kind.as_str().into());
        }
    }
    if is_nullable {
        out.insert("nullable".to_owned(), true.into());
    }
    // A structural schema has either named fields or one schema for all values, not both.
    let is_open = node.is_open || (node.additional.is_some() && !node.properties.is_empty());
    if is_open {
        out.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
    }
    if let Some(values) = node.additional.filter(|_| !is_open) {
        let values = schema(*values, SchemaPosition::Element).map_err(|error| error.of_field("{}"))?;
        out.insert("additionalProperties".to_owned(), values);
    }
    if !node.properties.is_empty() {
        let mut fields = Map::new();
        for (name, field) in node.properties {
            let field = schema(field, SchemaPosition::Field).map_err(|error| error.of_field(&name))?;
            fields.insert(name, field);
        }
        out.insert("properties".to_owned(), fields.into());
    }
    match node.items {
        Some(items) => {
            let items = schema(*items, SchemaPosition::Element).map_err(|error| error.of_field("[]"))?;
            out.insert("items".to_owned(), items);
        }
        None if node.kind == Some(ValueKind::Array) => {
            out.insert("items".to_owned(), json!({"x-kubernetes-preserve-unknown-fields": true}));
        }
        None => {}
    }
    out.extend(node.extensions);
    out.extend(demands(checks));
    Ok(out.into())
}

/// Whether a nullable value is declared nullable. API servers refuse null in a field with `enum`, even if the list has null.
/// A field is then not nullable, so that the server drops its null; elsewhere `allOf` holds the values and
/// does not apply to null.
fn allow_null(checks: &mut Checks, position: SchemaPosition) -> bool {
    match (checks.keywords.contains_key("enum"), position) {
        (false, _) => true,
        (true, SchemaPosition::Field) => false,
        (true, SchemaPosition::Element) => {
            if let Some(values) = checks.keywords.remove("enum") {
                let mut only = Checks::default();
                only.keywords.insert("enum".to_owned(), values);
                checks.all_of.push(only);
            }
            true
        }
    }
}

/// The description of the position with those of its values.
fn description(node: &Node) -> Option<String> {
    let notes =
        node.value_notes.iter().map(|(value, text)| format!("- `{value}`: {}", text.replace('\n', " ")));
    let notes: Vec<String> = notes.collect();
    match (&node.description, notes.is_empty()) {
        (text, true) => text.clone(),
        (None, false) => Some(notes.join("\n")),
        (Some(text), false) => Some(format!("{text}\n\n{}", notes.join("\n"))),
    }
}

/// The keywords of checks.
fn demands(checks: Checks) -> Map<String, Value> {
    let mut out = checks.keywords;
    let json = |checks: Checks| Value::Object(demands(checks));
    if !checks.properties.is_empty() {
        let fields: Map<_, _> =
            checks.properties.into_iter().map(|(name, field)| (name, json(field))).collect();
        out.insert("properties".to_owned(), fields.into());
    }
    if let Some(items) = checks.items {
        out.insert("items".to_owned(), json(*items));
    }
    if let Some(not) = checks.not {
        out.insert("not".to_owned(), json(*not));
    }
    for (name, parts) in [("allOf", checks.all_of), ("anyOf", checks.any_of), ("oneOf", checks.one_of)] {
        if !parts.is_empty() {
            out.insert(name.to_owned(), parts.into_iter().map(json).collect());
        }
    }
    out
}
