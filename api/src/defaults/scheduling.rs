//! Defaults of priority classes.
//!
//! Follows `SetDefaults_PriorityClass`.

use serde_json::Value;

use super::default;

pub(crate) fn priority_class(object: &mut Value) {
    default(object, "preemptionPolicy", "PreemptLowerPriority");
}
