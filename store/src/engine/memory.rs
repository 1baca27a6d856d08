//! An engine in memory: a map of blocks of records. Nothing survives the process. A fork shares every block until one
//! of the two changes it.

use super::{DefragmentOutcome, Engine, EngineError, EngineSize, Repairable, Scan};
use crate::Revision;
use crate::types::record::{Record, RecordKey, RecordKind};
use bytes::Bytes;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Revisions per block: few enough that a fork's copy of the newest block is small, many enough that a fork of a long
/// history copies few pointers.
const BLOCK: i64 = if cfg!(test) { 4 } else { 64 };

/// An engine in memory, which forks share copy-on-write.
#[derive(Default)]
pub(crate) struct MemoryEngine {
    records: RwLock<Records>,
}

/// A record as a block stores it.
type BlockRecord = (RecordKey, RecordKind, Bytes);

#[derive(Clone, Default)]
struct Records {
    /// Blocks by number; each has at least one record, ascending by key.
    blocks: BTreeMap<i64, Arc<Vec<BlockRecord>>>,
    bytes: u64,
}

fn block_of(revision: Revision) -> i64 {
    revision.0.div_euclid(BLOCK)
}

impl Records {
    fn put(&mut self, record: &Record) {
        let block = Arc::make_mut(self.blocks.entry(block_of(record.key.main)).or_default());
        let stored = (record.key, record.kind, record.bytes.clone());
        self.bytes += record.bytes.len() as u64;
        match block.binary_search_by_key(&record.key, |(key, ..)| *key) {
            Ok(at) => {
                let (_, _, old) = std::mem::replace(&mut block[at], stored);
                self.bytes -= old.len() as u64;
            }
            Err(at) => block.insert(at, stored),
        }
    }

    /// Removes keys of one block; `keys` must ascend.
    fn remove(&mut self, number: i64, keys: &[RecordKey]) {
        let Some(block) = self.blocks.get_mut(&number) else { return };
        let block = Arc::make_mut(block);
        let mut removed = 0;
        block.retain(|(key, _, bytes)| {
            let kept = keys.binary_search(key).is_err();
            removed += if kept { 0 } else { bytes.len() as u64 };
            kept
        });
        block.shrink_to_fit();
        self.bytes -= removed;
        if block.is_empty() {
            self.blocks.remove(&number);
        }
    }

    /// The records of `from..=to`, ascending.
    fn range(&self, from: RecordKey, to: RecordKey) -> impl Iterator<Item = &BlockRecord> {
        let blocks = self.blocks.range(block_of(from.main)..=block_of(to.main));
        blocks.flat_map(move |(_, block)| {
            let first = block.partition_point(|(key, ..)| *key < from);
            block[first..].iter().take_while(move |(key, ..)| *key <= to)
        })
    }
}

impl MemoryEngine {
    /// A copy that shares the records; afterwards the two are independent.
    pub(crate) fn fork(&self) -> Self {
        Self { records: RwLock::new(self.records.read().clone()) }
    }
}

impl Engine for MemoryEngine {
    fn put(&self, records: &[Record]) -> Result<(), EngineError> {
        let mut inner = self.records.write();
        records.iter().for_each(|record| inner.put(record));
        Ok(())
    }

    fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError> {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        let mut inner = self.records.write();
        for keys in keys.chunk_by(|a, b| block_of(a.main) == block_of(b.main)) {
            inner.remove(block_of(keys[0].main), keys);
        }
        Ok(())
    }

    fn get(&self, key: RecordKey) -> Result<Option<Bytes>, EngineError> {
        let inner = self.records.read();
        let Some(block) = inner.blocks.get(&block_of(key.main)) else { return Ok(None) };
        let found = block.binary_search_by_key(&key, |(key, ..)| *key);
        Ok(found.ok().map(|at| block[at].2.clone()))
    }

    fn scan(&self, from: Revision, to: Revision, budget: usize) -> Result<Scan, EngineError> {
        let inner = self.records.read();
        let (mut records, mut bytes) = (Vec::<Record>::new(), 0);
        if from > to {
            return Ok(Scan { records, next: to.next() });
        }
        for (key, kind, value) in inner.range(RecordKey::new(from, 0), RecordKey::note(to)) {
            if bytes >= budget && records.last().is_some_and(|last| last.key.main != key.main) {
                return Ok(Scan { records, next: key.main });
            }
            bytes += value.len() + 64;
            records.push(Record { key: *key, kind: *kind, bytes: value.clone() });
        }
        Ok(Scan { records, next: to.next() })
    }

    fn notes_below(&self, below: Revision) -> Result<Vec<Revision>, EngineError> {
        let inner = self.records.read();
        let blocks = inner.blocks.range(..=block_of(below)).flat_map(|(_, block)| block.iter());
        let keys = blocks.map(|(key, ..)| key).take_while(|key| key.main < below);
        Ok(keys.filter(|key| key.is_note()).map(|key| key.main).collect())
    }

    fn seal(&self) -> Result<Bytes, EngineError> {
        Ok(Bytes::new())
    }

    fn sealed(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn defragment(&self) -> Result<DefragmentOutcome, EngineError> {
        Ok(DefragmentOutcome::Idle)
    }

    fn size(&self) -> EngineSize {
        let bytes = self.records.read().bytes;
        EngineSize { allocated: bytes, live: bytes }
    }

    fn close(&self) {}
}

impl Repairable for MemoryEngine {}
