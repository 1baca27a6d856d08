//! Validation of webhook configurations and admission policies, including their expressions.

mod expression;
pub(crate) mod policy;
mod rule;
#[cfg(test)]
mod tests;
pub(crate) mod webhook;

use super::reference::conditions;
use crate::admission_expression::{Environment, ResultType, Uses};
use crate::check::{each, grammar};
use crate::field::{ErrorList, Path};
use crate::limits::MATCH_CONDITIONS_MAX;
use crate::name;
use crate::object::{list, text};
use serde_json::Value;
use std::cell::LazyCell;
use std::collections::BTreeSet;

pub(crate) fn policy_status(object: &Value, errors: &mut ErrorList) {
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

/// Whether a text is missing or only white space.
fn is_blank(value: &Value) -> bool {
    text(value).trim().is_empty()
}

/// Checks the match conditions of a webhook or policy. `params`: whether expressions may read the variable
/// `params`.
fn match_conditions(errors: &mut ErrorList, path: &Path<'_>, owner: &Value, params: bool) {
    let conditions = list(&owner["matchConditions"]);
    if conditions.len() > MATCH_CONDITIONS_MAX {
        errors.too_many(&path.child("matchConditions"), conditions.len(), MATCH_CONDITIONS_MAX);
    }
    let environment = LazyCell::new(|| Environment::new(Uses::of_match_conditions(params)));
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.child("matchConditions");
        let (path, expression) = (path.index(i), text(&condition["expression"]).trim());
        if errors.is_full() {
            return;
        }
        let at = path.child("expression");
        match expression {
            "" => errors.required(&at, ""),
            expression if i < MATCH_CONDITIONS_MAX => {
                expression::compile(errors, &at, &environment, expression, ResultType::Bool);
            }
            _ => {}
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
