//! Validation of access reviews, which are never stored.
//!
//! Follows `ValidateSubjectAccessReview` and `ValidateTokenRequest`.

use crate::check::each;
use crate::field::{ErrorList, Path};
use crate::object::{list, semantically_equal, text};
use crate::{meta, name};
use serde_json::Value;

const SPEC: Path<'static> = Path::new("spec");

/// Checks a SubjectAccessReview.
pub(crate) fn access(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    attributes(errors, spec);
    subject(errors, spec);
    selectors(errors, spec);
    empty_metadata(errors, object, false);
}

/// Checks a SelfSubjectAccessReview.
pub(crate) fn own_access(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    attributes(errors, spec);
    selectors(errors, spec);
    empty_metadata(errors, object, false);
}

/// Checks a LocalSubjectAccessReview.
pub(crate) fn local_access(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    attributes(errors, spec);
    subject(errors, spec);
    selectors(errors, spec);
    empty_metadata(errors, object, true);
    local(errors, object);
}

fn attributes(errors: &mut ErrorList, spec: &Value) {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_null(), path.is_null()) {
        (false, false) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.invalid(&SPEC.child("nonResourceAttributes"), path, detail);
        }
        (true, true) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.invalid(&SPEC.child("resourceAttributes"), &Value::Null, detail);
        }
        (true, false) | (false, true) => {}
    }
}

fn subject(errors: &mut ErrorList, spec: &Value) {
    if text(&spec["user"]).is_empty() && list(&spec["groups"]).is_empty() {
        errors.invalid(&SPEC.child("user"), "", "at least one of user or group must be specified");
    }
}

fn empty_metadata(errors: &mut ErrorList, object: &Value, namespaced: bool) {
    let mut metadata = object["metadata"].clone();
    if let Some(members) = metadata.as_object_mut() {
        members.remove("managedFields");
        if namespaced {
            members.remove("namespace");
        }
    }
    if !semantically_equal(&metadata, &Value::Null) {
        let detail = if namespaced { "must be empty except for namespace" } else { "must be empty" };
        errors.invalid(&Path::new("metadata"), &object["metadata"], detail);
    }
}

fn local(errors: &mut ErrorList, object: &Value) {
    let spec = &object["spec"];
    let requested = text(&spec["resourceAttributes"]["namespace"]);
    if !spec["resourceAttributes"].is_null() && requested != meta::namespace(object) {
        let path = SPEC.child("resourceAttributes.namespace");
        errors.invalid(&path, requested, "must match metadata.namespace");
    }
    if !spec["nonResourceAttributes"].is_null() {
        let detail = "disallowed on this kind of request";
        errors.invalid(&SPEC.child("nonResourceAttributes"), &spec["nonResourceAttributes"], detail);
    }
}

fn selectors(errors: &mut ErrorList, spec: &Value) {
    for member in ["fieldSelector", "labelSelector"] {
        let selector = &spec["resourceAttributes"][member];
        if selector.is_null() {
            continue;
        }
        let path = SPEC.child("resourceAttributes");
        let path = path.child(member);
        let (raw, requirements) = (text(&selector["rawSelector"]), list(&selector["requirements"]));
        match (raw.is_empty(), requirements.is_empty()) {
            (false, false) => {
                let detail = "may not specified at the same time as requirements";
                errors.invalid(&path.child("rawSelector"), raw, detail);
            }
            (true, true) => {
                let detail = format!("when {path} is specified, requirements or rawSelector is required");
                errors.required(&path.child("requirements"), detail);
            }
            (true, false) | (false, true) => {}
        }
        each(&path, selector, "requirements", |path, value| {
            requirement(errors, path, value, member == "labelSelector");
        });
    }
}

/// Checks one requirement of a field or label selector. Unknown operators are allowed, since they may come
/// from newer servers.
fn requirement(errors: &mut ErrorList, path: &Path<'_>, requirement: &Value, labels: bool) {
    let (key, values) = (text(&requirement["key"]), list(&requirement["values"]));
    match text(&requirement["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.required(&path.child("values"), detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.child("values"), detail);
        }
        _ => {}
    }
    if labels {
        for fault in name::qualified_name(key) {
            errors.invalid(&path.child("key"), key, fault);
        }
    } else if key.is_empty() {
        errors.required(&path.child("key"), "must be specified");
    }
}
