//! Validation of daemon sets.
//!
//! Follows `ValidateDaemonSet` and `ValidateDaemonSetUpdate`.

use super::{SPEC, amounts, at_most_100_percent, is_zero, strategy_text, template};
use crate::check::{immutable, none_negative};
use crate::field::{ErrorList, Path};
use crate::object::{is_empty, text};
use crate::selector::label::Selector;
use crate::validate::selector;
use serde_json::Value;

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    chosen(errors, spec);
    template(object, "DaemonSet", errors);
    none_negative(errors, &SPEC, spec, &["minReadySeconds"]);
    strategy(errors, &SPEC.child("updateStrategy"), &spec["updateStrategy"]);
    none_negative(errors, &SPEC, spec, &["revisionHistoryLimit"]);
}

/// Checks the selector. A missing selector selects nothing, so it never matches the template.
fn chosen(errors: &mut ErrorList, spec: &Value) {
    let (path, own) = (SPEC.child("selector"), &spec["selector"]);
    let before = errors.len();
    selector::label_selector(errors, &path, own);
    let parsed = Selector::from_object(own).ok().filter(|_| errors.len() == before);
    let labels = &spec["template"]["metadata"]["labels"];
    if parsed.is_some_and(|parsed| !parsed.matches(&labels.as_object())) {
        let path = SPEC.child("template.metadata.labels");
        errors.invalid(&path, labels, "`selector` does not match template `labels`");
    }
    if !own.is_null() && is_empty(own) {
        errors.invalid(&path, own, "empty selector is invalid for daemonset");
    }
}

fn strategy(errors: &mut ErrorList, path: &Path<'_>, strategy: &Value) {
    let (rolling, at) = (&strategy["rollingUpdate"], path.child("rollingUpdate"));
    match text(&strategy["type"]) {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errors.required(&at, ""),
        "RollingUpdate" => self::rolling(errors, &at, rolling),
        _ => errors.not_supported_raw(path, strategy_text(strategy), &["RollingUpdate", "OnDelete"]),
    }
}

fn rolling(errors: &mut ErrorList, path: &Path<'_>, rolling: &Value) {
    amounts(errors, path, rolling);
    let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
    at_most_100_percent(errors, &path.child("maxUnavailable"), unavailable);
    at_most_100_percent(errors, &path.child("maxSurge"), surge);
    match (is_zero(unavailable), is_zero(surge)) {
        (false, false) => {
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.invalid(&path.child("maxSurge"), surge, detail);
        }
        (true, true) => errors.required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

/// Checks an update. Runs before the content check.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(errors, "spec.selector", new, old);
}
