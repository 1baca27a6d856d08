//! [`Candidates`], the feasible nodes that plugins score, and the arithmetic that several scores share. A plugin gives each node a raw
//! number; some plugins scale the numbers over all feasible nodes; the weighted sum decides. The arithmetic equals kube-scheduler's to the
//! integer.

use crate::inventory::Inventory;
use crate::limits::MAX_NODE_SCORE;
use crate::node_state::NodeState;
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

    /// A raw score of each candidate.
    pub fn map(&self, score: impl Fn(&NodeState) -> i64) -> Vec<i64> {
        self.nodes.iter().map(|node| score(node)).collect()
    }
}

/// Scales non-negative `scores` so that the highest becomes 100. Zeros stay. Upstream's `DefaultNormalizeScore`.
pub fn scaled(mut scores: Vec<i64>) -> Vec<i64> {
    let max = scores.iter().copied().max().unwrap_or(0);
    if max > 0 {
        // The quotient fits: it is at most 100.
        let percent = |score: i64| i128::from(MAX_NODE_SCORE) * i128::from(score) / i128::from(max);
        scores.iter_mut().for_each(|score| *score = percent(*score) as i64);
    }
    scores
}

/// Reverses the scores: the lowest becomes the highest.
pub fn reversed(mut scores: Vec<i64>) -> Vec<i64> {
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
