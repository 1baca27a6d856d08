//! The NodeUnschedulable filter: a cordoned node takes only pods that tolerate the cordon's taint.

use crate::event::ClusterEvent;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::taint::{Effect, Taint, tolerated};

/// The reason of a refusal.
pub const REASON: &str = "node(s) were unschedulable";

const CORDON_KEY: &str = "node.kubernetes.io/unschedulable";

/// Whether the node may take the pod.
pub fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    if !node.unschedulable {
        return true;
    }
    let cordon = Taint { key: CORDON_KEY.to_owned(), value: String::new(), effect: Effect::NoSchedule };
    tolerated(&cordon, &pod.tolerations)
}

/// A node that is not cordoned helps if it is new or was cordoned.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(node) => admits(pod, node),
        ClusterEvent::NodeChanged { old, new } => !admits(pod, old) && admits(pod, new),
        ClusterEvent::NodeRemoved(_) | ClusterEvent::PodPlaced(_) | ClusterEvent::PodFreed(_) => false,
    }
}
