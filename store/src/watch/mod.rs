//! Watching: which changes a watcher wants and how it gets them. `hub` delivers what is new, `history` what is not,
//! `watcher` is the caller's end of it.

mod history;
pub(crate) mod hub;
mod interests;
mod intervals;
mod slot;
mod watcher;

pub use watcher::{WatchHandle, Watcher};

use crate::event::Events;
use crate::{KeyRange, Revision};

/// What to watch, and from when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// Which keys.
    pub keys: KeyRange,
    /// The first revision to see; zero is the one after the current. One in the future is waited for.
    pub start: Revision,
    /// Look up the version before each event, also in history.
    pub prev_kv: bool,
    /// Leave puts out.
    pub no_put: bool,
    /// Leave deletions out.
    pub no_delete: bool,
}

impl WatchRequest {
    /// Everything that happens to `keys` after now.
    pub fn new(keys: KeyRange) -> Self {
        Self { keys, start: Revision::CURRENT, prev_kv: false, no_put: false, no_delete: false }
    }

    /// The same from `start` on.
    #[must_use]
    pub fn from(self, start: Revision) -> Self {
        Self { start, ..self }
    }

    /// The same with the version before each event.
    #[must_use]
    pub fn with_prev_kv(self) -> Self {
        Self { prev_kv: true, ..self }
    }
}

/// All events of one revision that a watcher wants; never a part of them. Without events it is an answer to
/// `request_progress`: everything up to `revision` has been handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The revision.
    pub revision: Revision,
    /// Its events, in the order of their operations.
    pub events: Events,
}

impl Batch {
    /// Roughly what holding it costs.
    pub(crate) fn cost(&self) -> usize {
        self.events.iter().map(|event| event.cost()).sum()
    }
}
