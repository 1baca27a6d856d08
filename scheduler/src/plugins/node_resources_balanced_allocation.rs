//! The plugin NodeResourcesBalancedAllocation, a score: favors nodes on which the pod brings the used shares of CPU and memory
//! closer together (the rule of 1.36, in which 75 means "no change").

use crate::event::EventSet;
use crate::limits::MAX_NODE_SCORE;
use crate::node_state::NodeState;
use crate::plugin::{ExtensionPoint, Plugin, Row};
use crate::pod::PodInfo;
use crate::score::Candidates;

/// The plugin.
pub(crate) struct NodeResourcesBalancedAllocation;

impl Plugin for NodeResourcesBalancedAllocation {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "NodeResourcesBalancedAllocation",
        points: &[ExtensionPoint::Score],
        weight: 1,
        reasons: &[],
        events: EventSet::NONE,
    };

    /// Skips a pod that requests neither CPU nor memory: it changes no balance.
    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        let has_requests = pod.requests.milli_cpu != 0 || pod.requests.memory != 0;
        has_requests.then(|| candidates.map(|node| score(pod, node)))
    }
}

/// The score, 50 to 100.
fn score(pod: &PodInfo, node: &NodeState) -> i64 {
    let (all, taken) = (&node.info().allocatable, node.requested());
    let balance = |cpu, memory| balance([(cpu, all.milli_cpu.into()), (memory, all.memory.into())]);
    let before = balance(taken.milli_cpu, taken.memory);
    let after = balance(
        taken.milli_cpu + i128::from(pod.requests.milli_cpu),
        taken.memory + i128::from(pod.requests.memory),
    );
    let half = MAX_NODE_SCORE / 2;
    half + (half + after - before) / 2
}

/// 100 minus the standard deviation of the used shares in per cent; for two shares, half their difference.
fn balance(parts: [(i128, i128); 2]) -> i64 {
    let share = |(taken, all): (i128, i128)| (all != 0).then(|| (taken as f64 / all as f64).min(1.0));
    let deviation = match parts.map(share) {
        [Some(a), Some(b)] => ((a - b) / 2.0).abs(),
        [None, _] | [_, None] => 0.0,
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_is_100_minus_half_the_difference_of_the_shares() {
        assert_eq!(balance([(1, 2), (1, 2)]), 100);
        assert_eq!(balance([(0, 2), (2, 2)]), 50);
        assert_eq!(balance([(5, 2), (0, 2)]), 50);
        assert_eq!(balance([(1, 4), (1, 2)]), 87);
        assert_eq!(balance([(1, 0), (1, 2)]), 100);
    }
}
