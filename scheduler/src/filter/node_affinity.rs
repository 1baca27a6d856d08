//! NodeAffinity: the node satisfies `spec.nodeSelector` and one of the required affinity terms.

use crate::event::ClusterEvent;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// The reason of a refusal.
pub const REASON: &str = "node(s) didn't match Pod's node affinity/selector";

/// The reason for all nodes if the terms name nodes and contradict each other.
pub const CONFLICT: &str = "pod affinity terms conflict";

/// The reason for each node that was left out because the terms name others.
pub const NOT_NAMED: &str = "node(s) didn't satisfy plugin(s) [NodeAffinity]";

/// Whether the node may take the pod.
pub fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.affinity.admits(&node.name, &node.labels)
}

/// A matching node helps if it is new or did not match before.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(node) => admits(pod, node),
        ClusterEvent::NodeChanged { old, new } => !admits(pod, old) && admits(pod, new),
        ClusterEvent::NodeRemoved(_) | ClusterEvent::PodPlaced(_) | ClusterEvent::PodFreed(_) => false,
    }
}
