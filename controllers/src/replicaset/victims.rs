//! Order in which a ReplicaSet deletes surplus pods.
//!
//! Pods with a smaller rank are deleted first. In this order: not assigned to a node; Pending before Unknown
//! before the rest; not ready; lower deletion cost; more siblings on the same node; ready more recently; more
//! restarts; younger; uid. Ages are compared in powers of two, so that uids decide among old pods of similar
//! age, which spreads deletions.

use crate::view::{Phase, Pod, elapsed};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Active pods per node, over all sets of one owner.
pub(crate) type PodsPerNode = BTreeMap<String, usize>;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sort key of a pod for deletion.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    assigned: bool,
    phase: u8,
    ready: bool,
    cost: i32,
    neighbours: Reverse<usize>,
    ready_age: u32,
    restarts: Reverse<i32>,
    age: u32,
    uid: String,
}

/// The rank of a pod.
pub(crate) fn rank(pod: &Pod, neighbours: &PodsPerNode, now: Timestamp) -> Rank {
    let node = &pod.spec.node_name;
    let cost = pod.metadata.annotations.get(DELETION_COST).and_then(|c| c.parse().ok());
    let created = pod.metadata.creation_timestamp.as_ref().map(|t| t.0);
    Rank {
        assigned: !node.is_empty(),
        phase: match pod.status.phase {
            Phase::Pending => 0,
            Phase::Unknown => 1,
            Phase::Running | Phase::Succeeded | Phase::Failed => 2,
        },
        ready: pod.ready(),
        cost: cost.unwrap_or(0),
        neighbours: Reverse(if node.is_empty() { 0 } else { neighbours.get(node).copied().unwrap_or(0) }),
        ready_age: bucket(pod.ready_since(), now),
        restarts: Reverse(pod.status.container_statuses.iter().map(|c| c.restart_count).max().unwrap_or(0)),
        age: bucket(created, now),
        uid: pod.metadata.uid.clone(),
    }
}

/// The binary logarithm of an age in seconds, plus one; 0 without a time.
fn bucket(since: Option<Timestamp>, now: Timestamp) -> u32 {
    since.map_or(0, |since| u64::BITS - elapsed(since, now).as_secs().leading_zeros())
}
