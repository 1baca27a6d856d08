//! Validation of resource quotas: resource names, amounts and scopes.
//!
//! Follows `ValidateResourceQuota`.

use super::resource;
use crate::check::IMMUTABLE;
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    amounts(errors, &SPEC.child("hard"), &spec["hard"]);
    scopes(errors, spec);
    if !spec["scopeSelector"].is_null() {
        selector(errors, spec);
    }
}

/// Checks `/status`: hard limits and used amounts.
pub(crate) fn status(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status");
    for member in ["hard", "used"] {
        amounts(errors, &path.child(member), &object["status"][member]);
    }
}

fn amounts(errors: &mut ErrorList, path: &Path<'_>, amounts: &Value) {
    for (own, amount) in amounts.as_object().into_iter().flatten() {
        let path = path.key(own);
        resource::name(errors, &path, own);
        if !own.contains('/') && !resource::is_of_quotas(own) {
            errors.invalid(&path, own, "must be a standard resource for quota");
        }
        resource::amount(errors, &path, own, amount);
    }
}

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const PAIRS: [(&str, &str); 2] = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];
const COMPUTE: [&str; 7] =
    ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

/// Whether objects in a scope can use the resource.
fn fits(scope: &str, own: &str) -> bool {
    match scope {
        "BestEffort" => own == "pods",
        "VolumeAttributesClass" => matches!(own, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => COMPUTE.contains(&own),
        _ => true,
    }
}

/// Number of bounded resources that each scope does not support. Cached by scope, since a quota may name a
/// scope thousands of times.
#[derive(Default)]
struct UnsupportedResourceCounts<'s>(BTreeMap<&'s str, usize>);

impl<'s> UnsupportedResourceCounts<'s> {
    fn count(&mut self, spec: &Value, scope: &'s str) -> usize {
        let unfit = |own: &&String| resource::is_of_quotas(own) && !fits(scope, own);
        let count = || spec["hard"].as_object().map_or(0, |hard| hard.keys().filter(unfit).count());
        *self.0.entry(scope).or_insert_with(count)
    }
}

fn scopes(errors: &mut ErrorList, spec: &Value) {
    let (path, scopes) = (SPEC.child("scopes"), list(&spec["scopes"]));
    let mut unfit = UnsupportedResourceCounts::default();
    for scope in scopes.iter().map(text) {
        if errors.is_full() {
            return;
        }
        if !SCOPES.contains(&scope) {
            errors.invalid(&path, scopes, "unsupported scope");
        }
        for _ in 0..unfit.count(spec, scope) {
            errors.invalid(&path, scopes, "unsupported scope applied to resource");
        }
    }
    let all: BTreeSet<&str> = scopes.iter().map(text).collect();
    for _ in PAIRS.iter().filter(|(one, other)| all.contains(one) && all.contains(other)) {
        errors.invalid(&path, scopes, "conflicting scopes");
    }
}

/// Checks the scope selector; messages have the path of the list.
fn selector(errors: &mut ErrorList, spec: &Value) {
    let path = SPEC.child("scopeSelector.matchExpressions");
    let expressions = list(&spec["scopeSelector"]["matchExpressions"]);
    let mut unfit = UnsupportedResourceCounts::default();
    for expression in expressions {
        let scope = text(&expression["scopeName"]);
        if errors.is_full() {
            return;
        }
        if !SCOPES.contains(&scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..unfit.count(spec, scope) {
            errors.invalid(&path, &spec["scopeSelector"], "unsupported scope applied to resource");
        }
        operator(errors, &path, scope, expression);
    }
    let all: BTreeSet<&str> = expressions.iter().map(|expression| text(&expression["scopeName"])).collect();
    for _ in PAIRS.iter().filter(|(one, other)| all.contains(one) && all.contains(other)) {
        errors.invalid(&path, &spec["scopes"], "conflicting scopes");
    }
}

fn operator(errors: &mut ErrorList, path: &Path<'_>, scope: &str, expression: &Value) {
    let (operator, values) = (text(&expression["operator"]), list(&expression["values"]));
    let at = path.child("operator");
    let valued = matches!(scope, "PriorityClass" | "VolumeAttributesClass") || !SCOPES.contains(&scope);
    if !valued && operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.invalid(&at, operator, detail);
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(&path.child("values"), detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(&path.child("values"), values, detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&at, other, "not a valid selector operator"),
    }
}

/// Checks that the scopes do not change; their order does not matter.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let scopes = |object: &Value| -> BTreeSet<String> {
        list(&object["spec"]["scopes"]).iter().map(|scope| text(scope).to_owned()).collect()
    };
    if scopes(new) != scopes(old) {
        errors.invalid(&SPEC.child("scopes"), &new["spec"]["scopes"], IMMUTABLE);
    }
}
