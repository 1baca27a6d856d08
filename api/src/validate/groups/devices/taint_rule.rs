//! Validation of device taint rules: which devices a rule selects, its taint, and the conditions of its status.
//!
//! Follows `ValidateDeviceTaintRule`.

use super::{EFFECTS, SPEC, at_most, pool_name, slice};
use crate::check::{one_of, required_grammar};
use crate::field::{ErrorList, Path};
use crate::limits::TAINT_RULE_CONDITIONS_MAX;
use crate::name;
use crate::object::list;
use crate::validate::groups::reference::{conditions, driver};
use serde_json::Value;

const STATUS: Path<'static> = Path::new("status");

/// Checks the spec of a rule. A stored effect is not checked again.
pub(crate) fn spec(rule: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (spec, selects) = (&rule["spec"], SPEC.child("deviceSelector"));
    let selector = &spec["deviceSelector"];
    if !selector["driver"].is_null() {
        driver(errors, &selects.child("driver"), &selector["driver"]);
    }
    if !selector["pool"].is_null() {
        pool_name(errors, &selects.child("pool"), &selector["pool"]);
    }
    if !selector["device"].is_null() {
        required_grammar(errors, &selects.child("device"), &selector["device"], name::dns1123_label);
    }
    let (path, taint) = (SPEC.child("taint"), &spec["taint"]);
    slice::taint_key_and_value(errors, &path, taint);
    if old.is_none_or(|old| old["spec"]["taint"]["effect"] != taint["effect"]) {
        one_of(errors, &path.child("effect"), &taint["effect"], &EFFECTS);
    }
}

/// Checks an update of the status.
pub(crate) fn status(new: &Value, _: &Value, errors: &mut ErrorList) {
    let status = &new["status"];
    conditions(errors, &STATUS, status);
    at_most(
        errors,
        &STATUS.child("conditions"),
        list(&status["conditions"]).len(),
        TAINT_RULE_CONDITIONS_MAX,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(check: impl FnOnce(&mut ErrorList)) -> Vec<String> {
        let mut errors = ErrorList::default();
        check(&mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rule_selects_devices_by_valid_names_and_has_a_whole_taint() {
        let of = |spec: Value, old: Option<Value>| {
            faults(|errors| super::spec(&json!({ "spec": spec }), old.as_ref(), errors))
        };
        let taint = json!({"key": "sick", "effect": "NoExecute"});
        assert!(of(json!({"taint": taint}), None).is_empty(), "a rule may select nothing");
        let selector = json!({"driver": "gpu.x", "pool": "a/b", "device": "g0"});
        assert!(of(json!({"deviceSelector": selector, "taint": taint}), None).is_empty());
        for (member, value) in [("driver", "a b"), ("pool", "a//b"), ("device", "A"), ("device", "")] {
            let wrong = of(json!({"deviceSelector": {member: value}, "taint": taint}), None);
            assert!(!wrong.is_empty(), "{member} {value}");
            let path = format!("spec.deviceSelector.{member}: ");
            assert!(wrong.iter().all(|fault| fault.starts_with(&path)), "{wrong:?}");
        }
        let odd = json!({"taint": {"key": "sick", "value": "a b", "effect": "PreferNoSchedule"}});
        let wrong = of(odd.clone(), None);
        assert!(wrong[0].starts_with("spec.taint.value: Invalid value: \"a b\""), "{wrong:?}");
        let effect = "spec.taint.effect: Unsupported value: \"PreferNoSchedule\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"";
        assert_eq!(wrong[1..], [effect]);
        assert_eq!(of(odd.clone(), Some(json!({ "spec": odd }))).len(), 1, "a stored effect may stay");
        let missing = of(json!({"taint": {"key": "sick"}}), None);
        assert_eq!(missing, ["spec.taint.effect: Required value"]);
    }

    #[test]
    fn a_status_has_at_most_eight_whole_conditions() {
        let of = |count: usize, status: &str| {
            let one = |n| {
                json!({"type": format!("T{n}"), "status": status, "reason": "R",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
            };
            let rule = json!({"status": {"conditions": (0..count).map(one).collect::<Vec<_>>()}});
            faults(|errors| super::status(&rule, &Value::Null, errors))
        };
        assert!(of(8, "True").is_empty());
        assert_eq!(of(9, "True"), ["status.conditions: Too many: 9: must have at most 8 items"]);
        assert!(of(1, "Perhaps")[0].starts_with("status.conditions[0].status: Unsupported value"));
    }
}
