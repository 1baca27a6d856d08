//! Damaged records that a snapshot leaves out: a version without an intact copy, and with it all older versions of its
//! key. The snapshot's compacted revision is then the revision of that key's next version, so that everything readable
//! in it is right.

use super::SnapshotError;
use crate::KeyValue;
use crate::engine::damage::DamagedRecord;
use crate::mvcc::index::Index;
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::types::state::DurableState;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The records that a snapshot leaves out.
#[derive(Debug, Default)]
pub(super) struct ExcludedRecords {
    /// The damaged records.
    pub(super) records: BTreeSet<RecordKey>,
    /// For each key with damage, the first version that the snapshot contains.
    begins: BTreeMap<Bytes, RecordKey>,
}

impl ExcludedRecords {
    /// Decides which records to leave out because of these damaged ones, and raises the snapshot's compacted revision
    /// accordingly.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Damaged`] if the newest version of a key is damaged, since no newer version can replace it.
    pub(super) fn plan(
        index: &Index,
        damage: BTreeMap<RecordKey, DamagedRecord>,
        state: &mut DurableState,
    ) -> Result<Self, SnapshotError> {
        let mut left_out = Self::default();
        for (record, damaged) in damage {
            left_out.records.insert(record);
            let entry = damaged.key.as_ref().and_then(|key| index.get(key));
            let Some((entry, key)) = entry.zip(damaged.key) else { continue };
            let mut keys = entry.record_keys().map(|(kept, _)| kept).skip_while(|kept| *kept < record);
            if keys.next() != Some(record) {
                // Compacted: no read needs it.
                continue;
            }
            let next = keys.next().filter(|next| next.main <= state.revision);
            let next = next.ok_or(SnapshotError::Damaged { revision: record.main })?;
            let begins = left_out.begins.entry(key).or_insert(next);
            *begins = next.max(*begins);
            state.compacted = state.compacted.max(next.main);
        }
        Ok(left_out)
    }

    /// Whether a record is left out.
    pub(super) fn has(&self, record: &Record) -> bool {
        if self.begins.is_empty() || record.kind == RecordKind::Note {
            return false;
        }
        let version = KeyValue::decode(record.bytes.clone());
        let begins = version.and_then(|version| self.begins.get(version.key()));
        begins.is_some_and(|begins| record.key < *begins)
    }
}
