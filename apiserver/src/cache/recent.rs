//! The newest changes of all kinds in one bounded ring, so that a watch that resumes rarely needs the storage's history.

use super::change::Change;
use crate::limits;
use std::collections::VecDeque;
use std::sync::Arc;

/// A ring of changes in revision order. Complete for every revision after [`Recent::start`].
#[derive(Debug)]
pub(super) struct Recent {
    changes: VecDeque<Arc<Change>>,
    start: i64,
    bytes: usize,
}

impl Recent {
    /// Empty; knows everything after `revision`, which is nothing yet.
    pub(super) fn starting_at(revision: i64) -> Self {
        Self { changes: VecDeque::new(), start: revision, bytes: 0 }
    }

    /// Every change after this revision is here.
    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// Appends a change; the oldest give way at the bounds.
    pub(super) fn push(&mut self, change: Arc<Change>) {
        self.bytes += change.weight();
        self.changes.push_back(change);
        while self.bytes > limits::RECENT_BYTES || self.changes.len() > limits::RECENT_CHANGES {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.bytes -= oldest.weight();
            self.start = oldest.revision;
        }
    }

    /// The changes after `revision`, in order. Complete only if `revision >= self.start()`.
    pub(super) fn after(&self, revision: i64) -> impl Iterator<Item = &Arc<Change>> {
        let from = self.changes.partition_point(|change| change.revision <= revision);
        self.changes.range(from..)
    }
}
