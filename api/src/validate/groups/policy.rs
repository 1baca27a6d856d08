//! Validation of pod disruption budgets.
//!
//! Follows `ValidatePodDisruptionBudget`.

use super::reference::conditions;
use crate::check::{at_most_100_percent, int_or_percent, none_negative};
use crate::field::{ErrorList, Path};
use crate::validate::selector::label_selector;
use serde_json::Value;

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn budget(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        errors.invalid(&SPEC, spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for member in ["minAvailable", "maxUnavailable"] {
        int_or_percent(errors, &SPEC.child(member), &spec[member]);
        at_most_100_percent(errors, &SPEC.child(member), &spec[member]);
    }
    label_selector(errors, &SPEC.child("selector"), &spec["selector"]);
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if let Some(policy) = spec["unhealthyPodEvictionPolicy"].as_str().filter(|p| !policies.contains(p)) {
        errors.not_supported(&SPEC.child("unhealthyPodEvictionPolicy"), policy, &policies);
    }
}

pub(crate) fn budget_status(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status");
    conditions(errors, &path, &object["status"]);
    let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    none_negative(errors, &path, &object["status"], &counts);
}
