//! How long what kubelets keep is good, by the number of nodes. Pure; the steps are those of Kubernetes and overlap, so that a cluster whose
//! size goes to and fro about one of them does not write all of its nodes each time.

use crate::action::{Action, PatchKind, Target};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Fewest nodes, most nodes, and the seconds for clusters of that size.
const STEPS: [(usize, usize, u32); 6] = [
    (0, 100, 0),
    (90, 500, 15),
    (450, 1000, 30),
    (900, 2000, 60),
    (1800, 10_000, 300),
    (9000, usize::MAX, 600),
];

/// The step that the cluster is on.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    step: usize,
}

impl Sizes {
    /// Takes the number of nodes in. True if another time holds now.
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

    /// How many seconds hold.
    pub(crate) fn seconds(&self) -> u32 {
        STEPS[self.step].2
    }
}

/// What the node says.
pub(crate) fn annotation(node: &Node) -> Option<&str> {
    node.metadata.annotations.as_ref()?.get(ANNOTATION).map(String::as_str)
}

/// The patch of a node that says something else.
pub(crate) fn plan(node: &Node, seconds: u32) -> Option<Action> {
    let is_said = annotation(node).and_then(|text| text.parse().ok()) == Some(seconds);
    let patch = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
    let target = Target { resource_version: None, ..Target::of(node) };
    (!is_said).then_some(Action::Patch { target, status: false, kind: PatchKind::Strategic, patch })
}
