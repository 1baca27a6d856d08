//! Recall: finds the in-memory copies from which damaged records are repaired, and the keys of the records without a
//! copy.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::KeyValue;
use crate::mvcc::index::KeyEntry;
use crate::published::core::Core;
use crate::types::record::{Record, RecordKey, RecordKind};

/// The copy of a record, whole or in part, that was found in memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecalledRecord {
    /// The whole record.
    Whole(Record),
    /// Only the record's identity. Its bytes are the name: see [`crate::engine::LostRecord::name`].
    Named(Record),
}

impl Core {
    /// Searches memory for copies of these records. Walks the whole index and holds its lock for one chunk of keys at a time, so
    /// it is slow; damage is rare. The caller may hold that lock for reading.
    pub(crate) fn recall(&self, keys: &BTreeSet<RecordKey>) -> BTreeMap<RecordKey, RecalledRecord> {
        let mut known: BTreeMap<_, _> =
            keys.iter().filter(|key| key.is_note()).map(|key| note(*key)).collect();
        let mut from = Some(Box::default());
        while let Some(key) = from {
            let visible = self.visible_recursive();
            let (entries, next) = visible.index.step(&key);
            entries.iter().for_each(|entry| known.extend(of_entry(entry, keys)));
            from = next;
        }
        let visible = self.visible_recursive();
        let commits = keys.iter().filter_map(|key| visible.window.get(key.main));
        for record in commits.flat_map(|commit| commit.records()).filter(|record| keys.contains(&record.key)) {
            known.insert(record.key, RecalledRecord::Whole(record));
        }
        known
    }
}

fn note(key: RecordKey) -> (RecordKey, RecalledRecord) {
    (key, RecalledRecord::Named(Record { key, kind: RecordKind::Note, bytes: Bytes::new() }))
}

/// The copies of these records in an index entry: its newest version whole, tombstones whole (they consist of their key
/// and revision), and only the names of other versions.
fn of_entry<'a>(
    entry: &'a KeyEntry,
    keys: &'a BTreeSet<RecordKey>,
) -> impl Iterator<Item = (RecordKey, RecalledRecord)> + 'a {
    entry.places().filter(|(key, _)| keys.contains(key)).map(|(key, dead)| {
        let newest = entry.newest();
        let is_newest = (newest.main, newest.sub) == (key.main, key.sub);
        let kind = if dead { RecordKind::Delete } else { RecordKind::Put };
        let name = || KeyValue::tombstone(entry.key(), key.main).encoded().clone();
        let bytes = if is_newest { newest.kv.encoded().clone() } else { name() };
        let record = Record { key, kind, bytes };
        (key, if is_newest || dead { RecalledRecord::Whole(record) } else { RecalledRecord::Named(record) })
    })
}
