//! What of a pod may change: next to nothing. A pod is replaced, not altered.

use serde_json::Value;

use super::SPEC;
use crate::field::{ErrorList, Path};
use crate::object::{list, semantically_equal, text};

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A pod written through its own path: images, an earlier deadline, more tolerations, fewer gates; while gated also where it may run.
pub(in crate::validate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    for member in ["containers", "initContainers"] {
        if list(&spec[member]).len() != list(&stored[member]).len() {
            errors.forbidden(&SPEC.child(member), "pod updates may not add or remove containers");
            return;
        }
    }
    deadline(errors, spec, stored);
    tolerations(errors, spec, stored);
    gates(errors, spec, stored);
    if !semantically_equal(&as_before(spec, stored), stored) {
        errors.forbidden(&SPEC, FIXED);
    }
}

fn deadline(errors: &mut ErrorList, spec: &Value, stored: &Value) {
    let path = SPEC.child("activeDeadlineSeconds");
    let Some(before) = stored["activeDeadlineSeconds"].as_i64() else { return };
    match spec["activeDeadlineSeconds"].as_i64() {
        None => errors.invalid(&path, &Value::Null, "must not update from a positive integer to nil value"),
        Some(now) if now > before => {
            errors.invalid(&path, &now, "must be less than or equal to previous value");
        }
        Some(_) => {}
    }
}

fn tolerations(errors: &mut ErrorList, spec: &Value, stored: &Value) {
    let alike = |a: &Value, b: &Value| {
        ["key", "operator", "value", "effect"].iter().all(|member| text(&a[*member]) == text(&b[*member]))
    };
    let now = list(&spec["tolerations"]);
    if list(&stored["tolerations"]).iter().any(|before| !now.iter().any(|now| alike(now, before))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(&SPEC.child("tolerations"), detail);
    }
}

fn gates(errors: &mut ErrorList, spec: &Value, stored: &Value) {
    let before = list(&stored["schedulingGates"]);
    for (i, gate) in list(&spec["schedulingGates"]).iter().enumerate() {
        if !before.iter().any(|old| old["name"] == gate["name"]) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(&gate["name"]));
            errors.forbidden(&SPEC.child("schedulingGates").index(i), detail);
        }
    }
}

/// The new spec with everything that may change put back as it was.
fn as_before(spec: &Value, stored: &Value) -> Value {
    let mut spec = spec.clone();
    for member in ["containers", "initContainers"] {
        let before = list(&stored[member]);
        if let Some(containers) = spec.get_mut(member).and_then(Value::as_array_mut) {
            for (container, before) in containers.iter_mut().zip(before).filter(|(c, _)| c.is_object()) {
                container["image"] = before["image"].clone();
            }
        }
    }
    let mut free = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if !list(&stored["schedulingGates"]).is_empty() {
        free.extend(["nodeSelector", "affinity"]);
    }
    if stored["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
        && spec["terminationGracePeriodSeconds"] == 1
    {
        free.push("terminationGracePeriodSeconds");
    }
    for member in free.into_iter().filter(|_| stored.is_object()) {
        spec[member] = stored[member].clone();
    }
    spec
}

/// `/ephemeralcontainers`: what is there stays as it is.
pub(in crate::validate) fn ephemeral_containers(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path: Path<'_> = SPEC.child("ephemeralContainers");
    let now = list(&new["spec"]["ephemeralContainers"]);
    for before in list(&old["spec"]["ephemeralContainers"]) {
        match now.iter().position(|container| container["name"] == before["name"]) {
            None => {
                let detail = format!("existing ephemeral containers {} may not be removed", before["name"]);
                errors.forbidden(&path, detail);
            }
            Some(i) if !semantically_equal(&now[i], before) => {
                let detail = format!("existing ephemeral containers {} may not be changed", before["name"]);
                errors.forbidden(&path.index(i), detail);
            }
            Some(_) => {}
        }
    }
}
