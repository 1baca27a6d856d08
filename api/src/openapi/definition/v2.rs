//! Conversion of schemas to OpenAPI v2 for old clients. kubectl validates with them and must not refuse
//! anything that the server accepts.

use super::model::children;
use crate::object::{list, text};
use serde_json::Value;
use std::collections::BTreeSet;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Converts a schema and everything below it.
pub(super) fn convert(schema: &mut Value) {
    let mut remove = vec!["allOf", "anyOf", "oneOf", "not", "default"];
    let has_nullable_values = schema["additionalProperties"]["nullable"] == true;
    if schema["nullable"] == true {
        // OpenAPI v2 has no null, so a nullable value gets no type.
        remove.extend(["type", "nullable", "items", "properties"]);
    }
    if schema[PRESERVE] == true {
        remove.extend(["items", "properties"]);
        if schema["type"] == "object" {
            remove.push("type");
        }
    }
    let loses_items = remove.contains(&"items") || schema["items"].is_null();
    if schema["type"] == "array" && loses_items {
        remove.push("type");
    }
    let nullable: BTreeSet<String> = nullable_properties(schema, &remove);
    let required: Vec<Value> = list(&schema["required"])
        .iter()
        .filter(|name| !nullable.contains(text(name)) && !has_nullable_values)
        .cloned()
        .collect();
    let Some(members) = schema.as_object_mut() else { return };
    members.retain(|name, _| !remove.contains(&name.as_str()));
    if required.is_empty() {
        members.remove("required");
    } else {
        members.insert("required".to_owned(), required.into());
    }
    for child in children(schema) {
        convert(child);
    }
}

/// Names of the remaining properties that are nullable.
fn nullable_properties(schema: &Value, removed: &[&str]) -> BTreeSet<String> {
    let properties = schema["properties"].as_object().filter(|_| !removed.contains(&"properties"));
    let nullable = properties.into_iter().flatten().filter(|(_, own)| own["nullable"] == true);
    nullable.map(|(name, _)| name.clone()).collect()
}
