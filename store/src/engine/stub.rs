//! A stub engine for tests that exhausts what the interface permits. After a crash it has lost any suffix of what was
//! not sealed, and with `lies` also its last seal. It may refuse to open, and a record may have a flipped bit. Like
//! real engines, it knows its newest revision and checks what it reads. It replaces `sled`, which cannot run on a
//! simulated disk.

use super::{DefragmentOutcome, Engine, EngineError, EngineSize, Repairable, Scan};
use crate::Revision;
use crate::disk::Disk;
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::types::record::{Record, RecordKey};
use bytes::Bytes;
use kstore_nondet::Rng;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

/// The storage of a stub engine over restarts. Clones share the same storage.
#[derive(Clone, Debug)]
pub(crate) struct StubStorage(Arc<Mutex<StubMedium>>);

/// The faults of a stub engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StubFaults {
    /// A crash may also lose the last seal.
    pub(crate) lies: bool,
    /// The engine does not open.
    pub(crate) refuses_to_open: bool,
}

#[derive(Clone, Debug)]
struct StubMedium {
    /// The simulated disk, which counts and fails the engine's operations with all others.
    disk: SimDisk,
    malice: StubFaults,
    /// Every operation since the beginning.
    log: Vec<StubOp>,
    /// Number of operations that survived a crash: they are on disk, and stay.
    settled: usize,
    /// The state after all operations.
    now: StubState,
    /// The record whose bytes are corrupted.
    flipped: Option<RecordKey>,
}

#[derive(Clone, Debug)]
enum StubOp {
    Put(Vec<Record>),
    Remove(Vec<RecordKey>),
    Seal,
}

#[derive(Clone, Debug, Default)]
struct StubState {
    records: BTreeMap<RecordKey, Record>,
    seals: u64,
}

impl StubState {
    fn apply(&mut self, done: &StubOp) {
        match done {
            StubOp::Put(records) => {
                self.records.extend(records.iter().map(|record| (record.key, record.clone())));
            }
            StubOp::Remove(keys) => keys.iter().for_each(|key| drop(self.records.remove(key))),
            StubOp::Seal => self.seals += 1,
        }
    }
}

impl StubStorage {
    pub(crate) fn new(disk: SimDisk, malice: StubFaults) -> Self {
        let (log, now) = (Vec::new(), StubState::default());
        Self(Arc::new(Mutex::new(StubMedium { disk, malice, log, settled: 0, now, flipped: None })))
    }

    /// The storage that the next start finds after a crash; `disk` is the crashed machine's disk.
    pub(crate) fn crash(&self, disk: SimDisk, policy: CrashPolicy, seed: u64) -> Self {
        let medium = self.0.lock();
        let safe = medium.safe();
        let kept = match policy {
            CrashPolicy::Nothing => safe,
            CrashPolicy::Everything => medium.log.len(),
            CrashPolicy::Prefix | CrashPolicy::Subset | CrashPolicy::Reordered | CrashPolicy::Torn => {
                safe + Rng::seeded(seed).below((medium.log.len() - safe) as u64 + 1) as usize
            }
        };
        let log = medium.log[..kept].to_vec();
        let mut now = StubState::default();
        log.iter().for_each(|done| now.apply(done));
        Self(Arc::new(Mutex::new(StubMedium { disk, log, settled: kept, now, ..medium.clone() })))
    }

    /// A hash that is equal for storages that behave in the same way from now on.
    pub(crate) fn fingerprint(&self) -> u64 {
        let (medium, mut hasher) = (self.0.lock(), DefaultHasher::new());
        for (key, record) in &medium.now.records {
            (key, &record.bytes).hash(&mut hasher);
        }
        (medium.now.seals, medium.safe()).hash(&mut hasher);
        hasher.finish()
    }

    /// Sets the faults from now on.
    pub(crate) fn set_malice(&self, malice: StubFaults) {
        self.0.lock().malice = malice;
    }

    /// The keys of its records.
    pub(crate) fn keys(&self) -> Vec<RecordKey> {
        self.0.lock().now.records.keys().copied().collect()
    }

    /// Loses all content, as if its files had been removed.
    pub(crate) fn lose_everything(&self) {
        let mut medium = self.0.lock();
        (medium.log, medium.settled, medium.now) = (Vec::new(), 0, StubState::default());
    }

