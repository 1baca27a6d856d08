//! The NodeAffinity score: the sum of the weights of the pod's preferred terms that the node satisfies.

use crate::cache::NodeState;
use crate::pod::PodInfo;

/// The raw sum; the caller scales it over all nodes.
pub fn score(pod: &PodInfo, node: &NodeState) -> i64 {
    pod.affinity.preference(&node.info().name, &node.info().labels)
}
