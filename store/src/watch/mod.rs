//! Watching: which changes a watcher wants and how it gets them. `hub` delivers what is new, `history` what is not,
//! `watcher` is the caller's end of it.

#![expect(clippy::unimplemented, reason = "the signatures, agreed before the bodies")]

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

/// The caller's end of a watch. Dropping it ends the watch.
pub struct Watcher {}

/// Asks for progress of a watch from elsewhere. Cheap to clone.
#[derive(Clone)]
pub struct WatchHandle {}

impl Watcher {
    /// The next revision with events for this watch. None after the store was closed in order or an error was returned.
    /// Cancel safe. Also available as a `futures::Stream`.
    pub async fn next(&mut self) -> Option<Result<Batch, crate::error::WatchError>> {
        unimplemented!()
    }

    /// What is at hand without waiting: none if nothing is.
    pub fn try_next(&mut self) -> Option<Result<Batch, crate::error::WatchError>> {
        unimplemented!()
    }

    /// The store's revision when the watch began: with start zero, every later change is delivered.
    pub fn created_at(&self) -> Revision {
        unimplemented!()
    }

    /// The revision up to which everything has been taken out of this watcher, if nothing is outstanding; none while
    /// events are queued or history is being read.
    pub fn progress(&self) -> Option<Revision> {
        unimplemented!()
    }

    /// A handle to ask for progress.
    pub fn handle(&self) -> WatchHandle {
        unimplemented!()
    }
}

impl WatchHandle {
    /// Makes [`Watcher::next`] return a batch without events as soon as everything up to the store's current revision
    /// has been handed out. Requests are merged; if real events reach that revision first, they are not the answer: it
    /// still comes.
    pub fn request_progress(&self) {
        unimplemented!()
    }
}
