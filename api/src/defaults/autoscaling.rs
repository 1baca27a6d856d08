//! Defaults of horizontal pod autoscalers.
//!
//! Follows `SetDefaults_HorizontalPodAutoscaler`.

use super::{default, make, member};
use crate::convert::autoscaler::{self, default_metrics};
use serde_json::{Value, json};

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
    if let Some(stated) = member(spec, "behavior") {
        behavior(stated);
    }
}

/// Defaults of the behavior in v2.
pub(crate) fn behavior(behavior: &mut Value) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = make(behavior, "scaleUp");
    default(up, "stabilizationWindowSeconds", 0);
    rules(up, json!([pods, percent]));
    rules(make(behavior, "scaleDown"), json!([percent]));
}

fn rules(rules: &mut Value, policies: Value) {
    default(rules, "selectPolicy", "Max");
    default(rules, "policies", policies);
}
