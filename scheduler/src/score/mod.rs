//! The scores of feasible nodes. Pure; one file per plugin. A plugin gives each node a raw number; some
//! plugins scale the numbers over all feasible nodes; the weighted sum decides. The arithmetic equals
//! kube-scheduler's to the integer.

pub mod balanced_allocation;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod least_allocated;
pub mod node_affinity;
pub mod pod_topology_spread;
pub mod taint_toleration;

use crate::cache::NodeState;
use crate::inventory::Inventory;
use crate::limits::MAX_NODE_SCORE;
use crate::pod::PodInfo;
use crate::snapshot::Snapshot;

/// The feasible nodes to score, within their cluster.
pub struct Candidates<'a> {
    /// All nodes.
    pub snapshot: &'a Snapshot,
    /// The objects besides nodes.
    pub inventory: &'a Inventory,
    /// The feasible nodes.
    pub nodes: Vec<&'a NodeState>,
}

impl<'a> Candidates<'a> {
    /// The nodes at these indices of the snapshot.
    pub fn new(snapshot: &'a Snapshot, inventory: &'a Inventory, slots: &[usize]) -> Self {
        let nodes = slots.iter().map(|slot| &snapshot.nodes()[*slot]).collect();
        Self { snapshot, inventory, nodes }
    }
}

/// The scoring plugins in kube-scheduler's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scorer {
    /// Fewer `PreferNoSchedule` taints without a toleration score higher.
    TaintToleration,
    /// More preferred node affinity scores higher.
    NodeAffinity,
    /// More free resources score higher (NodeResourcesFit with the strategy LeastAllocated).
    LeastAllocated,
    /// Fewer matching pods in the node's topology domains score higher.
    PodTopologySpread,
    /// Pods that the pod prefers, or that prefer it, in the node's topology domains score higher.
    InterPodAffinity,
    /// Similar shares of used CPU and memory score higher.
    BalancedAllocation,
    /// More of the pod's images on the node score higher.
    ImageLocality,
}

impl Scorer {
    /// All plugins in order.
    pub const ALL: [Self; 7] = [
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::LeastAllocated,
        Self::PodTopologySpread,
        Self::InterPodAffinity,
        Self::BalancedAllocation,
        Self::ImageLocality,
    ];

    /// The plugin's name in kube-scheduler's configuration and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::LeastAllocated => "NodeResourcesFit",
            Self::PodTopologySpread => "PodTopologySpread",
            Self::InterPodAffinity => "InterPodAffinity",
            Self::BalancedAllocation => "NodeResourcesBalancedAllocation",
            Self::ImageLocality => "ImageLocality",
        }
    }

    /// The weight of the plugin's score.
    pub fn weight(self) -> i64 {
        match self {
            Self::TaintToleration => 3,
            Self::NodeAffinity | Self::PodTopologySpread | Self::InterPodAffinity => 2,
            Self::LeastAllocated | Self::BalancedAllocation | Self::ImageLocality => 1,
        }
    }

    /// The unweighted score, 0 to 100, of each of the candidates for `pod`. `None` if the plugin skips the pod; it
    /// counts as zero for every node then.
    pub fn scores(self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        let nodes = &candidates.nodes;
        let raw =
            |score: fn(&PodInfo, &NodeState) -> i64| nodes.iter().map(|n| score(pod, n)).collect::<Vec<_>>();
        match self {
            Self::TaintToleration => Some(reversed(scaled(raw(taint_toleration::score)))),
            Self::NodeAffinity if pod.affinity.preferred.is_empty() => None,
            Self::NodeAffinity => Some(scaled(raw(node_affinity::score))),
            Self::LeastAllocated => Some(raw(least_allocated::score)),
            Self::PodTopologySpread => pod_topology_spread::scores(pod, candidates),
            Self::InterPodAffinity => inter_pod_affinity::scores(pod, candidates),
            Self::ImageLocality => image_locality::scores(pod, candidates),
            Self::BalancedAllocation if balanced_allocation::skips(pod) => None,
            Self::BalancedAllocation => Some(raw(balanced_allocation::score)),
        }
    }
}

/// Scales non-negative `scores` so that the highest becomes 100. Zeros stay.
fn scaled(mut scores: Vec<i64>) -> Vec<i64> {
    let max = scores.iter().copied().max().unwrap_or(0);
    if max > 0 {
        // The quotient fits: it is at most 100.
        let percent = |score: i64| i128::from(MAX_NODE_SCORE) * i128::from(score) / i128::from(max);
        scores.iter_mut().for_each(|score| *score = percent(*score) as i64);
    }
    scores
}

/// Reverses the scores: the lowest becomes the highest.
fn reversed(mut scores: Vec<i64>) -> Vec<i64> {
    scores.iter_mut().for_each(|score| *score = MAX_NODE_SCORE - *score);
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_makes_the_highest_score_100_and_keeps_zeros() {
        assert_eq!(scaled(vec![1, 3, 0]), [33, 100, 0]);
        assert_eq!(scaled(vec![0, 0]), [0, 0]);
        assert_eq!(scaled(vec![i64::MAX, 0]), [100, 0]);
        assert_eq!(reversed(scaled(vec![1, 3, 0])), [67, 0, 100]);
        assert_eq!(reversed(scaled(vec![0, 0])), [100, 100]);
    }
}
