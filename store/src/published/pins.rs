//! Pins of long reads of history. While a pin exists, records that compaction removes stay in the engine. So the reader
//! never misses a record, and never sees a version without its tombstone. The last pin's drop removes them.
//!
//! Compaction does not wait: index, reads and watches see its effect at once. A crash loses the list of delayed
//! removals. That is harmless: a compaction counts as done only when the list is empty, and restarts after a crash.

use crate::engine::feed::Feed;
use crate::engine::{Engine, EngineError};
use crate::types::record::RecordKey;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of pins, and the removals that they delay.
pub(crate) struct Pins {
    engine: Arc<dyn Engine>,
    /// Notified when the last pin is dropped.
    feed: Arc<Feed>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    readers: usize,
    /// Records to remove when no pin exists. Bounded by the number of records.
    delayed: VecDeque<RecordKey>,
}

/// A pin: while it lives, no record is removed from the engine.
pub(crate) struct Pin<'a> {
    pins: &'a Pins,
}

impl Pins {
    pub(crate) fn new(engine: Arc<dyn Engine>, feed: Arc<Feed>) -> Self {
        Self { engine, feed, inner: Mutex::default() }
    }

    /// Creates a pin; after the return nothing is removed. Waits for a removal in progress.
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.inner.lock().readers += 1;
        Pin { pins: self }
    }

    /// Removes records from the engine, or delays their removal until the last pin is dropped.
    pub(crate) fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError> {
        let mut inner = self.inner.lock();
        if inner.readers > 0 {
            inner.delayed.extend(keys);
            return Ok(());
        }
        self.engine.remove(keys)
    }

    /// Whether no removal is delayed.
    pub(crate) fn has_none_delayed(&self) -> bool {
        self.inner.lock().delayed.is_empty()
    }

    /// Removes the delayed records, unless a pin exists.
    pub(crate) fn remove_delayed(&self) -> Result<(), EngineError> {
        /// Records removed per lock acquisition.
        const BATCH: usize = 4_096;
        loop {
            let mut inner = self.inner.lock();
            if inner.readers > 0 || inner.delayed.is_empty() {
                return Ok(());
            }
            // From the front: a tombstone is never removed before the versions that it hides.
            let count = inner.delayed.len().min(BATCH);
            let now: Vec<_> = inner.delayed.range(..count).copied().collect();
            self.engine.remove(&now)?;
            inner.delayed.drain(..count);
        }
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.pins.inner.lock().readers -= 1;
        if let Err(error) = self.pins.remove_delayed() {
            tracing::warn!(%error, "cannot remove records; the background worker tries again");
        }
        self.pins.feed.wake();
    }
}
