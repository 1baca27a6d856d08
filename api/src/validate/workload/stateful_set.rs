//! Validation of stateful sets.
//!
//! Follows `ValidateStatefulSet` and `ValidateStatefulSetUpdate`.

use super::{SPEC, at_most_100_percent, is_zero, runs_on, strategy_text};
use crate::check::{equal_except, grammar, int_or_percent, none_negative, optional_grammar};
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use crate::validate::selector::{self, Usable};
use crate::validate::{claim, pod};
use crate::{meta, name};
use serde_json::Value;

/// Checks fields of a new set that are immutable afterwards.
pub(crate) fn create(object: &Value, errors: &mut ErrorList) {
    let own = meta::name(object);
    if !own.is_empty() && name::dns1123_subdomain(own).is_empty() {
        grammar(errors, &Path::new("metadata.name"), own, name::dns1123_label(own));
    }
    all(object, true, errors);
}

/// Checks a set on create and update.
pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    all(object, false, errors);
}

fn all(object: &Value, fresh: bool, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let (path, policy) = (SPEC.child("podManagementPolicy"), text(&spec["podManagementPolicy"]));
    match policy {
        "" => errors.required(&path, ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(&path, other, "must be 'OrderedReady' or 'Parallel'"),
    }
    strategy(errors, &SPEC.child("updateStrategy"), &spec["updateStrategy"]);
    retention(errors, &spec["persistentVolumeClaimRetentionPolicy"]);
    let claims = list(&spec["volumeClaimTemplates"]);
    if fresh {
        let path = SPEC.child("volumeClaimTemplates");
        for (i, template) in claims.iter().enumerate() {
            let path = path.index(i);
            claim::spec(errors, &path.child("spec"), &template["spec"]);
        }
    }
    none_negative(errors, &SPEC, spec, &["replicas", "minReadySeconds"]);
    none_negative(errors, &SPEC.child("ordinals"), &spec["ordinals"], &["start"]);
    if fresh {
        let path = SPEC.child("serviceName");
        optional_grammar(errors, &path, &spec["serviceName"], name::dns1123_label);
    }
    if selector::of_template(errors, &SPEC, object, ("statefulset", "")) == Usable::Yes {
        pod::template_with_claims(errors, &SPEC.child("template"), &spec["template"], claims);
    }
    runs_on(object, "StatefulSet", errors);
}

fn strategy(errors: &mut ErrorList, path: &Path<'_>, strategy: &Value) {
    let (rolling, at) = (&strategy["rollingUpdate"], path.child("rollingUpdate"));
    match text(&strategy["type"]) {
        "" => errors.required(path, ""),
        "OnDelete" if !rolling.is_null() => {
            errors.invalid(&at, rolling, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            none_negative(errors, &at, rolling, &["partition"]);
            unavailable(errors, &at.child("maxUnavailable"), &rolling["maxUnavailable"]);
        }
        _ => errors.invalid_raw(path, strategy_text(strategy), "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn unavailable(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if value.is_null() {
        return;
    }
    int_or_percent(errors, path, value);
    if is_zero(value) {
        errors.invalid(path, value, "cannot be 0");
    }
    at_most_100_percent(errors, path, value);
}

fn retention(errors: &mut ErrorList, policy: &Value) {
    let path = SPEC.child("persistentVolumeClaimRetentionPolicy");
    for member in ["whenDeleted", "whenScaled"].into_iter().filter(|_| !policy.is_null()) {
        let (value, known) = (text(&policy[member]), ["Retain", "Delete"]);
        if !known.contains(&value) {
            errors.not_supported_as_listed(&path.child(member), value, &known);
        }
    }
}

const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    if !equal_except(&new["spec"], &old["spec"], &CHANGEABLE) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.forbidden(&SPEC, detail);
    }
}
