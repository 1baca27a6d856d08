//! API services: those without a Service are this server's own and available from the start. Whether the others are is found out after
//! they were stored, by the server that hands requests on to them.

use serde_json::{Value, json};

use crate::meta;

/// The first status; the moment is the creation's.
pub(super) fn prepare_create(object: &mut Value) {
    object["status"] = match object["spec"]["service"].is_null() {
        true => json!({ "conditions": [local(meta::creation_timestamp(object))] }),
        false => json!({}),
    };
}

/// What was found out about another server says nothing of this one, and the other way round. The condition of this server's own began
/// when the object did, for want of a clock here.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    if new["spec"]["service"].is_null() != old["spec"]["service"].is_null() {
        prepare_create(new);
    }
}

fn local(since: &str) -> Value {
    json!({
        "type": "Available", "status": "True", "lastTransitionTime": since,
        "reason": "Local", "message": "Local APIServices are always available",
    })
}
