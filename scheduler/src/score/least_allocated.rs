//! LeastAllocated: the mean, over CPU and memory, of the per cent left free once the pod is there. Counts containers
//! without requests as if they asked for a little, so that they spread too.

use crate::cache::NodeState;
use crate::limits::MAX_NODE_SCORE;
use crate::pod::PodInfo;

/// The score; a resource of which the node has none does not count.
pub fn score(pod: &PodInfo, node: &NodeState) -> i64 {
    let (all, taken) = (&node.info().allocatable, node.nonzero());
    let parts = [
        (taken.milli_cpu + pod.nonzero.milli_cpu, all.milli_cpu),
        (taken.memory + pod.nonzero.memory, all.memory),
    ];
    let counted = parts.iter().filter(|(_, all)| *all > 0);
    let (sum, count) =
        counted.fold((0, 0), |(sum, n), (taken, all)| (sum + free_percent(*taken, *all), n + 1));
    if count == 0 { 0 } else { sum / count }
}

fn free_percent(taken: i64, all: i64) -> i64 {
    if taken > all { 0 } else { (all - taken) * MAX_NODE_SCORE / all }
}
