//! Validation of topology spread constraints.
//!
//! Follows `validateTopologySpreadConstraints`.

use super::affinity::label_keys;
use crate::check::{NOT_POSITIVE, given_one_of, positive};
use crate::field::{ErrorList, Path};
use crate::object::{int, list, text};
use crate::validate::selector;
use serde_json::Value;
use std::collections::BTreeMap;

const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];

pub(super) fn constraints(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let path = path.child("topologySpreadConstraints");
    let constraints = list(&spec["topologySpreadConstraints"]);
    let last: BTreeMap<_, usize> =
        constraints.iter().enumerate().map(|(i, each)| (identity(each), i)).collect();
    for (i, constraint) in constraints.iter().enumerate() {
        one(errors, &path.index(i), constraint, last[&identity(constraint)] > i);
    }
}

/// Topology key and action, which only one constraint may combine.
fn identity(constraint: &Value) -> (&str, &str) {
    (text(&constraint["topologyKey"]), text(&constraint["whenUnsatisfiable"]))
}

fn one(errors: &mut ErrorList, path: &Path<'_>, constraint: &Value, comes_again: bool) {
    if int(&constraint["maxSkew"]) <= 0 {
        errors.invalid(&path.child("maxSkew"), &int(&constraint["maxSkew"]), NOT_POSITIVE);
    }
    let (key, action) = identity(constraint);
    if key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    if !ACTIONS.contains(&action) {
        errors.not_supported(&path.child("whenUnsatisfiable"), action, &ACTIONS);
    }
    if comes_again {
        let path = path.child("{topologyKey, whenUnsatisfiable}");
        errors.duplicate(&path, &format!("{{{key}, {action}}}"));
    }
    let (domains_path, domains) = (path.child("minDomains"), &constraint["minDomains"]);
    positive(errors, &domains_path, domains);
    if !domains.is_null() && action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.invalid(&domains_path, domains, detail);
    }
    for member in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        given_one_of(errors, &path.child(member), &constraint[member], &["Honor", "Ignore"]);
    }
    label_keys(errors, path, constraint);
    selector::label_selector(errors, &path.child("labelSelector"), &constraint["labelSelector"]);
}
