//! Recall: finds the in-memory copies from which damaged records are repaired, and the keys of the records without a
//! copy.

use crate::KeyValue;
use crate::engine::healing::RecalledRecord;
use crate::mvcc::index::KeyEntry;
use crate::published::core::Core;
use crate::types::record::{Record, RecordKey, RecordKind};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Core {
    /// Lets the engine repair damaged records from the copies that this state has in memory.
    pub(crate) fn share_copies(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.engine.set_recall(Box::new(move |keys| {
            core.upgrade().map(|core| core.recall(keys)).unwrap_or_default()
        }));
        let core = Arc::downgrade(self);
        self.engine.set_newest(Box::new(move |keys| {
            core.upgrade().map(|core| core.newest(keys)).unwrap_or_default()
        }));
    }

    /// The records of the newest versions of keys.
    fn newest(&self, keys: &[&[u8]]) -> Vec<Option<RecordKey>> {
        let visible = self.visible_recursive();
        let newest = |key: &&[u8]| {
            let version = visible.index.get(key)?.newest();
            Some(RecordKey::new(version.main, version.sub))
        };
        keys.iter().map(newest).collect()
    }

    /// Searches memory for copies of these records. Walks the whole index and holds its lock for one chunk of keys at a
    /// time, so it is slow; damage is rare. The caller may hold that lock for reading.
    fn recall(&self, keys: &BTreeSet<RecordKey>) -> BTreeMap<RecordKey, RecalledRecord> {
        let mut known: BTreeMap<_, _> =
            keys.iter().filter(|key| key.is_note()).map(|key| name_note(*key)).collect();
        let mut from = Some(Box::default());
        while let Some(key) = from {
            let visible = self.visible_recursive();
            let (entries, next) = visible.index.step(&key);
            entries.iter().for_each(|entry| known.extend(of_entry(entry, keys)));
            from = next;
        }
        let visible = self.visible_recursive();
        let commits = keys.iter().filter_map(|key| visible.window.get(key.main));
        let records = commits.flat_map(|commit| commit.records());
        for record in records.filter(|record| keys.contains(&record.key)) {
            known.insert(record.key, RecalledRecord::Whole(record));
        }
        known
    }
}

fn name_note(key: RecordKey) -> (RecordKey, RecalledRecord) {
    (key, RecalledRecord::Named(Record { key, kind: RecordKind::Note, bytes: Bytes::new() }))
}

/// The copies of these records in an index entry: its newest version whole, tombstones whole (they consist of their key
/// and revision), and only the names of other versions.
fn of_entry<'a>(
    entry: &'a KeyEntry,
    keys: &'a BTreeSet<RecordKey>,
) -> impl Iterator<Item = (RecordKey, RecalledRecord)> + 'a {
    entry.record_keys().filter(|(key, _)| keys.contains(key)).map(|(key, dead)| {
        let newest = entry.newest();
        let is_newest = (newest.main, newest.sub) == (key.main, key.sub);
        let kind = if dead { RecordKind::Delete } else { RecordKind::Put };
        let name = || KeyValue::tombstone(entry.key(), key.main).encoded().clone();
        let bytes = if is_newest { newest.kv.encoded().clone() } else { name() };
        let record = Record { key, kind, bytes };
        (key, if is_newest || dead { RecalledRecord::Whole(record) } else { RecalledRecord::Named(record) })
    })
}
