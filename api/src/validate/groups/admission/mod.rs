//! What must hold of webhook configurations and admission policies. Expressions are only asked to be there: they are compiled where
//! they are evaluated.

mod policy;
mod rule;
mod webhook;

use std::collections::BTreeSet;

use serde_json::Value;

use super::reference::conditions;
use crate::field::{ErrorList, Path};
use crate::limits::MATCH_CONDITIONS_MAX;
use crate::name;
use crate::object::{list, text};
use crate::validate::check::{each, grammar};

pub(crate) use webhook::client;

pub(super) fn content(kind: &str, object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            webhook::configuration(kind, object, old, errors);
        }
        "ValidatingAdmissionPolicy" => policy::validating(object, errors),
        "MutatingAdmissionPolicy" => policy::mutating(object, errors),
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            policy::binding(kind, object, errors);
        }
        _ => {}
    }
}

pub(super) fn policy_status(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.typeChecking");
    each(&path, &object["status"]["typeChecking"], "expressionWarnings", |path, warning| {
        for member in ["warning", "fieldRef"] {
            if text(&warning[member]).trim().is_empty() {
                errors.required(&path.child(member), "");
            }
        }
    });
    conditions(errors, &Path::new("status"), &object["status"]);
}

/// Whether a text is there and more than white space.
fn is_blank(value: &Value) -> bool {
    text(value).trim().is_empty()
}

fn match_conditions(errors: &mut ErrorList, path: &Path<'_>, owner: &Value) {
    let conditions = list(&owner["matchConditions"]);
    if conditions.len() > MATCH_CONDITIONS_MAX {
        errors.too_many(&path.child("matchConditions"), conditions.len(), MATCH_CONDITIONS_MAX);
    }
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.child("matchConditions");
        let path = path.index(i);
        if is_blank(&condition["expression"]) {
            errors.required(&path.child("expression"), "");
        }
        let own = text(&condition["name"]);
        if own.is_empty() {
            errors.required(&path.child("name"), "");
            continue;
        }
        grammar(errors, &path.child("name"), own, name::qualified_name(own));
        if !seen.insert(own) {
            errors.duplicate(&path.child("name"), own);
        }
    }
}
