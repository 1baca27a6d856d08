//! Changes after which a pod that no node fits would fit: each is tried on a copy of the cluster with the scheduler's own decision, so
//! what is suggested holds for the state that was read.
//!
//! The order is the pod itself, then nodes, then other pods; the changes that touch the nearest nodes come first. Single changes only:
//! combinations, other volumes and other devices are not tried.

mod cluster;
mod pod;

use crate::limits::{SUGGESTION_TRIES, SUGGESTIONS};
use crate::plugins::Registry;
use crate::pod::PodInfo;
use crate::reconstruct::Reconstruction;
use crate::verdict::PlacementTable;
use serde_json::Value;
use std::sync::Arc;

/// What a suggestion changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedPart {
    /// The pod.
    Pod,
    /// A node.
    Node,
    /// Other pods.
    OtherPods,
}

/// A change after which the pod has a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// What is changed.
    pub part: ChangedPart,
    /// The change in words: `request cpu 1600m instead of 2 in container db`.
    pub change: String,
    /// The node that the pod gets then.
    pub node: Arc<str>,
}

/// The tries so far and what they found.
struct Search<'a> {
    cluster: &'a mut Reconstruction,
    registry: &'a Registry,
    tries: usize,
    found: Vec<Suggestion>,
}

impl Search<'_> {
    /// Whether enough is found or tried.
    fn is_over(&self) -> bool {
        self.tries >= SUGGESTION_TRIES || self.found.len() >= SUGGESTIONS
    }

    /// Places `pod` in the cluster as it is now; `None` if no node fits or no try is left.
    fn place(&mut self, pod: &PodInfo) -> Option<Arc<str>> {
        if self.is_over() {
            return None;
        }
        self.tries += 1;
        self.cluster.place(self.registry, pod)
    }

    /// Notes a change if the pod has a node with it. Returns whether it has.
    fn note(&mut self, part: ChangedPart, change: String, node: Option<Arc<str>>) -> bool {
        let has_node = node.is_some();
        if let Some(node) = node
            && !self.found.iter().any(|known| known.change == change)
        {
            self.found.push(Suggestion { part, change, node });
        }
        has_node
    }
}

/// Changes that help the pod, which `table` is about; `object` is the pod in the API's JSON. At most [`SUGGESTIONS`] after
/// [`SUGGESTION_TRIES`] tries. The cluster is as before afterwards.
pub fn suggest(
    cluster: &mut Reconstruction,
    registry: &Registry,
    (object, pod): (&Value, &PodInfo),
    table: &PlacementTable,
) -> Vec<Suggestion> {
    let mut search = Search { cluster, registry, tries: 0, found: Vec::new() };
    pod::try_changes(&mut search, object, table);
    cluster::try_nodes(&mut search, pod, table);
    cluster::try_removals(&mut search, pod, table);
    search.found
}

#[cfg(test)]
mod tests;
