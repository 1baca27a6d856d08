//! Validation of metadata in embedded objects.

use super::report::shown;
use crate::field::{ErrorList, FieldError, Path};
use crate::group_version::split_api_version;
use crate::limits::{FIELD_MANAGER_MAX, SUBRESOURCE_NAME_MAX};
use crate::object::{list, text};
use crate::structural::tree::Schema;
use crate::{check, meta, name};
use serde_json::{Map, Value};

/// Checks every embedded object below a value.
pub(super) fn check(value: &Value, schema: Schema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if !schema.below.embedded || errors.is_full() {
        return;
    }
    match value {
        Value::Object(map) => {
            if schema.flags.embedded {
                object(value, map, path, errors);
            }
            for (name, value) in map {
                let is_property = schema.node().property(name).is_some();
                let path = if is_property { path.child(name) } else { path.key(name) };
                if let Some(schema) = schema.member(name) {
                    check(value, schema, &path, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for (at, item) in items.iter().enumerate() {
                check(item, schema, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

fn object(object: &Value, map: &Map<String, Value>, path: &Path<'_>, errors: &mut ErrorList) {
    for name in ["apiVersion", "kind"] {
        let path = path.child(name);
        match map.get(name) {
            None => errors.required(&path, ""),
            Some(Value::String(text)) if text.is_empty() => errors.required(&path, ""),
            Some(Value::String(text)) if name == "kind" => kind(text, &path, errors),
            Some(Value::String(text)) => api_version(text, &path, errors),
            Some(other) => errors.invalid_raw(&path, shown(other), "must be a string"),
        }
    }
    if map.get("metadata").is_some_and(Value::is_object) {
        metadata(object, &path.child("metadata"), errors);
    }
}

fn kind(kind: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let faults = name::dns1035_label(&kind.to_lowercase());
    if !faults.is_empty() {
        let text = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        errors.invalid(path, kind, text);
    }
}

fn api_version(api_version: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if split_api_version(api_version).1.contains('/') {
        errors.invalid(path, api_version, format!("unexpected GroupVersion string: {api_version}"));
    }
}

fn metadata(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut grammar = |member: &str, value: &str, faults: name::Faults| {
        for fault in faults {
            errors.invalid(&path.child(member), value, fault);
        }
    };
    let prefix = meta::generate_name(object);
    grammar("generateName", prefix, name::path_segment(prefix));
    grammar("name", meta::name(object), name::path_segment(meta::name(object)));
    let namespace = meta::namespace(object);
    if !namespace.is_empty() {
        grammar("namespace", namespace, name::dns1123_label(namespace));
    }
    let mut found = ErrorList::new();
    check::metadata::common(object, &mut found);
    for error in found {
        let field = error.field.strip_prefix("metadata").map(|rest| format!("{path}{rest}"));
        errors.push(FieldError { field: field.unwrap_or_default(), ..error });
    }
    for (at, entry) in list(&object["metadata"]["managedFields"]).iter().enumerate() {
        managed_fields(entry, &path.child("managedFields").index(at), errors);
    }
}

/// Checks an entry like `ValidateManagedFields` of Kubernetes. The server keeps those of the object itself; those of embedded objects
/// are what clients write.
fn managed_fields(entry: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let operation = text(&entry["operation"]);
    if !matches!(operation, "Apply" | "Update") {
        errors.invalid(&path.child("operation"), operation, "must be `Apply` or `Update`");
    }
    let kind = text(&entry["fieldsType"]);
    if !matches!(kind, "" | "FieldsV1") {
        errors.invalid(&path.child("fieldsType"), kind, "must be `FieldsV1`");
    }
    if text(&entry["manager"]).len() > FIELD_MANAGER_MAX {
        errors.too_long(&path.child("manager"), FIELD_MANAGER_MAX);
    }
    if text(&entry["subresource"]).len() > SUBRESOURCE_NAME_MAX {
        errors.too_long(&path.child("subresource"), SUBRESOURCE_NAME_MAX);
    }
}
