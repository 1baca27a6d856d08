//! API services: those without a Service are this server's own and available from the start. Those with one are remembered and
//! nothing more, since requests are not passed on to other servers, and their condition says so.

use serde_json::{Value, json};

use crate::meta;

/// The first status; the moment is the creation's.
pub(super) fn prepare_create(object: &mut Value) {
    object["status"] = json!({ "conditions": [available(object, meta::creation_timestamp(object))] });
}

/// The condition follows the Service of the spec; a new one began when the object did, for want of a clock here.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    if new["spec"]["service"].is_null() != old["spec"]["service"].is_null() {
        prepare_create(new);
    }
}

fn available(object: &Value, since: &str) -> Value {
    let (status, reason, message) = if object["spec"]["service"].is_null() {
        ("True", "Local", "Local APIServices are always available")
    } else {
        ("False", "AggregationNotServed", "this apiserver does not pass requests on to other apiservers")
    };
    json!({ "type": "Available", "status": status, "lastTransitionTime": since, "reason": reason, "message": message })
}
