//! The number of feasible nodes that the search looks for. In a large cluster a look at every node costs more
//! than it gains.

use crate::limits::{MIN_FEASIBLE_NODES, MIN_PERCENTAGE_OF_NODES};

/// The number of feasible nodes to look for among `nodes`. `percentage` zero means adaptive: 50 % minus 1 %
/// per 125 nodes, but at least 5 %. At least 100, and all nodes in a smaller cluster.
pub fn wanted(nodes: usize, percentage: usize) -> usize {
    if nodes < MIN_FEASIBLE_NODES {
        return nodes;
    }
    let percentage = match percentage {
        0 => 50usize.saturating_sub(nodes / 125).max(MIN_PERCENTAGE_OF_NODES),
        given => given.min(100),
    };
    (nodes * percentage / 100).max(MIN_FEASIBLE_NODES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sampled_share_shrinks_as_the_cluster_grows() {
        let cases = [
            (0, 0, 0),
            (99, 0, 99),
            (99, 1, 99),
            (100, 0, 100),
            (1000, 0, 420),
            (5000, 0, 500),
            (6000, 0, 300),
            (20_000, 0, 1000),
            (1000, 5, 100),
            (1000, 100, 1000),
            (1000, 30, 300),
        ];
        for (nodes, percentage, expected) in cases {
            assert_eq!(wanted(nodes, percentage), expected, "{nodes} nodes, {percentage} %");
        }
    }
}
