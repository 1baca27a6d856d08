//! Validation of annotations with a meaning for pods.
//!
//! Follows `ValidatePodSpecificAnnotations`.

use super::{security, toleration};
use crate::field::{ErrorList, Path};
use crate::object::text;
use serde_json::Value;

/// Annotation of mirror pods, through which a node shows its static pods in the API.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn content(errors: &mut ErrorList, path: &Path<'_>, annotations: &Value, spec: &Value) {
    if annotations.is_null() {
        return;
    }
    if !annotations[MIRROR].is_null() && text(&spec["nodeName"]).is_empty() {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&path.key(MIRROR), &annotations[MIRROR], detail);
    }
    if !text(&annotations[TOLERATIONS]).is_empty() {
        tolerations(errors, path, text(&annotations[TOLERATIONS]));
    }
    if annotations[DELETION_COST].as_str().is_some_and(|cost| !is_cost(cost)) {
        errors.invalid(&path.key(DELETION_COST), &annotations[DELETION_COST], "must be a 32bit integer");
    }
    security::annotations(errors, path, annotations, spec);
}

fn tolerations(errors: &mut ErrorList, path: &Path<'_>, said: &str) {
    match serde_json::from_str::<Value>(said) {
        Ok(list) => toleration::tolerations(errors, &path.child(TOLERATIONS), &list),
        Err(fault) => errors.invalid(path, TOLERATIONS, fault.to_string()),
    }
}

/// Whether a text is a 32-bit integer without a plus sign, and without leading zeros unless it has a minus sign, as
/// `GetDeletionCostFromPodAnnotations` of Kubernetes has it.
fn is_cost(cost: &str) -> bool {
    let plain = cost == "0" || cost.starts_with(|c: char| c == '-' || ('1'..='9').contains(&c));
    plain && cost.parse::<i32>().is_ok()
}

/// Checks that immutable annotations do not change.
pub(super) fn change(errors: &mut ErrorList, path: &Path<'_>, new: &Value, old: &Value) {
    for (key, before) in old.as_object().into_iter().flatten().filter(|(key, _)| is_fixed(key)) {
        if new[key] != *before {
            let what = if key == MIRROR { "mirror pod annotation" } else { "AppArmor annotations" };
            errors.forbidden(&path.key(key), format!("may not remove or update {what}"));
        }
    }
    for key in new.as_object().into_iter().flat_map(|new| new.keys()).filter(|key| is_fixed(key)) {
        if old[key].is_null() {
            let what = if key == MIRROR { "mirror pod annotation" } else { "AppArmor annotations" };
            errors.forbidden(&path.key(key), format!("may not add {what}"));
        }
    }
}

fn is_fixed(key: &str) -> bool {
    key == MIRROR || key.starts_with(APP_ARMOR)
}
