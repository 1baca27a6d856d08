//! History in a map. Nothing survives.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::RwLock;

use super::{Engine, EngineError, EngineSize, Record, RecordKind, Scan, Tidied};
use crate::Revision;
use crate::commit::RecordKey;

/// See the module.
#[derive(Default)]
pub(crate) struct MemoryEngine {
    records: RwLock<Records>,
}

#[derive(Default)]
struct Records {
    map: BTreeMap<RecordKey, (RecordKind, Bytes)>,
    bytes: u64,
}

impl Engine for MemoryEngine {
    fn put(&self, records: &[Record]) -> Result<(), EngineError> {
        let mut inner = self.records.write();
        for record in records {
            let old = inner.map.insert(record.key, (record.kind, record.bytes.clone()));
            inner.bytes += record.bytes.len() as u64;
            inner.bytes -= old.map_or(0, |(_, bytes)| bytes.len() as u64);
        }
        Ok(())
    }

    fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError> {
        let mut inner = self.records.write();
        for key in keys {
            let old = inner.map.remove(key);
            inner.bytes -= old.map_or(0, |(_, bytes)| bytes.len() as u64);
        }
        Ok(())
    }

    fn get(&self, key: RecordKey) -> Result<Option<Bytes>, EngineError> {
        Ok(self.records.read().map.get(&key).map(|(_, bytes)| bytes.clone()))
    }

    fn scan(&self, from: Revision, to: Revision, budget: usize) -> Result<Scan, EngineError> {
        let inner = self.records.read();
        let (mut records, mut bytes) = (Vec::<Record>::new(), 0);
        for (key, (kind, value)) in inner.map.range(RecordKey::new(from, 0)..=RecordKey::note(to)) {
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
        let keys = inner.map.range(..RecordKey::new(below, 0)).map(|(key, _)| key);
        Ok(keys.filter(|key| key.is_note()).map(|key| key.main).collect())
    }

    fn seal(&self) -> Result<Bytes, EngineError> {
        Ok(Bytes::new())
    }

    fn sealed(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn tidy(&self) -> Result<Tidied, EngineError> {
        Ok(Tidied::Idle)
    }

    fn size(&self) -> EngineSize {
        let bytes = self.records.read().bytes;
        EngineSize { allocated: bytes, live: bytes }
    }

    fn close(&self) {}
}
