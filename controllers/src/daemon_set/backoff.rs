//! [`Backoff`]: how long failed pods of a DaemonSet stay before they are deleted, node by node. A node whose kubelet refuses the pod would
//! otherwise be given a new one without end. Pure.

use crate::limits::{FAILED_DAEMON_BACKOFF, FAILED_DAEMON_BACKOFF_MAX};
use crate::view::elapsed;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// When a failed pod was last deleted on a node, and how long the next one stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    at: Timestamp,
    delay: Duration,
}

/// The failures of one generation of a DaemonSet. Another generation may not fail: it begins anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    uid: String,
    generation: i64,
    nodes: BTreeMap<String, Failure>,
}

impl Backoff {
    /// The failures that count for this generation of a set: none of another, and none of long ago.
    pub(crate) fn of(&self, uid: &str, generation: i64, now: Timestamp) -> Self {
        let is_same = self.uid == uid && self.generation == generation;
        let counts = |failure: &Failure| is_same && elapsed(failure.at, now) <= FAILED_DAEMON_BACKOFF_MAX * 2;
        let nodes = self.nodes.iter().filter(|(_, failure)| counts(failure));
        Self { uid: uid.into(), generation, nodes: nodes.map(|(node, f)| (node.clone(), *f)).collect() }
    }

    /// How long a failed pod on `node` is to stay; `None` if it may be deleted now.
    pub(crate) fn wait(&self, node: &str, now: Timestamp) -> Option<Duration> {
        let failure = self.nodes.get(node)?;
        Some(failure.delay.saturating_sub(elapsed(failure.at, now))).filter(|left| !left.is_zero())
    }

    /// A failed pod on `node` is deleted now: the next one stays twice as long.
    pub(crate) fn advance(&mut self, node: &str, now: Timestamp) {
        let before = self.nodes.get(node).map(|failure| failure.delay);
        let delay = before.map_or(FAILED_DAEMON_BACKOFF, |delay| (delay * 2).min(FAILED_DAEMON_BACKOFF_MAX));
        self.nodes.insert(node.into(), Failure { at: now, delay });
    }
}
