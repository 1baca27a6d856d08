//! The scores: how good each feasible node is. Pure; one file per plugin. A plugin gives each node a raw number; some then
//! scale the numbers over all nodes that passed the filters; the weighted sum decides. All arithmetic is upstream's, to
//! the integer.

pub mod balanced_allocation;
pub mod least_allocated;
pub mod node_affinity;
pub mod taint_toleration;

use crate::cache::NodeState;
use crate::limits::MAX_NODE_SCORE;
use crate::pod::PodInfo;

/// The scoring plugins, in upstream's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scorer {
    /// Fewer `PreferNoSchedule` taints that the pod does not tolerate.
    TaintToleration,
    /// More of the pod's preferred node affinity.
    NodeAffinity,
    /// More room left (NodeResourcesFit with the strategy LeastAllocated).
    LeastAllocated,
    /// CPU and memory used in like proportion.
    BalancedAllocation,
}

impl Scorer {
    /// All of them, in order.
    pub const ALL: [Self; 4] =
        [Self::TaintToleration, Self::NodeAffinity, Self::LeastAllocated, Self::BalancedAllocation];

    /// The name that upstream's configuration and metrics use.
    pub fn name(self) -> &'static str {
        match self {
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::LeastAllocated => "NodeResourcesFit",
            Self::BalancedAllocation => "NodeResourcesBalancedAllocation",
        }
    }

    /// By how much its score counts.
    pub fn weight(self) -> i64 {
        match self {
            Self::TaintToleration => 3,
            Self::NodeAffinity => 2,
            Self::LeastAllocated | Self::BalancedAllocation => 1,
        }
    }

    /// The unweighted score, 0 to 100, of each of `nodes` for `pod`; `None` when the plugin has nothing to say of this
    /// pod and counts as zero everywhere.
    pub fn scores(self, pod: &PodInfo, nodes: &[&NodeState]) -> Option<Vec<i64>> {
        let raw =
            |score: fn(&PodInfo, &NodeState) -> i64| nodes.iter().map(|n| score(pod, n)).collect::<Vec<_>>();
        match self {
            Self::TaintToleration => Some(reversed(scaled(raw(taint_toleration::score)))),
            Self::NodeAffinity if pod.affinity.preferred.is_empty() => None,
            Self::NodeAffinity => Some(scaled(raw(node_affinity::score))),
            Self::LeastAllocated => Some(raw(least_allocated::score)),
            Self::BalancedAllocation if balanced_allocation::skips(pod) => None,
            Self::BalancedAllocation => Some(raw(balanced_allocation::score)),
        }
    }
}

/// Stretches non-negative `scores` so that the highest becomes 100; all zeros stay.
fn scaled(mut scores: Vec<i64>) -> Vec<i64> {
    let max = scores.iter().copied().max().unwrap_or(0);
    if max > 0 {
        // No more than 100 each, whatever the scores: the quotient fits.
        let percent = |score: i64| i128::from(MAX_NODE_SCORE) * i128::from(score) / i128::from(max);
        scores.iter_mut().for_each(|score| *score = percent(*score) as i64);
    }
    scores
}

/// Turns many into few.
fn reversed(mut scores: Vec<i64>) -> Vec<i64> {
    scores.iter_mut().for_each(|score| *score = MAX_NODE_SCORE - *score);
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_makes_the_highest_a_hundred_and_keeps_zeros() {
        assert_eq!(scaled(vec![1, 3, 0]), [33, 100, 0]);
        assert_eq!(scaled(vec![0, 0]), [0, 0]);
        assert_eq!(scaled(vec![i64::MAX, 0]), [100, 0]);
        assert_eq!(reversed(scaled(vec![1, 3, 0])), [67, 0, 100]);
        assert_eq!(reversed(scaled(vec![0, 0])), [100, 100]);
    }
}
