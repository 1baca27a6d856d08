//! Validation of a kind's names, requested or accepted.

use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use serde_json::Value;

/// Checks that the required names are set.
pub(super) fn required(errors: &mut ErrorList, path: &Path<'_>, names: &Value) {
    for member in ["plural", "singular", "kind", "listKind"] {
        if text(&names[member]).is_empty() {
            errors.required(&path.child(member), "");
        }
    }
}

/// Checks the grammar of the names that are set.
pub(super) fn grammar(errors: &mut ErrorList, path: &Path<'_>, names: &Value) {
    for member in ["plural", "singular"] {
        if !text(&names[member]).is_empty() {
            label(errors, &path.child(member), text(&names[member]));
        }
    }
    for member in ["kind", "listKind"] {
        let own = text(&names[member]);
        let faults = name::dns1035_label(&own.to_lowercase());
        if !own.is_empty() && !faults.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
            errors.invalid(&path.child(member), own, detail);
        }
    }
    labels(errors, &path.child("shortNames"), &names["shortNames"]);
    let kind = text(&names["kind"]);
    if !kind.is_empty() && kind == text(&names["listKind"]) {
        errors.invalid(&path.child("listKind"), kind, "kind and listKind may not be the same");
    }
    labels(errors, &path.child("categories"), &names["categories"]);
}

fn labels(errors: &mut ErrorList, path: &Path<'_>, names: &Value) {
    for (i, own) in list(names).iter().enumerate() {
        label(errors, &path.index(i), text(own));
    }
}

fn label(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    let faults = name::dns1035_label(own);
    if !faults.is_empty() {
        errors.invalid(path, own, faults.join(","));
    }
}
