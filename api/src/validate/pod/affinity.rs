//! Validation of node affinity and pod affinity.
//!
//! Follows `validateAffinity`.

use crate::check::{each, grammar};
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use crate::validate::selector;
use serde_json::Value;
use std::collections::BTreeMap;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let (path, affinity) = (path.child("affinity"), &spec["affinity"]);
    node_affinity(errors, &path.child("nodeAffinity"), &affinity["nodeAffinity"]);
    pod_affinity(errors, &path.child("podAffinity"), &affinity["podAffinity"]);
    pod_affinity(errors, &path.child("podAntiAffinity"), &affinity["podAntiAffinity"]);
}

fn node_affinity(errors: &mut ErrorList, path: &Path<'_>, affinity: &Value) {
    if !affinity[REQUIRED].is_null() {
        node_selector(errors, &path.child(REQUIRED), &affinity[REQUIRED]);
    }
    each(path, affinity, PREFERRED, |path, term| {
        weight(errors, path, term);
        // Preferred terms may have values that no label can have.
        node_term(errors, &path.child("preference"), &term["preference"], Values::Any);
    });
}

/// Whether values in expressions must be label values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    OfLabels,
    Any,
}

/// Checks a `NodeSelector`, a disjunction of terms.
pub(in crate::validate) fn node_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value) {
    let path = path.child("nodeSelectorTerms");
    let terms = list(&selector["nodeSelectorTerms"]);
    if terms.is_empty() {
        errors.required(&path, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        node_term(errors, &path.index(i), term, Values::OfLabels);
    }
}

fn node_term(errors: &mut ErrorList, path: &Path<'_>, term: &Value, values: Values) {
    each(path, term, "matchExpressions", |path, expression| {
        node_label(errors, path, expression);
        if values == Values::OfLabels {
            each(path, expression, "values", |path, value| {
                grammar(errors, path, text(value), name::label_value(text(value)));
            });
        }
    });
    each(path, term, "matchFields", |path, expression| node_field(errors, path, expression));
}

fn node_label(errors: &mut ErrorList, path: &Path<'_>, expression: &Value) {
    let values = list(&expression["values"]);
    let at = path.child("values");
    match text(&expression["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&at, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(&at, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = text(&expression["key"]);
    grammar(errors, &path.child("key"), key, name::qualified_name(key));
}

fn node_field(errors: &mut ErrorList, path: &Path<'_>, expression: &Value) {
    let (operator, key) = (text(&expression["operator"]), text(&expression["key"]));
    if !matches!(operator, "In" | "NotIn") {
        errors.invalid(&path.child("operator"), operator, "not a valid selector operator");
    } else if list(&expression["values"]).len() != 1 {
        let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        errors.required(&path.child("values"), detail);
    }
    if key != "metadata.name" {
        errors.invalid(&path.child("key"), key, "not a valid field selector key");
        return;
    }
    each(path, expression, "values", |path, value| {
        grammar(errors, path, text(value), name::dns1123_subdomain(text(value)));
    });
}

fn weight(errors: &mut ErrorList, path: &Path<'_>, term: &Value) {
    let weight = int(&term["weight"]);
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), &weight, "must be in the range 1-100");
    }
}

fn pod_affinity(errors: &mut ErrorList, path: &Path<'_>, affinity: &Value) {
    each(path, affinity, REQUIRED, |path, term| pod_term(errors, path, term));
    each(path, affinity, PREFERRED, |path, term| {
        weight(errors, path, term);
        pod_term(errors, &path.child("podAffinityTerm"), &term["podAffinityTerm"]);
    });
}

fn pod_term(errors: &mut ErrorList, path: &Path<'_>, term: &Value) {
    selector::label_selector(errors, &path.child("labelSelector"), &term["labelSelector"]);
    selector::label_selector(errors, &path.child("namespaceSelector"), &term["namespaceSelector"]);
    for namespace in list(&term["namespaces"]) {
        let own = text(namespace);
        grammar(errors, &path.child("namespace"), own, name::dns1123_label(own));
    }
    label_keys(errors, path, term);
    let key = text(&term["topologyKey"]);
    if key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    grammar(errors, &path.child("topologyKey"), key, name::qualified_name(key));
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`. Kubernetes merges their values into the label selector,
/// so the selector must exist and must not use the same keys.
pub(super) fn label_keys(errors: &mut ErrorList, path: &Path<'_>, term: &Value) {
    let (selector, wanted) = (&term["labelSelector"], list(&term["matchLabelKeys"]));
    let unwanted = list(&term["mismatchLabelKeys"]);
    for (member, keys) in [("matchLabelKeys", wanted), ("mismatchLabelKeys", unwanted)] {
        let path = path.child(member);
        if !keys.is_empty() && selector.is_null() {
            errors.forbidden(&path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in keys.iter().map(text).enumerate() {
            grammar(errors, &path.index(i), key, name::qualified_name(key));
        }
    }
    duplicate_keys(errors, path, selector, wanted);
    let unwanted = Distinct::of(unwanted);
    for (i, key) in wanted.iter().enumerate().filter(|(_, key)| unwanted.contains(key)) {
        let path = path.child("matchLabelKeys");
        errors.invalid(&path.index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// Reports selector keys that `matchLabelKeys` also lists. The first expression with a key is the merged one,
/// so only a second one is an error.
fn duplicate_keys(errors: &mut ErrorList, path: &Path<'_>, selector: &Value, wanted: &[Value]) {
    let last: BTreeMap<&str, usize> = wanted.iter().enumerate().map(|(i, key)| (text(key), i)).collect();
    let mut seen = Distinct::default();
    for key in list(&selector["matchExpressions"]).iter().map(|expression| &expression["key"]) {
        let before = !seen.insert(key) || !selector["matchLabels"][text(key)].is_null();
        if let Some(i) = last.get(text(key)).copied().filter(|_| before) {
            errors.invalid(&path.index(i), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}
