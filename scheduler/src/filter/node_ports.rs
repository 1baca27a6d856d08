//! NodePorts: the host ports that the pod wants are free on the node.

use crate::cache::NodeState;
use crate::event::ClusterEvent;
use crate::pod::PodInfo;
use crate::ports::any_clash;

/// What a refusal says.
pub const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

/// Whether the node may take the pod.
pub fn admits(pod: &PodInfo, node: &NodeState) -> bool {
    !any_clash(&pod.ports, node.ports())
}

/// A new node helps, and so does the departure of a pod that held a port this one wants.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(_) => true,
        ClusterEvent::NodeChanged { .. } | ClusterEvent::NodeRemoved(_) | ClusterEvent::PodPlaced(_) => false,
        ClusterEvent::PodFreed(freed) => any_clash(&pod.ports, &freed.ports),
    }
}
