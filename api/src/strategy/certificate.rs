//! Certificate signing requests: who approves and who signs are different writers of one status.

use serde_json::Value;

use super::copy;

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

/// `/status` writes the certificate and conditions other than the approver's, which stay as they are.
pub(super) fn status_only(new: &mut Value, old: &Value) {
    let decided = |condition: &&Value| condition["type"] == "Approved" || condition["type"] == "Denied";
    let of = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions: Vec<Value> = of(old).iter().filter(decided).cloned().collect();
    conditions.extend(of(new).into_iter().filter(|condition| !decided(&condition)));
    if !conditions.is_empty() {
        new["status"]["conditions"] = conditions.into();
    }
}
