//! Defaults of priority classes and PodGroups.
//!
//! Follows `SetDefaults_PriorityClass` and `SetDefaults_PodGroupSpec`.

use super::{default, member};
use serde_json::{Value, json};

pub(crate) fn priority_class(object: &mut Value) {
    default(object, "preemptionPolicy", "PreemptLowerPriority");
}

/// Since 1.37. In 1.36 the mode is a member of a feature that is off.
pub(crate) fn pod_group(object: &mut Value) {
    if let Some(spec) = member(object, "spec") {
        default(spec, "disruptionMode", json!({"single": {}}));
    }
}
