//! An engine whose damaged records are taken from the log, as long as that has a copy, and put right. What cannot be healed
//! is not served; whoever waits on [`Healing::lost`] learns of it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Engine, EngineError, EngineSize, Record, Scan};
use crate::Revision;
use crate::commit::RecordKey;
use crate::wal::{self, Segments};

/// Records that are remembered as lost, so that the log is not searched again for each read of one.
const REMEMBERED: usize = 4_096;

/// See the module.
pub(crate) struct Healing {
    inner: Arc<dyn Engine>,
    log: OnceLock<Arc<Segments>>,
    /// Locked while the log is searched: once, not once per reader.
    known_lost: Mutex<BTreeSet<RecordKey>>,
    /// A record was asked for that no copy is left of.
    pub(crate) lost: Notify,
}

impl Healing {
    pub(crate) fn new(inner: Arc<dyn Engine>) -> Self {
        Self { inner, log: OnceLock::new(), known_lost: Mutex::default(), lost: Notify::new() }
    }

    /// Where copies are.
    pub(crate) fn set_log(&self, segments: Arc<Segments>) {
        self.log.set(segments).expect("a store has one log");
    }

    /// The log's copy of a damaged record, which then takes its place; the damage if there is none.
    fn heal(&self, key: RecordKey) -> Result<Record, EngineError> {
        let mut known_lost = self.known_lost.lock();
        let known = known_lost.contains(&key);
        let copy = self.log.get().filter(|_| !known).and_then(|log| wal::find(log, key));
        let Some(record) = copy else {
            tracing::error!(revision = key.main.0, "a record is damaged, and the log has no copy of it");
            if known_lost.len() < REMEMBERED {
                known_lost.insert(key);
            }
            self.lost.notify_one();
            return Err(EngineError::Damaged(key));
        };
        match self.inner.repair(&record) {
            Ok(()) => tracing::warn!(revision = key.main.0, "a damaged record was healed from the log"),
            Err(error) => tracing::warn!(%error, revision = key.main.0, "a damaged record stays as it is"),
        }
        Ok(record)
    }
}

impl Engine for Healing {
    fn put(&self, records: &[Record]) -> Result<(), EngineError> {
        self.inner.put(records)
    }

    fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError> {
        self.inner.remove(keys)
    }

    fn get(&self, key: RecordKey) -> Result<Option<Bytes>, EngineError> {
        match self.inner.get(key) {
            Err(EngineError::Damaged(key)) => self.heal(key).map(|record| Some(record.bytes)),
            other => other,
        }
    }

    fn scan(&self, from: Revision, to: Revision, budget: usize) -> Result<Scan, EngineError> {
        let mut last = None;
        loop {
            match self.inner.scan(from, to, budget) {
                // Damaged again although it was put right: it cannot be.
                Err(EngineError::Damaged(key)) if last != Some(key) => {
                    self.heal(key)?;
                    last = Some(key);
                }
                other => return other,
            }
        }
    }

    fn repair(&self, record: &Record) -> Result<(), EngineError> {
        self.inner.repair(record)
    }

    fn notes_below(&self, below: Revision) -> Result<Vec<Revision>, EngineError> {
        self.inner.notes_below(below)
    }

    fn newest(&self) -> Result<Option<Revision>, EngineError> {
        self.inner.newest()
    }

    fn seal(&self) -> Result<Bytes, EngineError> {
        self.inner.seal()
    }

    fn sealed(&self) -> Result<(), EngineError> {
        self.inner.sealed()
    }

    fn tidy(&self) -> Result<bool, EngineError> {
        self.inner.tidy()
    }

    fn retired(&self) -> u64 {
        self.inner.retired()
    }

    fn size(&self) -> EngineSize {
        self.inner.size()
    }

    fn close(&self) {
        self.inner.close();
    }
}
