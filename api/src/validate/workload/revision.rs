//! Validation of controller revisions: the revision number, and data that never change.
//!
//! Follows `ValidateControllerRevision`.

use crate::check::{immutable, not_negative};
use crate::field::{ErrorList, Path};
use serde_json::Value;

pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    not_negative(errors, &Path::new("revision"), &object["revision"]);
}

pub(crate) fn create(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("data");
    match &object["data"] {
        Value::Null => errors.required(&path, "data is mandatory"),
        Value::Object(_) => {}
        _ => errors.required(&path, "data must be a valid JSON object"),
    }
}

pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(errors, "data", new, old);
}
