//! Defaults of priority classes.
//!
//! Follows `SetDefaults_PriorityClass`.

use super::default;
use serde_json::Value;

pub(crate) fn priority_class(object: &mut Value) {
    default(object, "preemptionPolicy", "PreemptLowerPriority");
}
