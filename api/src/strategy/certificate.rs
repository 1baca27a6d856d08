//! Preparation of certificate signing requests: `/approval` and `/status` write different parts of the
//! status.

use crate::distinct::Distinct;
use crate::object::list;
use crate::resource::copy;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Restricts a write through `/approval` to the conditions.
pub(crate) fn approval_only(new: &mut Value, old: &Value) {
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

/// Restricts a write through `/status`: the approver's conditions keep their stored values. If their number
/// differs, validation refuses the write.
pub(crate) fn status_only(new: &mut Value, old: &Value) {
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

/// Sets the missing times of conditions. New conditions get the current time; the transition time is that of
/// a stored condition with the same type and status. Unchanged conditions without times stay so, since
/// signers must not change the approver's conditions.
pub(crate) fn date_conditions(new: &mut Value, old: &Value, now: &str) {
    let stored = list(&old["status"]["conditions"]);
    let known = Distinct::of(stored);
    let key = |condition: &Value| [condition["type"].to_string(), condition["status"].to_string()];
    // Of conditions with the same type and status, the first one with a time counts.
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
