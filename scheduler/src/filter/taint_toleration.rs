//! The TaintToleration filter: the pod must tolerate every NoSchedule and NoExecute taint of the node.

use crate::event::ClusterEvent;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::taint::{Effect, tolerated};

/// The reason of a refusal (1.35 and later; older versions printed the taint).
pub const REASON: &str = "node(s) had untolerated taint(s)";

/// Whether the node may take the pod.
pub fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    let keeps_away = |effect| matches!(effect, Effect::NoSchedule | Effect::NoExecute);
    node.taints
        .iter()
        .filter(|taint| keeps_away(taint.effect))
        .all(|taint| tolerated(taint, &pod.tolerations))
}

/// A node helps if the pod tolerates all its taints and the node is new or had an untolerated taint before.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(node) => admits(pod, node),
        ClusterEvent::NodeChanged { old, new } => !admits(pod, old) && admits(pod, new),
        ClusterEvent::NodeRemoved(_) | ClusterEvent::PodPlaced(_) | ClusterEvent::PodFreed(_) => false,
    }
}
