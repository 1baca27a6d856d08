//! Preparation of API services. Those without a Service are served by this server and available at once; the
//! aggregator finds out whether the others are after they are stored.

use crate::meta;
use serde_json::{Value, json};

/// Sets the first status, with the creation time.
pub(crate) fn prepare_create(object: &mut Value) {
    object["status"] = match object["spec"]["service"].is_null() {
        true => json!({ "conditions": [local(meta::creation_timestamp(object))] }),
        false => json!({}),
    };
}

/// Replaces the status if the API moved between this server and another one. The new condition has the
/// creation time, since this crate has no clock.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
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
