//! NodeDeclaredFeatureValidator: a change of a bound pod must not need features of kubelets that the pod's node does not declare.

use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::object::{list, semantically_equal, text};
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The feature, and its gate, by which the resources of a whole pod are resized.
const POD_LEVEL_RESIZE: &str = "InPlacePodLevelResourcesVerticalScaling";
/// The feature by which init containers are resized that are no sidecars.
const INIT_CONTAINER_RESIZE: &str = "InPlacePodVerticalScalingInitContainers";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "pods")],
    subresources: &["", "resize"],
    validates: &[Operation::Update],
    ..Row::new("NodeDeclaredFeatureValidator", || Arc::new(NodeDeclaredFeatureValidator))
};

struct NodeDeclaredFeatureValidator;

impl Plugin for NodeDeclaredFeatureValidator {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        let (Some(pod), Some(old)) = (new, old) else { return Ok(()) };
        let name = text(&pod["spec"]["nodeName"]);
        // Every change of the spec changes the generation.
        if name.is_empty() || pod["metadata"]["generation"] == old["metadata"]["generation"] {
            return Ok(());
        }
        let is_on = subject.resource.has_gate("NodeDeclaredFeatures");
        let required = required_features(&pod["spec"], &old["spec"]);
        if !is_on || required.is_empty() {
            return Ok(());
        }
        let Some(node) = cluster.get(kstore_registry::lookup::core("nodes"), "", name) else {
            return subject.refuse(&format!("node {name:?} not found"));
        };
        let declared = list(&node["status"]["declaredFeatures"]);
        let missing: Vec<&str> =
            required.into_iter().filter(|feature| !declared.iter().any(|own| own == feature)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        subject.refuse(&format!(
            "pod update requires features {missing} which are not available on node {name:?}"
        ))
    }
}

/// The features that a change of a pod's spec needs, sorted.
fn required_features(new: &Value, old: &Value) -> Vec<&'static str> {
    let mut required = Vec::new();
    if !semantically_equal(&new["resources"], &old["resources"]) {
        required.push(POD_LEVEL_RESIZE);
    }
    let is_resized = |(own, before): (&Value, &Value)| {
        before["restartPolicy"] != "Always" && !semantically_equal(&own["resources"], &before["resources"])
    };
    if list(&new["initContainers"]).iter().zip(list(&old["initContainers"])).any(is_resized) {
        required.push(INIT_CONTAINER_RESIZE);
    }
    required
}
