//! [`Backoff`]: back-off before deleting failed pods of a DaemonSet, by node. Without it, a node whose
//! kubelet rejects the pod would get new pods in a tight loop. Pure.

use crate::limits::{FAILED_DAEMON_BACKOFF, FAILED_DAEMON_BACKOFF_MAX};
use crate::view::elapsed;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

const DELAYS: kstore_nondet::Backoff =
    kstore_nondet::Backoff::doubling(FAILED_DAEMON_BACKOFF, FAILED_DAEMON_BACKOFF_MAX);

/// Time of the last deleted failed pod on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    at: Timestamp,
    /// Number of failed pods that were deleted before it.
    earlier: u32,
}

/// Failures of one generation of a DaemonSet. A new generation starts without failures, because it may
/// succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    uid: String,
    generation: i64,
    nodes: BTreeMap<String, Failure>,
}

impl Backoff {
    /// The failures that count for this generation of a set, without old ones.
    pub(crate) fn of(&self, uid: &str, generation: i64, now: Timestamp) -> Self {
        let is_same = self.uid == uid && self.generation == generation;
        let counts = |failure: &Failure| is_same && elapsed(failure.at, now) <= FAILED_DAEMON_BACKOFF_MAX * 2;
        let nodes = self.nodes.iter().filter(|(_, failure)| counts(failure));
        Self { uid: uid.into(), generation, nodes: nodes.map(|(node, f)| (node.clone(), *f)).collect() }
    }

    /// Remaining delay of a failed pod on `node`; `None` if it may be deleted now.
    pub(crate) fn wait(&self, node: &str, now: Timestamp) -> Option<Duration> {
        let failure = self.nodes.get(node)?;
        Some(DELAYS.wait(failure.earlier).saturating_sub(elapsed(failure.at, now)))
            .filter(|left| !left.is_zero())
    }

    /// Records the deletion of a failed pod on `node` and doubles the next delay.
    pub(crate) fn advance(&mut self, node: &str, now: Timestamp) {
        let earlier = self.nodes.get(node).map_or(0, |failure| failure.earlier.saturating_add(1));
        self.nodes.insert(node.into(), Failure { at: now, earlier });
    }
}
