//! What must hold of horizontal pod autoscalers and disruption budgets.

use serde_json::Value;

use super::check::{at_most_all, each, int_or_percent, one_of, optional_one_of, required};
use super::selector::label_selector;
use crate::field::{ErrorList, Path};
use crate::object::int;

const SPEC: Path<'static> = Path::new("spec");

pub(super) fn autoscaler(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let (min, max) = (spec["minReplicas"].as_i64(), int(&spec["maxReplicas"]));
    if let Some(min) = min.filter(|min| *min < 1) {
        errors.invalid(&SPEC.child("minReplicas"), &min, "must be greater than or equal to 1");
    }
    if max < 1 {
        errors.invalid(&SPEC.child("maxReplicas"), &max, "must be greater than 0");
    }
    if min.is_some_and(|min| max < min) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.invalid(&SPEC.child("maxReplicas"), &max, detail);
    }
    let path = SPEC.child("scaleTargetRef");
    for member in ["kind", "name"] {
        required(errors, &path.child(member), &spec["scaleTargetRef"][member]);
    }
    each(&SPEC, spec, "metrics", |path, metric| {
        let kinds = ["ContainerResource", "External", "Object", "Pods", "Resource"];
        one_of(errors, &path.child("type"), &metric["type"], &kinds);
    });
}

pub(super) fn disruption_budget(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        errors.invalid(&SPEC, spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for member in ["minAvailable", "maxUnavailable"] {
        int_or_percent(errors, &SPEC.child(member), &spec[member]);
        at_most_all(errors, &SPEC.child(member), &spec[member]);
    }
    label_selector(errors, &SPEC.child("selector"), &spec["selector"]);
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    let policy = &spec["unhealthyPodEvictionPolicy"];
    optional_one_of(errors, &SPEC.child("unhealthyPodEvictionPolicy"), policy, &policies);
}
