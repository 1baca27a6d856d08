//! The LeastAllocated score: the mean, over CPU and memory, of the free percentage with the pod on the node.
//! Containers without requests count with a default, so that they spread too.

use crate::cache::NodeState;
use crate::limits::MAX_NODE_SCORE;
use crate::pod::PodInfo;

/// The score. A resource with zero allocatable does not count.
pub fn score(pod: &PodInfo, node: &NodeState) -> i64 {
    let (all, taken) = (&node.info().allocatable, node.nonzero());
    let parts = [
        (taken.milli_cpu + pod.nonzero.milli_cpu, i128::from(all.milli_cpu)),
        (taken.memory + pod.nonzero.memory, i128::from(all.memory)),
    ];
    let counted = parts.iter().filter(|(_, all)| *all > 0);
    let (sum, count) =
        counted.fold((0, 0), |(sum, n), (taken, all)| (sum + free_percent(*taken, *all), n + 1));
    if count == 0 { 0 } else { sum / count }
}

/// The free percentage, 0 to 100. The computation uses 128 bits: a hundred times a node's capacity may exceed
/// 64.
fn free_percent(taken: i128, all: i128) -> i64 {
    let percent = (all - taken) * i128::from(MAX_NODE_SCORE) / all;
    i64::try_from(percent.max(0)).map_or(MAX_NODE_SCORE, |percent| percent.min(MAX_NODE_SCORE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_share_of_the_largest_node_is_computed_without_overflow() {
        let all = i128::from(i64::MAX);
        assert_eq!([0, all / 2, all, 2 * all].map(|taken| free_percent(taken, all)), [100, 50, 0, 0]);
        assert_eq!([0, 3, 4, 5].map(|taken| free_percent(taken, 4)), [100, 25, 0, 0]);
    }
}
