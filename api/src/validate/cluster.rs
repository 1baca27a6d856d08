//! What must hold of namespaces, nodes, quotas and limit ranges.

use serde_json::Value;

use super::check::{each, grammar, one_of, quantity, quantity_not_negative, required};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, semantically_equal, text};

const SPEC: Path<'static> = Path::new("spec");

pub(super) fn namespace(object: &Value, errors: &mut ErrorList) {
    each(&SPEC, &object["spec"], "finalizers", |_, finalizer| {
        let own = text(finalizer);
        grammar(errors, &SPEC.child("finalizers"), own, name::qualified_name(own));
    });
}

pub(super) fn node(object: &Value, errors: &mut ErrorList) {
    let taints = list(&object["spec"]["taints"]);
    let path = SPEC.child("taints");
    for (i, taint) in taints.iter().enumerate() {
        let path = path.index(i);
        let (key, value) = (text(&taint["key"]), text(&taint["value"]));
        grammar(errors, &path.child("key"), key, name::qualified_name(key));
        grammar(errors, &path.child("value"), value, name::label_value(value));
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        one_of(errors, &path.child("effect"), &taint["effect"], &effects);
        let same = |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        if taints[..i].iter().any(same) {
            errors.duplicate(&path, taint);
        }
    }
    for member in ["capacity", "allocatable"] {
        let path = Path::new("status");
        let path = path.child(member);
        for (resource, amount) in object["status"][member].as_object().into_iter().flatten() {
            quantity_not_negative(errors, &path.key(resource), amount);
        }
    }
}

pub(super) fn node_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    for (member, name) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let set = !semantically_equal(&stored[member], &Value::Null) && stored[member] != "";
        if set && spec[member] != stored[member] {
            let detail = format!("node updates may not change {name} except from \"\" to valid");
            errors.forbidden(&SPEC.child(member), detail);
        }
    }
}

pub(super) fn resource_quota(object: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("hard");
    for (resource, amount) in object["spec"]["hard"].as_object().into_iter().flatten() {
        let path = path.key(resource);
        grammar(errors, &path, resource, name::qualified_name(resource));
        quantity_not_negative(errors, &path, amount);
    }
}

pub(super) fn limit_range(object: &Value, errors: &mut ErrorList) {
    each(&SPEC, &object["spec"], "limits", |path, limit| {
        required(errors, &path.child("type"), &limit["type"]);
        let ordered = ["min", "defaultRequest", "default", "max"];
        for (i, low) in ordered.iter().enumerate() {
            for high in &ordered[i + 1..] {
                not_above(errors, path, limit, (low, high));
            }
        }
        if limit["type"] == "Pod" {
            for member in ["default", "defaultRequest"].into_iter().filter(|m| !limit[*m].is_null()) {
                errors.forbidden(&path.child(member), "may not be specified when `type` is 'Pod'");
            }
        }
    });
}

/// No amount on one side may be above that of the other.
fn not_above(errors: &mut ErrorList, path: &Path<'_>, limit: &Value, (low, high): (&str, &str)) {
    let words = |side: &str| match side {
        "default" => "default value".to_owned(),
        "defaultRequest" => "default request value".to_owned(),
        side => format!("{side} value"),
    };
    for (resource, value) in limit[low].as_object().into_iter().flatten() {
        let (Some(below), Some(above)) = (quantity(value), quantity(&limit[high][resource])) else {
            continue;
        };
        if below > above {
            let detail = format!("{} {below} is greater than {} {above}", words(low), words(high));
            errors.invalid(&path.child(low).key(resource), &below.to_string(), detail);
        }
    }
}
