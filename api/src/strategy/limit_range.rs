//! Preparation of limit ranges.

use crate::meta;
use serde_json::Value;

/// Names a limit range without a name with a uuid, as `PrepareForCreate` of Kubernetes does. The object's uid is one that was
/// drawn for it.
pub(crate) fn prepare_create(object: &mut Value) {
    if meta::name(object).is_empty() {
        let uuid = meta::uid(object).to_owned();
        meta::set_name(object, &uuid);
    }
}
