//! Validation of references to a field of the pod, a resource of a container, or a key of another object.
//!
//! Follows `validateObjectFieldSelector` and `validateContainerResourceFieldSelector`.

use crate::check::{grammar, need, no_parent_references, quantity, required_grammar};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::text;
use serde_json::Value;

/// Checks a reference to a pod field: one of `fields`, or a single label or annotation.
pub(super) fn field(errors: &mut ErrorList, path: &Path<'_>, reference: &Value, fields: &[&str]) {
    let (version, field) = (text(&reference["apiVersion"]), text(&reference["fieldPath"]));
    if version.is_empty() {
        errors.required(&path.child("apiVersion"), "");
    } else if field.is_empty() {
        errors.required(&path.child("fieldPath"), "");
    } else if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        errors.invalid(&path.child("fieldPath"), field, detail);
    } else if let Some((map, key)) = subscripted(field) {
        match map {
            "metadata.annotations" => {
                let key = key.to_lowercase();
                grammar(errors, path, &key, name::qualified_name(&key));
            }
            "metadata.labels" => grammar(errors, path, key, name::qualified_name(key)),
            other => errors.invalid(&path.child("fieldPath"), field, not_a_label(other)),
        }
    } else if !KNOWN.contains(&field) {
        errors.invalid(&path.child("fieldPath"), field, not_a_label(field));
    } else if !fields.contains(&field) {
        errors.not_supported(&path.child("fieldPath"), field, fields);
    }
}

fn not_a_label(field: &str) -> String {
    format!("error converting fieldPath: field label not supported: {field}")
}

/// Fields of a pod that references can name, whether or not this reference allows them.
const KNOWN: [&str; 13] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Splits `map['key']` into `(map, key)`.
fn subscripted(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['")
}

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks a resource reference that must name its container.
pub(super) fn resource_of_named(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    if text(&reference["containerName"]).is_empty() {
        errors.required(&path.child("containerName"), "");
        divisor(errors, path, reference);
    } else {
        resource(errors, path, reference);
    }
}

/// Checks a reference to a resource of a container.
pub(super) fn resource(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let resource = text(&reference["resource"]);
    if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !is_huge_page(resource) {
        errors.not_supported(&path.child("resource"), resource, &RESOURCES);
    }
    divisor(errors, path, reference);
}

fn is_huge_page(resource: &str) -> bool {
    resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-")
}

const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

fn divisor(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let Some(divisor) = quantity(&reference["divisor"]).filter(|divisor| !divisor.is_zero()) else { return };
    let (resource, divisor) = (text(&reference["resource"]), divisor.to_string());
    let (allowed, what): (&[&str], _) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "cpu"),
        "limits.memory" | "requests.memory" => (&SIZES, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (&SIZES, "local ephemeral storage"),
        resource if is_huge_page(resource) => (&SIZES, "hugepages"),
        _ => return,
    };
    if !allowed.contains(&divisor.as_str()) {
        let allowed = if what == "cpu" { "1m and 1".to_owned() } else { allowed.join(", ") };
        let detail = format!("only divisor's values {allowed} are supported with the {what} resource");
        errors.invalid(&path.child("divisor"), resource, detail);
    }
}

/// Checks a reference to a key of a config map or secret.
pub(super) fn key(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let object = text(&reference["name"]);
    grammar(errors, &path.child("name"), object, name::dns1123_subdomain(object));
    required_grammar(errors, &path.child("key"), &reference["key"], name::config_key);
}

/// Checks a reference to a key of a file in a volume.
pub(super) fn file(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    required_grammar(errors, &path.child("key"), &reference["key"], name::env_name);
    required_grammar(errors, &path.child("volumeName"), &reference["volumeName"], name::dns1123_label);
    need(errors, path, reference, &["path"]);
    no_parent_references(errors, &path.child("path"), text(&reference["path"]));
}
