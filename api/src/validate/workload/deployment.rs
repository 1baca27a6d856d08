//! Validation of deployments.
//!
//! Follows `ValidateDeployment` and `ValidateDeploymentUpdate`.

use super::{SPEC, amounts, at_most_100_percent, is_zero, selected_template, strategy_text};
use crate::check::none_negative;
use crate::field::{ErrorList, Path};
use crate::object::{int, text};
use serde_json::Value;

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    none_negative(errors, &SPEC, spec, &["replicas"]);
    selected_template(object, errors);
    strategy(errors, &SPEC.child("strategy"), &spec["strategy"]);
    let counts = ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
    none_negative(errors, &SPEC, spec, &counts);
    let deadline = &spec["progressDeadlineSeconds"];
    if !deadline.is_null() && int(deadline) <= int(&spec["minReadySeconds"]) {
        let path = SPEC.child("progressDeadlineSeconds");
        errors.invalid(&path, deadline, "must be greater than minReadySeconds");
    }
}

fn strategy(errors: &mut ErrorList, path: &Path<'_>, strategy: &Value) {
    let rolling = &strategy["rollingUpdate"];
    match text(&strategy["type"]) {
        "Recreate" if !rolling.is_null() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden(&path.child("rollingUpdate"), detail);
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.is_null() => {
            let detail = "this should be defaulted and never be nil";
            errors.required(&path.child("rollingUpdate"), detail);
        }
        "RollingUpdate" => self::rolling(errors, &path.child("rollingUpdate"), rolling),
        _ => errors.not_supported_raw(path, strategy_text(strategy), &["Recreate", "RollingUpdate"]),
    }
}

fn rolling(errors: &mut ErrorList, path: &Path<'_>, rolling: &Value) {
    amounts(errors, path, rolling);
    let (path, unavailable) = (path.child("maxUnavailable"), &rolling["maxUnavailable"]);
    if is_zero(unavailable) && is_zero(&rolling["maxSurge"]) {
        errors.invalid(&path, unavailable, "may not be 0 when `maxSurge` is 0");
    }
    at_most_100_percent(errors, &path, unavailable);
}
