//! [`Cache`]: the objects now, and the way back to what they were. The undo log holds the newest batches of changes, which the
//! subscribers share; a bounded number for a bounded time.

use std::{collections::VecDeque, sync::Arc};

use tokio::time::Instant;

use crate::{
    Object, Revision,
    indexer::{Batch, Indexer},
    limits::{UNDO_AGE, UNDO_CHANGES},
    reflector::Apply,
};

/// See the module.
pub(crate) struct Cache<T> {
    now: Arc<Indexer<T>>,
    undo: VecDeque<(Instant, Arc<Batch<T>>)>,
    /// Changes in `undo`.
    len: usize,
    /// The oldest revision that can be gone back to.
    floor: Revision,
}

/// Why there is no view at a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The cache has not seen the revision yet: wait for it with [`crate::Informer::wait_for`].
    #[error("the cache is at revision {0} and has not seen the one asked for")]
    NotYet(Revision),
    /// The way back is forgotten. Take a view of a later revision.
    #[error("the cache can go back to revision {0} only")]
    TooOld(Revision),
}

impl<T: Object> Cache<T> {
    pub(crate) fn new(now: Indexer<T>) -> Self {
        let floor = now.revision();
        Self { now: Arc::new(now), undo: VecDeque::new(), len: 0, floor }
    }

    pub(crate) fn now(&self) -> &Arc<Indexer<T>> {
        &self.now
    }

    /// Moves to the next state. `time` is only compared with earlier ones.
    pub(crate) fn apply(&mut self, apply: Apply<T>, time: Instant) -> Arc<Batch<T>> {
        // A view holds the state as it is; then this copies its roots, and the writes what they touch.
        let now = Arc::make_mut(&mut self.now);
        match apply {
            Apply::Replace(whole) => {
                let batch = Arc::new(now.replace(whole));
                self.forget_all();
                batch
            }
            Apply::Frames(frames) => {
                let batch = Arc::new(now.apply(frames));
                self.remember(batch.clone(), time);
                batch
            }
        }
    }

    /// What led to a replaced state is not known: the way back ends here.
    fn forget_all(&mut self) {
        self.undo = VecDeque::new();
        self.len = 0;
        self.floor = self.now.revision();
    }

    fn remember(&mut self, batch: Arc<Batch<T>>, time: Instant) {
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

    /// Forgets what is too old at `time`.
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

    /// The state at a revision: the one now, and what has to be taken back from it, newest first.
    pub(crate) fn at(&self, revision: Revision) -> Result<Past<T>, ViewError> {
        if revision > self.now.revision() {
            return Err(ViewError::NotYet(self.now.revision()));
        }
        if revision < self.floor {
            return Err(ViewError::TooOld(self.floor));
        }
        let later = self.undo.iter().rev().map(|(_, batch)| batch).take_while(|b| b.revision > revision);
        Ok(Past { now: self.now.clone(), later: later.cloned().collect(), revision })
    }

    /// Changes that could be taken back.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.len
    }
}

/// A state that is not yet made.
pub(crate) struct Past<T> {
    now: Arc<Indexer<T>>,
    later: Vec<Arc<Batch<T>>>,
    revision: Revision,
}

impl<T: Object> Past<T> {
    /// Takes back what came later. Costs what lies between.
    pub(crate) fn make(mut self) -> Arc<Indexer<T>> {
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
