//! Cluster events that may make a waiting pod schedulable. The filters that refused a pod decide whether an
//! event wakes it (`filter::may_help`); this file only names the events.

use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// A change in the cluster.
#[derive(Clone, Copy, Debug)]
pub enum ClusterEvent<'a> {
    /// A new node.
    NodeAdded(&'a NodeInfo),
    /// A node changed in a property that scheduling reads.
    NodeChanged {
        /// The node before.
        old: &'a NodeInfo,
        /// The node after.
        new: &'a NodeInfo,
    },
    /// A deleted node. The filters count its pods as removed with it.
    NodeRemoved(&'a NodeInfo),
    /// A pod was assigned to a node.
    PodPlaced(&'a PodInfo),
    /// An assigned pod left its node or now requests less. The pod as it was: its resources are free in whole
    /// or in part.
    PodFreed(&'a PodInfo),
}
