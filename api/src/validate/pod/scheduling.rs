//! What must hold of everything by which a pod says where it wants to run.

use serde_json::Value;

use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use crate::validate::check::{each, grammar, one_of, optional_one_of, unique};
use crate::validate::{metadata, selector};

pub(super) fn scheduling(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    metadata::labels(errors, &path.child("nodeSelector"), &spec["nodeSelector"]);
    each(path, spec, "tolerations", |path, value| toleration(errors, path, value));
    each(path, spec, "schedulingGates", |path, gate| {
        let own = text(&gate["name"]);
        grammar(errors, &path.child("name"), own, name::qualified_name(own));
    });
    unique(errors, &path.child("schedulingGates"), list(&spec["schedulingGates"]), "name");
    each(path, spec, "topologySpreadConstraints", |path, value| spread(errors, path, value));
    let (path, affinity) = (path.child("affinity"), &spec["affinity"]);
    node_affinity(errors, &path.child("nodeAffinity"), &affinity["nodeAffinity"]);
    pod_affinity(errors, &path.child("podAffinity"), &affinity["podAffinity"]);
    pod_affinity(errors, &path.child("podAntiAffinity"), &affinity["podAntiAffinity"]);
}

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(in crate::validate) fn toleration(errors: &mut ErrorList, path: &Path<'_>, toleration: &Value) {
    let (key, operator) = (text(&toleration["key"]), text(&toleration["operator"]));
    let (value, effect) = (text(&toleration["value"]), text(&toleration["effect"]));
    if !key.is_empty() {
        grammar(errors, &path.child("key"), key, name::qualified_name(key));
    } else if operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(&path.child("operator"), operator, detail);
    }
    if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&path.child("effect"), effect, detail);
    }
    match operator {
        "" | "Equal" => grammar(errors, &path.child("operator"), value, name::label_value(value)),
        "Exists" if !value.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.invalid(&path.child("operator"), toleration, detail);
        }
        "Exists" => {}
        other => errors.not_supported(&path.child("operator"), other, &["Equal", "Exists"]),
    }
    optional_one_of(errors, &path.child("effect"), &toleration["effect"], &EFFECTS);
}

fn spread(errors: &mut ErrorList, path: &Path<'_>, constraint: &Value) {
    if int(&constraint["maxSkew"]) <= 0 {
        errors.invalid(&path.child("maxSkew"), &int(&constraint["maxSkew"]), "must be greater than zero");
    }
    if text(&constraint["topologyKey"]).is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    let actions = ["DoNotSchedule", "ScheduleAnyway"];
    one_of(errors, &path.child("whenUnsatisfiable"), &constraint["whenUnsatisfiable"], &actions);
    selector::label_selector(errors, &path.child("labelSelector"), &constraint["labelSelector"]);
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn node_affinity(errors: &mut ErrorList, path: &Path<'_>, affinity: &Value) {
    if !affinity[REQUIRED].is_null() {
        node_selector(errors, &path.child(REQUIRED), &affinity[REQUIRED]);
    }
    each(path, affinity, PREFERRED, |path, term| {
        weight(errors, path, term);
        node_term(errors, &path.child("preference"), &term["preference"]);
    });
}

/// A `NodeSelector`: terms of which one must match.
pub(in crate::validate) fn node_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value) {
    if list(&selector["nodeSelectorTerms"]).is_empty() {
        errors.required(&path.child("nodeSelectorTerms"), "must have at least one node selector term");
    }
    each(path, selector, "nodeSelectorTerms", |path, term| node_term(errors, path, term));
}

fn node_term(errors: &mut ErrorList, path: &Path<'_>, term: &Value) {
    for member in ["matchExpressions", "matchFields"] {
        each(path, term, member, |path, expression| {
            let (operator, values) = (text(&expression["operator"]), list(&expression["values"]));
            match operator {
                "In" | "NotIn" if values.is_empty() => {
                    let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                    errors.required(&path.child("values"), detail);
                }
                "Exists" | "DoesNotExist" if !values.is_empty() => {
                    let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    errors.forbidden(&path.child("values"), detail);
                }
                "Gt" | "Lt" if values.len() != 1 => {
                    let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    errors.required(&path.child("values"), detail);
                }
                "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
                other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
            }
            if member == "matchExpressions" {
                let key = text(&expression["key"]);
                grammar(errors, &path.child("key"), key, name::qualified_name(key));
            }
        });
    }
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
    match text(&term["topologyKey"]) {
        "" => errors.required(&path.child("topologyKey"), "can not be empty"),
        key => grammar(errors, &path.child("topologyKey"), key, name::qualified_name(key)),
    }
}
