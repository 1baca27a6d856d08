//! An engine wrapper that repairs damaged records from copies: from memory, from the log, or by correcting a single
//! flipped bit. A record without a copy is reported, and the background worker quarantines it. Reads of it fail;
//! everything else works.

use super::{
    DefragmentOutcome, Engine, EngineError, EngineSize, FindNewest, LostRecord, Repairable, Scan,
    ScrubOutcome,
};
use crate::engine::damage::DamagedRecord;
use crate::engine::feed::Feed;
use crate::types::metrics::Counter;
use crate::types::record::{Record, RecordKey};
use crate::wal::{self, WalSegments};
use crate::{KeyValue, Revision};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Lost records that are remembered and reported, so that the log is not searched again for each read of one. Reads of
/// further ones fail as well.
const REMEMBERED: usize = 4_096;

/// Healed records that are logged one by one; the metric counts all.
const LOGGED: u64 = 100;

/// The copy of a record, whole or in part, that was found in memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecalledRecord {
    /// The whole record.
    Whole(Record),
    /// Only the record's identity. Its bytes are the name: see [`LostRecord::name`].
    Named(Record),
}

/// Searches memory for copies of these records. It is slow, and called only for damaged records.
pub(crate) type Recall = dyn Fn(&BTreeSet<RecordKey>) -> BTreeMap<RecordKey, RecalledRecord> + Send + Sync;

/// The wrapped engine, the sources of copies, and the records without a copy.
pub(crate) struct HealingEngine {
    inner: Arc<dyn Repairable>,
    log: OnceLock<Arc<WalSegments>>,
    /// Finds copies in memory. Unset during recovery, and in a store in memory, whose engine is never damaged.
    recall: OnceLock<Box<Recall>>,
    /// Notified when a record is lost: the background worker quarantines it.
    feed: Arc<Feed>,
    /// Lost records. The lock is held while copies are searched, so that several readers of one record search once.
    lost: Mutex<LostRecords>,
    /// A repair was made that a crash would undo.
    unsealed: AtomicBool,
    /// Number of repaired records.
    pub(crate) healed: Counter,
}

/// Records without a copy.
#[derive(Default)]
struct LostRecords {
    known: BTreeMap<RecordKey, DamagedRecord>,
    /// Records that the background worker has not handled.
    fresh: BTreeSet<RecordKey>,
}

impl HealingEngine {
    pub(crate) fn new(inner: Arc<dyn Repairable>, feed: Arc<Feed>) -> Self {
        let quarantined = inner.quarantined().into_iter().take(REMEMBERED);
        let known = quarantined.map(|lost| (lost.key, DamagedRecord::of(&lost))).collect();
        let healed = Counter::default();
        healed.add(inner.repaired());
        Self {
            inner,
            log: OnceLock::new(),
            recall: OnceLock::new(),
            feed,
            lost: Mutex::new(LostRecords { known, fresh: BTreeSet::new() }),
            unsealed: AtomicBool::new(false),
            healed,
        }
    }

    /// Sets the log, in which copies are searched.
    pub(crate) fn set_log(&self, segments: Arc<WalSegments>) {
        self.log.set(segments).expect("a store has one log");
    }

    /// Sets how copies are found in memory.
    pub(crate) fn set_recall(&self, recall: Box<Recall>) {
        assert!(self.recall.set(recall).is_ok(), "a store has one published state");
    }

    /// Sets how the newest versions of keys are found.
    pub(crate) fn set_newest(&self, newest: Box<FindNewest>) {
        self.inner.set_newest(newest);
    }

    /// The lost records that compaction has not removed, by revision.
    pub(crate) fn damage(&self) -> Vec<DamagedRecord> {
        self.lost.lock().known.values().cloned().collect()
    }

    /// The lost records that compaction has not removed, with their record keys.
    pub(crate) fn lost(&self) -> BTreeMap<RecordKey, DamagedRecord> {
        self.lost.lock().known.clone()
    }

    /// Number of lost records that compaction has not removed.
    pub(crate) fn damaged(&self) -> u64 {
        self.lost.lock().known.len() as u64
    }

    /// Takes the flag that a repair was made since the last call.
    pub(crate) fn take_unsealed(&self) -> bool {
        self.unsealed.swap(false, Ordering::AcqRel)
    }

    /// Copies of damaged records, and the names of the records without a copy that memory knows.
    fn copies(
        &self,
        keys: &BTreeSet<RecordKey>,
    ) -> (BTreeMap<RecordKey, Record>, BTreeMap<RecordKey, Record>) {
        let (mut copies, mut names) = (BTreeMap::new(), BTreeMap::new());
        let recalled = self.recall.get().map(|recall| recall(keys)).unwrap_or_default();
        for (key, known) in recalled {
            match known {
                RecalledRecord::Whole(record) => copies.insert(key, record),
                RecalledRecord::Named(record) => names.insert(key, record),
            };
        }
        let missing: BTreeSet<_> = keys.iter().filter(|key| !copies.contains_key(key)).copied().collect();
        if let Some(log) = self.log.get().filter(|_| !missing.is_empty()) {
            copies.extend(wal::find(log, &missing));
        }
        for key in missing {
            if !copies.contains_key(&key)
                && let Ok(Some(record)) = self.inner.correct(key)
            {
                copies.insert(key, record);
            }
        }
        (copies, names)
    }

    fn was_healed(&self, key: RecordKey) {
        self.healed.add(1);
        if self.healed.get() <= LOGGED {
            tracing::warn!(revision = key.main.0, "repaired a damaged history record from a copy");
        }
    }

