//! Validation of replica sets.
//!
//! Follows `ValidateReplicaSet`.

use serde_json::Value;

use super::{SPEC, selected_template};
use crate::field::ErrorList;
use crate::validate::check::none_negative;

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    none_negative(errors, &SPEC, &object["spec"], &["replicas", "minReadySeconds"]);
    selected_template(object, errors);
}
