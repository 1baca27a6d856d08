//! Validation of tolerations.
//!
//! Follows `ValidateTolerations`.

use crate::check::grammar;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use serde_json::Value;

/// Effects of taints, in the order of messages.
pub(in crate::validate) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(in crate::validate) fn tolerations(errors: &mut ErrorList, path: &Path<'_>, tolerations: &Value) {
    for (i, toleration) in list(tolerations).iter().enumerate() {
        one(errors, &path.index(i), toleration);
    }
}

fn one(errors: &mut ErrorList, path: &Path<'_>, toleration: &Value) {
    let (key, operator) = (text(&toleration["key"]), text(&toleration["operator"]));
    let (value, effect) = (text(&toleration["value"]), text(&toleration["effect"]));
    let operator_path = path.child("operator");
    if !key.is_empty() {
        grammar(errors, &path.child("key"), key, name::qualified_name(key));
    } else if operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(&operator_path, operator, detail);
    }
    if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&path.child("effect"), effect, detail);
    }
    match operator {
        "" | "Equal" => {
            let faults = name::label_value(value);
            if !faults.is_empty() {
                errors.invalid(&operator_path, value, faults.join(";"));
            }
        }
        "Exists" if !value.is_empty() => {
            errors.invalid(&operator_path, value, "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        "Lt" | "Gt" => {
            let known = ["Equal", "Exists", "Lt", "Gt"];
            errors.not_supported_as_listed(&operator_path, operator, &known);
        }
        other => errors.not_supported_as_listed(&operator_path, other, &["Equal", "Exists"]),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported_as_listed(&path.child("effect"), effect, &EFFECTS);
    }
}
