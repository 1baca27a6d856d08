//! Validation of replication controllers.
//!
//! Follows `ValidateReplicationController`.

use super::{SPEC, template};
use crate::check::none_negative;
use crate::field::ErrorList;
use serde_json::Value;

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    none_negative(errors, &SPEC, spec, &["minReadySeconds"]);
    let chosen = spec["selector"].as_object().filter(|selector| !selector.is_empty());
    if chosen.is_none() {
        errors.required(&SPEC.child("selector"), "");
    }
    none_negative(errors, &SPEC, spec, &["replicas"]);
    if spec["template"].is_null() {
        errors.required(&SPEC.child("template"), "");
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if chosen.is_some_and(|selector| selector.iter().any(|(key, value)| labels[key] != *value)) {
        let path = SPEC.child("template.metadata.labels");
        errors.invalid(&path, labels, "`selector` does not match template `labels`");
    }
    template(object, "ReplicationController", errors);
}