    /// Reports a lost record, once.
    fn report(&self, lost: &mut LostRecords, key: RecordKey, name: Option<&Record>) {
        if lost.known.contains_key(&key) || lost.known.len() >= REMEMBERED {
            return;
        }
        let (file, offset) = self.inner.locate(key).unwrap_or((PathBuf::new(), 0));
        let name = name.map(|record| record.bytes.clone()).unwrap_or_default();
        let record = DamagedRecord::of(&LostRecord { key, name, file, offset });
        tracing::error!(%record, "a history record is damaged and has no intact copy: reads of it fail");
        lost.known.insert(key, record);
    }

    /// Finds a copy of a damaged record and repairs the record with it. Fails with the damage if there is no copy.
    /// Callable from any thread.
    fn heal(&self, key: RecordKey) -> Result<Record, EngineError> {
        let mut lost = self.lost.lock();
        if lost.known.contains_key(&key) {
            return Err(EngineError::Damaged(key));
        }
        let (mut copies, names) = self.copies(&BTreeSet::from([key]));
        let Some(record) = copies.remove(&key) else {
            self.report(&mut lost, key, names.get(&key));
            lost.fresh.insert(key);
            drop(lost);
            self.feed.wake();
            return Err(EngineError::Damaged(key));
        };
        match self.inner.repair(&record) {
            Ok(()) => self.was_healed(key),
            // It cannot be written in its place: the background worker writes it to another one.
            Err(EngineError::Damaged(_)) => {
                lost.fresh.insert(key);
                drop(lost);
                self.feed.wake();
            }
            Err(error) => {
                tracing::warn!(%error, revision = key.main.0, "cannot repair a damaged history record on disk");
            }
        }
        Ok(record)
    }

    /// Quarantines the lost records that readers found. Returns whether that was possible for all. Called from the
    /// thread that feeds the engine.
    pub(crate) fn confine(&self) -> Result<bool, EngineError> {
        let fresh = std::mem::take(&mut self.lost.lock().fresh);
        if fresh.is_empty() {
            return Ok(true);
        }
        self.replace(&fresh).inspect_err(|_| self.lost.lock().fresh.extend(fresh))
    }

    /// Replaces damaged records in the engine by their copies or by stand-ins. Returns whether that was possible for
    /// all.
    fn replace(&self, keys: &BTreeSet<RecordKey>) -> Result<bool, EngineError> {
        let (copies, names) = self.copies(keys);
        let mut confined = true;
        for key in keys {
            if let Some(record) = copies.get(key) {
                self.inner.rewrite(record)?;
                self.was_healed(*key);
                self.lost.lock().known.remove(key);
                continue;
            }
            self.report(&mut self.lost.lock(), *key, names.get(key));
            match names.get(key) {
                Some(name) => confined &= self.inner.quarantine(name)?,
                None => self.inner.skip_damaged(*key),
            }
        }
        self.unsealed.store(true, Ordering::Release);
        Ok(confined)
    }
}

impl Engine for HealingEngine {
    fn put(&self, records: &[Record]) -> Result<(), EngineError> {
        self.inner.put(records)
    }

    fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError> {
        self.inner.remove(keys)?;
        let mut lost = self.lost.lock();
        if !lost.known.is_empty() {
            keys.iter().for_each(|key| drop(lost.known.remove(key)));
        }
        Ok(())
    }

    fn get(&self, key: RecordKey) -> Result<Option<Bytes>, EngineError> {
        match self.inner.get(key) {
            Err(EngineError::Damaged(key)) => self.heal(key).map(|record| Some(record.bytes)),
            other => other,
        }
    }

    fn scan(&self, from: Revision, to: Revision, budget: usize) -> Result<Scan, EngineError> {
        self.scan_without(from, to, budget, &BTreeSet::new())
    }

    fn scan_without(
        &self,
        from: Revision,
        to: Revision,
        budget: usize,
        left_out: &BTreeSet<RecordKey>,
    ) -> Result<Scan, EngineError> {
        let mut last = None;
        loop {
            match self.inner.scan_without(from, to, budget, left_out) {
                // The record is damaged again after its repair: it cannot be repaired.
                Err(EngineError::Damaged(key)) if last != Some(key) => {
                    self.heal(key)?;
                    last = Some(key);
                }
                other => return other,
            }
        }
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

    /// Repairs damage that blocks the step, so that it blocks no later one.
    fn defragment(&self) -> Result<DefragmentOutcome, EngineError> {
        match self.inner.defragment()? {
            DefragmentOutcome::Damaged(keys) => {
                let keys: BTreeSet<_> = keys.into_iter().collect();
                if self.replace(&keys)? {
                    Ok(DefragmentOutcome::More)
                } else {
                    Ok(DefragmentOutcome::Damaged(keys.into_iter().collect()))
                }
            }
            other => Ok(other),
        }
    }

    fn pack(&self) -> Result<u64, EngineError> {
        self.inner.pack()
    }

    fn scrub(&self, bytes: u64) -> Result<ScrubOutcome, EngineError> {
        self.inner.scrub(bytes)
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

impl DamagedRecord {
    fn of(lost: &LostRecord) -> Self {
        let kv = KeyValue::decode(lost.name.clone()).filter(|kv| !kv.key().is_empty());
        Self {
            key: kv.map(|kv| kv.key_bytes()),
            revision: lost.key.main,
            is_note: lost.key.is_note(),
            file: lost.file.clone(),
            offset: lost.offset,
        }
    }
}
