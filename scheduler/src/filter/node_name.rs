//! The NodeName filter: a pod that names its node runs there or not at all. Such a pod normally bypasses the
//! scheduler.

use crate::event::ClusterEvent;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// The reason of a refusal.
pub const REASON: &str = "node(s) didn't match the requested node name";

/// Whether the node may take the pod.
pub fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.node_name.as_ref().is_none_or(|name| *name == node.name)
}

/// Only a new node of that name helps.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(node) => admits(pod, node),
        ClusterEvent::NodeChanged { .. }
        | ClusterEvent::NodeRemoved(_)
        | ClusterEvent::PodPlaced(_)
        | ClusterEvent::PodFreed(_) => false,
    }
}
