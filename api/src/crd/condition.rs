//! Conditions of a definition in `status.conditions`: look-up and update.

use crate::object::{list, text};
use serde_json::{Value, json};

/// Condition: the approval annotation of a protected group.
pub(super) const APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";
/// Condition: all names are accepted.
pub(super) const NAMES_ACCEPTED: &str = "NamesAccepted";
/// Condition: the kind is served. It never becomes false again.
pub(super) const ESTABLISHED: &str = "Established";
/// Condition: the definition is being deleted.
pub(super) const TERMINATING: &str = "Terminating";

/// New value of a condition.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) kind: &'static str,
    pub(super) status: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The condition of this type.
pub(super) fn find<'c>(crd: &'c Value, kind: &str) -> Option<&'c Value> {
    list(&crd["status"]["conditions"]).iter().find(|condition| condition["type"] == kind)
}

/// Whether the condition of this type exists and is true.
pub(super) fn is_true(crd: &Value, kind: &str) -> bool {
    find(crd, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition in a status, in place or at the end. The transition time changes only with the
/// condition's status.
pub(super) fn set(status: &mut Value, condition: &Condition, now: &str) {
    if !status.is_object() {
        *status = json!({});
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let word = if condition.status { "True" } else { "False" };
    let at = conditions.iter().position(|own| own["type"] == condition.kind);
    let old = at.map(|at| conditions[at].clone()).unwrap_or_default();
    let stays = old["status"] == word && !text(&old["lastTransitionTime"]).is_empty();
    let since = if stays { old["lastTransitionTime"].clone() } else { json!(now) };
    let mut new = if old.is_object() { old } else { json!({}) };
    for (member, value) in [
        ("type", json!(condition.kind)),
        ("status", json!(word)),
        ("lastTransitionTime", since),
        ("reason", json!(condition.reason)),
        ("message", json!(condition.message)),
    ] {
        new[member] = value;
    }
    match at {
        Some(at) => conditions[at] = new,
        None => conditions.push(new),
    }
}
