//! Validation of priority classes and runtime classes.
//!
//! Follows `ValidatePriorityClass` and `ValidateRuntimeClass`.

use crate::check::metadata::labels;
use crate::check::{immutable, one_of_listed, quantity_not_negative, required_grammar};
use crate::field::{ErrorList, Path};
use crate::limits::USER_PRIORITY_MAX;
use crate::object::{int, list, text};
use crate::validate::pod;
use crate::{meta, name};
use serde_json::Value;
use std::collections::BTreeSet;

const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(crate) fn priority_class(object: &Value, errors: &mut ErrorList) {
    let (own, value) = (meta::name(object), int(&object["value"]));
    if own.starts_with("system-") {
        if let Some(fault) = no_system_class(own, value, object["globalDefault"] == true) {
            let detail =
                "priority class names with 'system-' prefix are reserved for system use only. error: ";
            errors.forbidden(&Path::new("metadata.name"), format!("{detail}{fault}"));
        }
    } else if value > USER_PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        errors.forbidden(&Path::new("value"), detail);
    }
    let policies = ["PreemptLowerPriority", "Never"];
    if !object["preemptionPolicy"].is_null() {
        one_of_listed(errors, &Path::new("preemptionPolicy"), &object["preemptionPolicy"], &policies);
    }
}

/// Why a name and value differ from the system's priority classes; `None` if they match one.
fn no_system_class(own: &str, value: i64, default: bool) -> Option<String> {
    match SYSTEM_CLASSES.iter().find(|(name, _)| *name == own) {
        None => Some(format!("{own} is not a known system priority class")),
        Some((_, known)) if *known != value => Some(format!("value of {own} PriorityClass must be {known}")),
        Some(_) if default => Some(format!("globalDefault of {own} PriorityClass must be false")),
        Some(_) => None,
    }
}

pub(crate) fn priority_class_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    if int(&new["value"]) != int(&old["value"]) {
        errors.forbidden(&Path::new("value"), "may not be changed in an update.");
    }
    immutable(errors, "preemptionPolicy", new, old);
}

pub(crate) fn runtime_class(object: &Value, errors: &mut ErrorList) {
    required_grammar(errors, &Path::new("handler"), &object["handler"], name::dns1123_label);
    let path = Path::new("overhead.limits");
    for (resource, amount) in object["overhead"]["podFixed"].as_object().into_iter().flatten() {
        let path = path.key(resource);
        pod::resource_name(errors, &path, resource);
        quantity_not_negative(errors, &path, amount);
    }
    let (path, scheduling) = (Path::new("scheduling"), &object["scheduling"]);
    labels(errors, &path.child("nodeSelector"), &scheduling["nodeSelector"]);
    pod::tolerations(errors, &path.child("tolerations"), &scheduling["tolerations"]);
    let tolerations = list(&scheduling["tolerations"]);
    let key =
        |toleration: &Value| ["key", "operator", "value", "effect"].map(|m| text(&toleration[m]).to_owned());
    let mut seen = BTreeSet::new();
    for (i, toleration) in tolerations.iter().enumerate() {
        if !seen.insert(key(toleration)) {
            errors.duplicate(&path.child("tolerations").index(i), toleration);
        }
    }
}

pub(crate) fn runtime_class_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(errors, "handler", new, old);
}
