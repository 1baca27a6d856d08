//! Defaults of horizontal pod autoscalers.
//!
//! Follows `SetDefaults_HorizontalPodAutoscaler`.

use super::{default, make, member};
use crate::convert::autoscaler::{self, default_behavior, default_metrics};
use serde_json::Value;

pub(crate) fn autoscaler(version: &str, object: &mut Value) {
    if version != "v1" {
        autoscaler::drop_annotations(object);
    }
    let spec = make(object, "spec");
    default(spec, "minReplicas", 1);
    if version == "v1" {
        return;
    }
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        spec["metrics"] = default_metrics();
    }
    if let Some(behavior) = member(spec, "behavior") {
        default_behavior(behavior);
    }
}
