//! The NodePorts filter: the pod's host ports are free on the node.

use crate::cache::NodeState;
use crate::event::ClusterEvent;
use crate::pod::PodInfo;
use crate::ports::any_conflict;

/// The reason of a refusal.
pub const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

/// Whether the node may take the pod.
pub fn admits(pod: &PodInfo, node: &NodeState) -> bool {
    !any_conflict(&pod.ports, node.ports())
}

/// A new node helps, and so does the removal of a pod whose port conflicts with one of this pod.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(_) => true,
        ClusterEvent::NodeChanged { .. } | ClusterEvent::NodeRemoved(_) | ClusterEvent::PodPlaced(_) => false,
        ClusterEvent::PodFreed(freed) => any_conflict(&pod.ports, &freed.ports),
    }
}
