//! Certificate signing requests: who approves and who signs are different writers of one status.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::copy;
use crate::distinct::Distinct;
use crate::object::list;

/// `/approval` writes conditions and nothing else.
pub(super) fn approval_only(new: &mut Value, old: &Value) {
    let conditions = new["status"]["conditions"].clone();
    copy(new, old, "spec");
    copy(new, old, "status");
    if !conditions.is_null() {
        if !new["status"].is_object() {
            new["status"] = Value::Object(serde_json::Map::new());
        }
        new["status"]["conditions"] = conditions;
    }
}

/// `/status` writes the certificate and conditions other than the approver's, which stay as they are. Where there are more or fewer
/// of the approver's than before, validation refuses them.
pub(super) fn status_only(new: &mut Value, old: &Value) {
    for kind in ["Approved", "Denied"] {
        let of_kind = |condition: &&Value| condition["type"] == kind;
        let stored: Vec<Value> = list(&old["status"]["conditions"]).iter().filter(of_kind).cloned().collect();
        let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        let Some(conditions) = conditions else { return };
        if conditions.iter().filter(of_kind).count() == stored.len() {
            let slots = conditions.iter_mut().filter(|condition| condition["type"] == kind);
            slots.zip(stored).for_each(|(slot, stored)| *slot = stored);
        }
    }
}

/// Conditions without times get them: they are written now, and as old as a stored one of their type and status. What is stored
/// without times stays so, since who signs may not change what the approver wrote.
pub(super) fn date_conditions(new: &mut Value, old: &Value, now: &str) {
    let stored = list(&old["status"]["conditions"]);
    let known = Distinct::of(stored);
    let key = |condition: &Value| [condition["type"].to_string(), condition["status"].to_string()];
    // Of conditions that share a type and a status the first with a time counts.
    let dated = stored.iter().rev().filter(|condition| !condition["lastTransitionTime"].is_null());
    let since: BTreeMap<_, &Value> =
        dated.map(|condition| (key(condition), &condition["lastTransitionTime"])).collect();
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if !condition.is_object() || known.contains(condition) {
            continue;
        }
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = json!(now);
        }
        if condition["lastTransitionTime"].is_null() {
            let since = since.get(&key(condition)).map_or_else(|| json!(now), |since| (*since).clone());
            condition["lastTransitionTime"] = since;
        }
    }
}
