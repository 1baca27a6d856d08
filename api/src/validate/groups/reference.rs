//! Checks of references between objects, and of conditions. Each function appends its errors to the given
//! list.

use crate::check::{each, grammar, required_grammar};
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::limits::{CONDITION_MESSAGE_MAX, CONDITION_REASON_MAX, DRIVER_NAME_MAX};
use crate::name;
use crate::object::{int, text};
use serde_json::Value;
use std::collections::BTreeSet;

/// Checks a required text that must be a path segment, such as a kind or an object name.
pub(super) fn segment(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    required_grammar(errors, path, value, name::path_segment);
}

/// Checks an optional API group.
pub(super) fn api_group(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if let Some(group) = value.as_str() {
        grammar(errors, path, group, name::dns1123_subdomain(group));
    }
}

/// Checks the name of a CSI or device driver: a subdomain in any case, at most as long as a label.
pub(super) fn driver(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let own = text(value);
    if own.is_empty() {
        errors.required(path, "");
        return;
    }
    if own.len() > DRIVER_NAME_MAX {
        errors.too_long(path, DRIVER_NAME_MAX);
    }
    grammar(errors, path, own, name::dns1123_subdomain(&own.to_lowercase()));
}

/// Checks a label key.
pub(super) fn label_key(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    grammar(errors, path, text(value), name::qualified_name(text(value)));
}

/// Reports duplicate texts in a list.
pub(super) fn unique_texts(errors: &mut ErrorList, path: &Path<'_>, items: &[Value]) {
    let mut seen = Distinct::default();
    for (i, item) in items.iter().enumerate() {
        if !seen.insert(item) {
            errors.duplicate(&path.index(i), item);
        }
    }
}

/// Checks `conditions` below a path: unique types, and all required fields.
pub(super) fn conditions(errors: &mut ErrorList, path: &Path<'_>, owner: &Value) {
    let mut seen = BTreeSet::new();
    each(path, owner, "conditions", |path, condition| {
        let kind = text(&condition["type"]);
        if !seen.insert(kind.to_owned()) {
            errors.duplicate(&path.child("type"), kind);
        }
        label_key(errors, &path.child("type"), &condition["type"]);
        let statuses = ["False", "True", "Unknown"];
        if !statuses.contains(&text(&condition["status"])) {
            errors.not_supported(&path.child("status"), text(&condition["status"]), &statuses);
        }
        if int(&condition["observedGeneration"]) < 0 {
            let detail = "must be greater than or equal to zero";
            errors.invalid(&path.child("observedGeneration"), &condition["observedGeneration"], detail);
        }
        if condition["lastTransitionTime"].is_null() {
            errors.required(&path.child("lastTransitionTime"), "");
        }
        reason(errors, &path.child("reason"), text(&condition["reason"]));
        if text(&condition["message"]).len() > CONDITION_MESSAGE_MAX {
            errors.too_long(&path.child("message"), CONDITION_MESSAGE_MAX);
        }
    });
}

const REASON_TEXT: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

fn reason(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    if own.is_empty() {
        errors.required(path, "");
        return;
    }
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    let last = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let good =
        own.starts_with(|c: char| c.is_ascii_alphabetic()) && own.ends_with(last) && own.chars().all(inner);
    if !good {
        errors.invalid(path, own, REASON_TEXT);
    }
    if own.len() > CONDITION_REASON_MAX {
        errors.too_long(path, CONDITION_REASON_MAX);
    }
}
