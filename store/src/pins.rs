//! Who reads history at length. While somebody does, records that compaction removes stay in the engine, so that a reader
//! meets neither holes nor a version whose deletion is already gone; the last one to finish removes them.
//!
//! Compaction itself does not wait: index, reads and watches see its effect at once. What is held up is lost in a crash,
//! which is harmless: a compaction counts as done only when nothing is held up, and is taken up again after a restart.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::commit::RecordKey;
use crate::engine::{Engine, EngineError};
use crate::feed::Feed;

/// See the module.
pub(crate) struct Pins {
    engine: Arc<dyn Engine>,
    /// Told when the last reader has finished.
    feed: Arc<Feed>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    readers: usize,
    /// Records to be removed when nobody reads. Bounded by the number of records.
    held_up: VecDeque<RecordKey>,
}

/// Keeps every record of the engine where it is while it lives.
pub(crate) struct Pin<'a> {
    pins: &'a Pins,
}

impl Pins {
    pub(crate) fn new(engine: Arc<dyn Engine>, feed: Arc<Feed>) -> Self {
        Self { engine, feed, inner: Mutex::default() }
    }

    /// From its return on, nothing is removed. Waits for a removal that has begun.
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.inner.lock().readers += 1;
        Pin { pins: self }
    }

    /// Removes records from the engine, or lets the last reader do it.
    pub(crate) fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError> {
        let mut inner = self.inner.lock();
        if inner.readers > 0 {
            inner.held_up.extend(keys);
            return Ok(());
        }
        self.engine.remove(keys)
    }

    /// Whether everything that was to be removed is.
    pub(crate) fn is_clear(&self) -> bool {
        self.inner.lock().held_up.is_empty()
    }

    /// Removes what was held up, unless somebody reads.
    pub(crate) fn settle(&self) -> Result<(), EngineError> {
        /// Records removed per turn of the lock.
        const TURN: usize = 4_096;
        loop {
            let mut inner = self.inner.lock();
            if inner.readers > 0 || inner.held_up.is_empty() {
                return Ok(());
            }
            // From the front: a deletion never goes before the versions that it hides.
            let turn = inner.held_up.len().min(TURN);
            let now: Vec<_> = inner.held_up.range(..turn).copied().collect();
            self.engine.remove(&now)?;
            inner.held_up.drain(..turn);
        }
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.pins.inner.lock().readers -= 1;
        if let Err(error) = self.pins.settle() {
            tracing::warn!(%error, "records could not be removed; the background tries again");
        }
        self.pins.feed.nudge();
    }
}
