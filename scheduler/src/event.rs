//! What happens in the cluster that may let a waiting pod fit. Which pods it wakes is asked of the filters that refused
//! them (`filter::may_help`); this file only names the events.

use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// A change in the cluster.
#[derive(Clone, Copy, Debug)]
pub enum ClusterEvent<'a> {
    /// A node appeared.
    NodeAdded(&'a NodeInfo),
    /// A node changed in something that scheduling looks at.
    NodeChanged {
        /// Before.
        old: &'a NodeInfo,
        /// After.
        new: &'a NodeInfo,
    },
    /// A node is gone, and with it, to the filters, whoever was on it.
    NodeRemoved(&'a NodeInfo),
    /// A pod came to a node.
    PodPlaced(&'a PodInfo),
    /// A placed pod left its node, or shrank: what it held (here: before) is free, in whole or in part.
    PodFreed(&'a PodInfo),
}
