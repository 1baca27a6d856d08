//! Validation of a job's pod failure policy, success policy and pod replacement policy.
//!
//! Follows `validatePodFailurePolicy` and `validateSuccessPolicy`.

use super::indexes;
use crate::check::{grammar, not_negative};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use serde_json::Value;
use std::collections::BTreeSet;

/// Rules of one policy.
const RULES_MAX: usize = 20;
/// Exit codes of one rule.
const CODES_MAX: usize = 255;
/// Conditions of one rule.
const CONDITIONS_MAX: usize = 20;
/// Bytes of the index list in a success policy.
const INDEXES_MAX: usize = 64 * 1024;

/// Checks `podFailurePolicy`, if it is set.
pub(super) fn failure(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let policy = &spec["podFailurePolicy"];
    if policy.is_null() {
        return;
    }
    let (path, rules) = (path.child("podFailurePolicy.rules"), list(&policy["rules"]));
    if rules.len() > RULES_MAX {
        errors.too_many(&path, rules.len(), RULES_MAX);
    }
    let pod = &spec["template"]["spec"];
    let containers: BTreeSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|member| list(&pod[member]))
        .map(|container| text(&container["name"]))
        .collect();
    for (i, rule) in rules.iter().enumerate() {
        failure_rule(errors, &path.index(i), rule, spec, &containers);
    }
}

fn failure_rule(
    errors: &mut ErrorList,
    path: &Path<'_>,
    rule: &Value,
    spec: &Value,
    containers: &BTreeSet<&str>,
) {
    let (at, actions) = (path.child("action"), ["Count", "FailIndex", "FailJob", "Ignore"]);
    match text(&rule["action"]) {
        "" => errors.required(&at, format!("valid values: {}", quoted(&actions))),
        "FailIndex" if spec["backoffLimitPerIndex"].is_null() => {
            errors.invalid(&at, "FailIndex", "requires the backoffLimitPerIndex to be set");
        }
        action if !actions.contains(&action) => errors.not_supported(&at, action, &actions),
        _ => {}
    }
    let (codes, conditions) = (&rule["onExitCodes"], list(&rule["onPodConditions"]));
    if !codes.is_null() {
        exit_codes(errors, &path.child("onExitCodes"), codes, containers);
    }
    pod_conditions(errors, &path.child("onPodConditions"), conditions);
    if !codes.is_null() && !conditions.is_empty() {
        let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
        errors.invalid_omitted(path, detail);
    }
    if codes.is_null() && conditions.is_empty() {
        let detail = "specifying one of OnExitCodes and OnPodConditions is required";
        errors.invalid_omitted(path, detail);
    }
}

/// Formats values in brackets, as some of Kubernetes' messages list them.
fn quoted(values: &[&str]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("[{}]", values.join(" "))
}

fn exit_codes(errors: &mut ErrorList, path: &Path<'_>, codes: &Value, containers: &BTreeSet<&str>) {
    let (operator, operators) = (text(&codes["operator"]), ["In", "NotIn"]);
    let at = path.child("operator");
    if operator.is_empty() {
        errors.required(&at, format!("valid values: {}", quoted(&operators)));
    } else if !operators.contains(&operator) {
        errors.not_supported(&at, operator, &operators);
    }
    if let Some(container) = codes["containerName"].as_str().filter(|own| !containers.contains(own)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.child("containerName"), container, detail);
    }
    let (path, values) = (path.child("values"), list(&codes["values"]));
    if values.is_empty() {
        errors.invalid(&path, &codes["values"], "at least one value is required");
    } else if values.len() > CODES_MAX {
        errors.too_many(&path, values.len(), CODES_MAX);
    }
    let mut seen = BTreeSet::new();
    for (i, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.invalid(&path.index(i), value, "must not be 0 for the In operator");
        }
        if !seen.insert(int(value)) {
            errors.duplicate(&path.index(i), value);
        }
    }
    if !values.is_sorted_by_key(int) {
        errors.invalid(&path, values, "must be ordered");
    }
}

fn pod_conditions(errors: &mut ErrorList, path: &Path<'_>, conditions: &[Value]) {
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(path, conditions.len(), CONDITIONS_MAX);
    }
    for (i, pattern) in conditions.iter().enumerate() {
        let (path, kind) = (path.index(i), text(&pattern["type"]));
        grammar(errors, &path.child("type"), kind, name::qualified_name(kind));
        let (status, known) = (text(&pattern["status"]), ["False", "True", "Unknown"]);
        if status.is_empty() {
            errors.required(&path.child("status"), format!("valid values: {}", quoted(&known)));
        } else if !known.contains(&status) {
            errors.not_supported(&path.child("status"), status, &known);
        }
    }
}

/// Checks `successPolicy`, if it is set.
pub(super) fn success(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let (path, policy) = (path.child("successPolicy"), &spec["successPolicy"]);
    if policy.is_null() {
        return;
    }
    if spec["completionMode"] != "Indexed" {
        errors.invalid(&path, policy, "requires indexed completion mode");
        return;
    }
    let (path, rules) = (path.child("rules"), list(&policy["rules"]));
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.required(&path, detail);
    }
    if rules.len() > RULES_MAX {
        errors.too_many(&path, rules.len(), RULES_MAX);
    }
    for (i, rule) in rules.iter().enumerate() {
        success_rule(errors, &path.index(i), rule, int(&spec["completions"]));
    }
}

fn success_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value, completions: i64) {
    let (count, chosen) = (&rule["succeededCount"], rule["succeededIndexes"].as_str());
    if count.is_null() && chosen.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.required(path, detail);
    }
    let mut total = 0;
    if let Some(chosen) = chosen {
        let path = path.child("succeededIndexes");
        if chosen.len() > INDEXES_MAX {
            errors.too_long(&path, INDEXES_MAX);
        }
        match indexes::parse(chosen, completions) {
            Ok(intervals) => total = indexes::count(&intervals),
            Err(fault) => {
                errors.invalid(&path, chosen, format!("error parsing succeededIndexes: {fault}"));
            }
        }
    }
    let path = path.child("succeededCount");
    not_negative(errors, &path, count);
    let mut at_most = |bound: i64, what: &str| {
        if int(count) > bound {
            errors.invalid(
                &path,
                count,
                format!("must be less than or equal to {bound} (the number of {what})"),
            );
        }
    };
    if !count.is_null() {
        at_most(completions, "specified completions");
    }
    if !count.is_null() && chosen.is_some() {
        at_most(total, "indexes in the specified succeededIndexes field");
    }
}

/// Checks `podReplacementPolicy`: when a job replaces a terminating pod.
pub(super) fn replacement(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(policy) = spec["podReplacementPolicy"].as_str() else { return };
    let path = path.child("podReplacementPolicy");
    let known: &[&str] =
        if spec["podFailurePolicy"].is_null() { &["Failed", "TerminatingOrFailed"] } else { &["Failed"] };
    if !known.contains(&policy) {
        errors.not_supported(&path, policy, known);
    }
}
