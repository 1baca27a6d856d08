//! Validation of replica sets.
//!
//! Follows `ValidateReplicaSet`.

use super::{SPEC, selected_template};
use crate::check::none_negative;
use crate::field::ErrorList;
use serde_json::Value;

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    none_negative(errors, &SPEC, &object["spec"], &["replicas", "minReadySeconds"]);
    selected_template(object, errors);
}
