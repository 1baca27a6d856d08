//! What memory knows of records: the copies from which damaged ones are healed, and the names of those that it has no copy of.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::KeyValue;
use crate::commit::RecordKey;
use crate::core::{Core, records};
use crate::engine::{Record, RecordKind};
use crate::index::Entry;

/// What is known of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// All of it.
    Whole(Record),
    /// Which it is. Its bytes name it: see [`crate::engine::LostRecord::name`].
    Named(Record),
}

impl Core {
    /// What is known of the records of these names. Walks the whole index, holding its lock for one chunk of keys at a time:
    /// for the rare case. The caller may hold that lock for reading.
    pub(crate) fn recall(&self, keys: &BTreeSet<RecordKey>) -> BTreeMap<RecordKey, Known> {
        let mut known: BTreeMap<_, _> =
            keys.iter().filter(|key| key.is_note()).map(|key| note(*key)).collect();
        let mut from = Some(Box::default());
        while let Some(key) = from {
            let visible = self.visible_again();
            let (entries, next) = visible.index.step(&key);
            entries.iter().for_each(|entry| known.extend(of_entry(entry, keys)));
            from = next;
        }
        let visible = self.visible_again();
        let commits = keys.iter().filter_map(|key| visible.window.get(key.main));
        for record in commits.flat_map(|commit| records(commit)).filter(|record| keys.contains(&record.key)) {
            known.insert(record.key, Known::Whole(record));
        }
        known
    }
}

fn note(key: RecordKey) -> (RecordKey, Known) {
    (key, Known::Named(Record { key, kind: RecordKind::Note, bytes: Bytes::new() }))
}

/// What an entry of the index knows: its newest version whole, deletions whole since they hold nothing but their names, and
/// of other versions the names.
fn of_entry<'a>(
    entry: &'a Entry,
    keys: &'a BTreeSet<RecordKey>,
) -> impl Iterator<Item = (RecordKey, Known)> + 'a {
    entry.places().filter(|(key, _)| keys.contains(key)).map(|(key, dead)| {
        let newest = entry.newest();
        let is_newest = (newest.main, newest.sub) == (key.main, key.sub);
        let kind = if dead { RecordKind::Delete } else { RecordKind::Put };
        let name = || KeyValue::tombstone(entry.key(), key.main).encoded().clone();
        let bytes = if is_newest { newest.kv.encoded().clone() } else { name() };
        let record = Record { key, kind, bytes };
        (key, if is_newest || dead { Known::Whole(record) } else { Known::Named(record) })
    })
}