    /// Corrupts a record.
    pub(crate) fn flip(&self, key: RecordKey) {
        self.0.lock().flipped = Some(key);
    }

    /// Opens the engine, at least as new as `token`. Without a token, its content is dropped.
    pub(crate) fn open(&self, token: Option<&[u8]>) -> Result<Arc<dyn Repairable>, EngineError> {
        let mut medium = self.0.lock();
        if medium.malice.refuses_to_open {
            return Err(EngineError::Corrupt("it does not open".to_owned()));
        }
        medium.step()?;
        match token {
            None => (medium.log, medium.settled, medium.now) = (Vec::new(), 0, StubState::default()),
            Some(token) => {
                let wanted = token.try_into().map(u64::from_le_bytes).expect("a token is one of ours");
                let seals = medium.now.seals;
                if seals < wanted {
                    let detail = format!("it is at seal {seals}, but {wanted} was confirmed");
                    return Err(EngineError::Corrupt(detail));
                }
            }
        }
        Ok(Arc::new(StubEngine(self.clone())))
    }
}

impl StubMedium {
    /// Number of operations that a crash cannot lose: up to the last seal, with `lies` up to the one before.
    fn safe(&self) -> usize {
        let seals = self.log.iter().enumerate().rev().filter(|(_, done)| matches!(done, StubOp::Seal));
        seals.map(|(at, _)| at + 1).nth(usize::from(self.malice.lies)).unwrap_or(0).max(self.settled)
    }

    /// An operation of the disk, which may stop or fail.
    fn step(&self) -> Result<(), EngineError> {
        Ok(self.disk.create_dir(Path::new("/stub"))?)
    }

    fn done(&mut self, done: StubOp) -> Result<(), EngineError> {
        self.step()?;
        self.now.apply(&done);
        self.log.push(done);
        Ok(())
    }

    fn checked(&self, record: &Record) -> Result<Record, EngineError> {
        if self.flipped == Some(record.key) {
            Err(EngineError::Damaged(record.key))
        } else {
            Ok(record.clone())
        }
    }
}

struct StubEngine(StubStorage);

impl Engine for StubEngine {
    fn put(&self, records: &[Record]) -> Result<(), EngineError> {
        self.0.0.lock().done(StubOp::Put(records.to_vec()))
    }

    fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.0.0.lock().done(StubOp::Remove(keys.to_vec()))
    }

    fn get(&self, key: RecordKey) -> Result<Option<Bytes>, EngineError> {
        let medium = self.0.0.lock();
        let found = medium.now.records.get(&key);
        found.map(|record| medium.checked(record).map(|record| record.bytes)).transpose()
    }

    fn scan(&self, from: Revision, to: Revision, budget: usize) -> Result<Scan, EngineError> {
        let medium = self.0.0.lock();
        let (mut records, mut bytes) = (Vec::<Record>::new(), 0);
        for (key, record) in medium.now.records.range(RecordKey::new(from, 0)..=RecordKey::note(to)) {
            if bytes >= budget && records.last().is_some_and(|last| last.key.main != key.main) {
                return Ok(Scan { records, next: key.main });
            }
            bytes += record.bytes.len();
            records.push(medium.checked(record)?);
        }
        Ok(Scan { records, next: to.next() })
    }

    fn notes_below(&self, below: Revision) -> Result<Vec<Revision>, EngineError> {
        let medium = self.0.0.lock();
        let keys = medium.now.records.range(..RecordKey::new(below, 0)).map(|(key, _)| key);
        Ok(keys.filter(|key| key.is_note()).map(|key| key.main).collect())
    }

    fn seal(&self) -> Result<Bytes, EngineError> {
        let mut medium = self.0.0.lock();
        medium.done(StubOp::Seal)?;
        Ok(Bytes::copy_from_slice(&medium.now.seals.to_le_bytes()))
    }

    fn sealed(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn defragment(&self) -> Result<DefragmentOutcome, EngineError> {
        Ok(DefragmentOutcome::Idle)
    }

    fn size(&self) -> EngineSize {
        let bytes = self.0.0.lock().now.records.values().map(|record| record.bytes.len() as u64).sum();
        EngineSize { allocated: bytes, live: bytes }
    }

    fn close(&self) {}
}

impl Repairable for StubEngine {}
