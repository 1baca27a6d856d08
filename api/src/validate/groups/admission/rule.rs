//! Validation of rules of webhooks and policies: operations, groups, versions and resources.
//!
//! Follows `validateRuleWithOperations`.

use crate::check::{each, grammar};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use crate::validate::groups::reference::unique_texts;
use crate::validate::selector::label_selector;
use serde_json::Value;
use std::collections::BTreeSet;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Operations whose objects a mutating policy can change.
const MUTABLE: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

fn has_wildcard(items: &[Value]) -> bool {
    items.iter().any(|item| item == "*")
}

/// Checks one rule with its operations.
pub(super) fn rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let (at, operations) = (path.child("operations"), list(&rule["operations"]));
    alone(errors, &at, operations, "operations");
    for (i, operation) in operations.iter().map(text).enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.not_supported(&at.index(i), operation, &OPERATIONS);
        }
    }
    alone(errors, &path.child("apiGroups"), list(&rule["apiGroups"]), "API groups");
    let (at, versions) = (path.child("apiVersions"), list(&rule["apiVersions"]));
    alone(errors, &at, versions, "API versions");
    for (i, _) in versions.iter().enumerate().filter(|(_, version)| text(version).is_empty()) {
        errors.required(&at.index(i), "");
    }
    resources(errors, &path.child("resources"), list(&rule["resources"]));
    let scopes = ["*", "Cluster", "Namespaced"];
    if let Some(scope) = rule["scope"].as_str().filter(|scope| !scopes.contains(scope)) {
        errors.not_supported(&path.child("scope"), scope, &scopes);
    }
}

/// Checks that a list is not empty, and that `*` is its only item if it is one.
fn alone(errors: &mut ErrorList, path: &Path<'_>, items: &[Value], what: &str) {
    if items.is_empty() {
        errors.required(path, "");
    }
    if items.len() > 1 && has_wildcard(items) {
        errors.invalid(path, items, format!("if '*' is present, must not specify other {what}"));
    }
}

/// Checks resources and subresources: `*` and `*/*` must be alone; `x/*` and `*/y` exclude the items that
/// they cover.
fn resources(errors: &mut ErrorList, path: &Path<'_>, resources: &[Value]) {
    if resources.is_empty() {
        errors.required(path, "");
    }
    let (mut whole, mut every, mut plain) = (BTreeSet::new(), BTreeSet::new(), false);
    for (i, own) in resources.iter().map(text).enumerate() {
        if own.is_empty() {
            errors.required(&path.index(i), "");
            continue;
        }
        let Some((resource, sub)) = own.split_once('/') else {
            plain = own != "*";
            continue;
        };
        if whole.contains(&resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {own}");
            errors.invalid(&path.index(i), own, detail);
        }
        if every.contains(&sub) {
            errors.invalid(&path.index(i), own, format!("if '*/{sub}' is present, must not specify {own}"));
        }
        whole.extend((sub == "*").then_some(resource));
        every.extend((resource == "*").then_some(sub));
    }
    if resources.len() > 1 && resources.iter().any(|own| own == "*/*") {
        errors.invalid(path, resources, "if '*/*' is present, must not specify other resources");
    }
    if has_wildcard(resources) && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, resources, detail);
    }
}

/// Checks the match resources of a policy or binding.
pub(super) fn match_resources(errors: &mut ErrorList, path: &Path<'_>, matching: &Value) {
    let (at, policy) = (path.child("matchPolicy"), &matching["matchPolicy"]);
    match policy.as_str() {
        None => errors.required(&at, ""),
        Some("Equivalent" | "Exact") => {}
        Some(other) => errors.not_supported(&at, other, &["Equivalent", "Exact"]),
    }
    for member in ["namespaceSelector", "objectSelector"] {
        if matching[member].is_null() {
            errors.required(&path.child(member), "");
        }
        label_selector(errors, &path.child(member), &matching[member]);
    }
    for member in ["resourceRules", "excludeResourceRules"] {
        each(path, matching, member, |path, value| {
            let (at, names) = (path.child("resourceNames"), list(&value["resourceNames"]));
            for (i, own) in names.iter().map(text).enumerate() {
                grammar(errors, &at.index(i), own, name::path_segment(own));
            }
            unique_texts(errors, &at, names);
            rule(errors, path, value);
        });
    }
}

/// Checks that a mutating policy matches only operations with an object to change.
pub(super) fn only_mutable(errors: &mut ErrorList, path: &Path<'_>, matching: &Value) {
    let at = path.child("resourceRules.operations");
    let operations = list(&matching["resourceRules"]).iter().flat_map(|rule| list(&rule["operations"]));
    for operation in operations.map(text).filter(|operation| !MUTABLE.contains(operation)) {
        errors.not_supported(&at, operation, &MUTABLE);
    }
}
