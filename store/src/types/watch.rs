//! Watches: requests, and the batches of events that answer them. `published::hub` delivers new events, and
//! `read::watcher` is the caller's side.

use crate::types::event::Events;
use crate::{KeyRange, Revision};

/// A request to watch a range of keys from a revision on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// The keys to watch.
    pub keys: KeyRange,
    /// The first revision to deliver. Zero means the one after the current revision; a future revision is waited for.
    pub start: Revision,
    /// Whether to look up the previous version of each event, also in history.
    pub prev_kv: bool,
    /// Whether to skip puts.
    pub no_put: bool,
    /// Whether to skip deletions.
    pub no_delete: bool,
}

impl WatchRequest {
    /// Watches `keys` from the next revision on.
    pub fn new(keys: KeyRange) -> Self {
        Self { keys, start: Revision::CURRENT, prev_kv: false, no_put: false, no_delete: false }
    }

    /// Sets the first revision to deliver.
    #[must_use]
    pub fn from(self, start: Revision) -> Self {
        Self { start, ..self }
    }

    /// Requests the previous version of each event.
    #[must_use]
    pub fn with_prev_kv(self) -> Self {
        Self { prev_kv: true, ..self }
    }
}

/// All events of one revision that a watcher requested; a revision is never split. A batch without events answers
/// `request_progress`: everything up to `revision` has been returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The revision.
    pub revision: Revision,
    /// The events in the order of their operations.
    pub events: Events,
}

impl Batch {
    /// Approximate bytes that holding the batch takes.
    pub(crate) fn cost(&self) -> usize {
        self.events.iter().map(|event| event.cost()).sum()
    }
}
