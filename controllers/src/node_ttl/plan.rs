//! Cache lifetime by number of nodes. Pure. The steps are those of Kubernetes and overlap, so that a size
//! oscillating around a step does not rewrite all nodes each time.

use crate::action::{Action, PatchKind, Target};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Smallest size, largest size, and lifetime in seconds of each step.
const STEPS: [(usize, usize, u32); 6] = [
    (0, 100, 0),
    (90, 500, 15),
    (450, 1000, 30),
    (900, 2000, 60),
    (1800, 10_000, 300),
    (9000, usize::MAX, 600),
];

/// Current step of the cluster's size.
#[derive(Debug, Default)]
pub(crate) struct ClusterSizes {
    step: usize,
}

impl ClusterSizes {
    /// Updates the number of nodes. Returns whether the lifetime changed.
    pub(crate) fn count(&mut self, nodes: usize) -> bool {
        let before = self.step;
        while nodes > STEPS[self.step].1 {
            self.step += 1;
        }
        while nodes < STEPS[self.step].0 {
            self.step -= 1;
        }
        self.step != before
    }

    /// The current lifetime in seconds.
    pub(crate) fn seconds(&self) -> u32 {
        STEPS[self.step].2
    }
}

/// The TTL annotation of a node.
pub(crate) fn annotation(node: &Node) -> Option<&str> {
    node.metadata.annotations.as_ref()?.get(ANNOTATION).map(String::as_str)
}

/// The patch of a node whose annotation differs.
pub(crate) fn plan(node: &Node, seconds: u32) -> Option<Action> {
    let is_said = annotation(node).and_then(|text| text.parse().ok()) == Some(seconds);
    let patch = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
    let target = Target { resource_version: None, ..Target::of(node) };
    (!is_said).then_some(Action::Patch { target, status: false, kind: PatchKind::Strategic, patch })
}
