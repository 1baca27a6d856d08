//! [`Cache`]: the current objects and an undo log of recent changes. The undo log shares its batches with the
//! subscribers and is bounded in number and in age.

use crate::Revision;
use crate::cache::indexer::{Batch, Indexer};
use crate::limits::{UNDO_AGE, UNDO_CHANGES};
use crate::reflector::CacheUpdate;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// The number of the newest complete state that replaced the state of a cache in this process.
static COMPLETE_STATES: AtomicU64 = AtomicU64::new(0);

/// Number of a complete state that replaced the state of a cache. Numbers rise over all caches of the process, so that a number is also a
/// point in time: a cache whose state has a higher number was replaced later. Zero is before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StateNumber(u64);

impl StateNumber {
    /// The newest number of any cache.
    pub(crate) fn newest() -> Self {
        Self(COMPLETE_STATES.load(Ordering::SeqCst))
    }

    fn next() -> Self {
        Self(COMPLETE_STATES.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

/// Cached objects of an informer, with an undo log that reconstructs recent revisions.
pub(crate) struct Cache {
    now: Arc<Indexer>,
    undo: VecDeque<(Instant, Arc<Batch>)>,
    /// Number of changes in `undo`.
    len: usize,
    /// The oldest revision that the undo log reaches.
    floor: Revision,
    /// The number of the newest complete state that replaced this cache.
    replaced: StateNumber,
}

/// Why the cache cannot provide a view at a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The cache has not reached the revision: wait for it with [`crate::Informer::wait_for`].
    #[error("the cache is at revision {0} and has not reached the requested one")]
    NotYet(Revision),
    /// The undo log does not reach the revision any more. Take a view of a later revision.
    #[error("the revision is too old: the oldest available one is {0}")]
    TooOld(Revision),
}

impl Cache {
    pub(crate) fn new(now: Indexer) -> Self {
        let floor = now.revision();
        Self { now: Arc::new(now), undo: VecDeque::new(), len: 0, floor, replaced: StateNumber::default() }
    }

    pub(crate) fn now(&self) -> &Arc<Indexer> {
        &self.now
    }

    /// The number of the newest complete state that replaced this cache. Changes only together with the state.
    pub(crate) fn replaced(&self) -> StateNumber {
        self.replaced
    }

    /// Applies the next state or batch. `time` is used only to age the undo log.
    pub(crate) fn apply(&mut self, apply: CacheUpdate, time: Instant) -> Arc<Batch> {
        // If a view holds the state, this copies the roots; the writes copy only the nodes that they change.
        let now = Arc::make_mut(&mut self.now);
        match apply {
            CacheUpdate::Replace(whole) => {
                let batch = Arc::new(now.replace(whole));
                self.replaced = StateNumber::next();
                self.forget_all();
                batch
            }
            CacheUpdate::Frames(frames) => {
                let batch = Arc::new(now.apply(frames));
                self.remember(batch.clone(), time);
                batch
            }
        }
    }

    /// Empties the undo log: the changes that led to a replaced state are unknown.
    fn forget_all(&mut self) {
        self.undo = VecDeque::new();
        self.len = 0;
        self.floor = self.now.revision();
    }

    fn remember(&mut self, batch: Arc<Batch>, time: Instant) {
        self.forget_old(time);
        if batch.changes.is_empty() {
            return;
        }
        self.len += batch.changes.len();
        self.undo.push_back((time, batch));
        while self.len > UNDO_CHANGES {
            self.forget_oldest();
        }
    }

    /// Removes batches older than the limit at `time`.
    pub(crate) fn forget_old(&mut self, time: Instant) {
        while self.undo.front().is_some_and(|(at, _)| time - *at > UNDO_AGE) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, batch)) = self.undo.pop_front() else { return };
        self.len -= batch.changes.len();
        self.floor = batch.revision;
    }

    /// The state at a revision, as the current state and the later batches to undo, newest first.
    pub(crate) fn at(&self, revision: Revision) -> Result<PastState, ViewError> {
        if revision > self.now.revision() {
            return Err(ViewError::NotYet(self.now.revision()));
        }
        if revision < self.floor {
            return Err(ViewError::TooOld(self.floor));
        }
        let later = self.undo.iter().rev().map(|(_, batch)| batch).take_while(|b| b.revision > revision);
        Ok(PastState { now: self.now.clone(), later: later.cloned().collect(), revision })
    }

    /// Number of changes in the undo log.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.len
    }
}

/// A past state that is not reconstructed yet.
pub(crate) struct PastState {
    now: Arc<Indexer>,
    later: Vec<Arc<Batch>>,
    revision: Revision,
}

impl PastState {
    /// Undoes the later changes and returns the past state. The cost is proportional to the number of these
    /// changes.
    pub(crate) fn make(mut self) -> Arc<Indexer> {
        if self.revision == self.now.revision() {
            return self.now;
        }
        let state = Arc::make_mut(&mut self.now);
        let changes = self.later.iter().flat_map(|batch| batch.changes.iter().rev());
        changes.filter(|change| change.revision > self.revision).for_each(|change| state.undo(change));
        state.rewind(self.revision);
        self.now
    }
}
