//! Rebuilds the index and the leases' keys from the records of an engine. `recover` then replays the log on top.

use crate::KeyValue;
use crate::engine::EngineError;
use crate::engine::reader::{LoadedRecord, PreparedVersions};
use crate::mvcc::index::{Index, IndexBuilder, Version, alike, lead};
use crate::txn::lease_table::LeaseTable;
use crate::types::kv_encoding::key;
use crate::types::record::RecordKind;
use bytes::Bytes;
use std::cmp::Reverse;
use std::sync::Arc;

/// An index that is being rebuilt. It is usable after [`Rebuild::finish`].
#[derive(Debug, Default)]
pub(crate) struct Rebuild {
    index: IndexBuilder,
    /// Keys with a version that is attached to a lease.
    leased: Vec<Bytes>,
}

impl Rebuild {
    pub(crate) fn take(&mut self, prepared: PreparedVersions, wanted: &dyn Fn(u32) -> bool) {
        for (at, version) in prepared {
            if wanted(at) {
                if !version.kv.lease().is_none() {
                    self.leased.push(version.kv.key_bytes());
                }
                self.index.add(version);
            }
        }
    }

    /// Completes the index and attaches the keys to their leases.
    pub(crate) fn finish(self, leases: &mut LeaseTable) -> Index {
        let index = self.index.finish();
        for key in self.leased {
            let entry = index.get(&key).expect("a key that was taken is in the index");
            leases.attach(&key, entry.newest().kv.lease());
        }
        index
    }
}

/// A record to sort: its comparison key and its position in the input.
struct SortItem<'a> {
    /// The first 8 bytes of the key after the prefix that all keys share. It decides most comparisons.
    lead: u64,
    key: &'a [u8],
    at: u32,
}

/// Decodes records and sorts them by key, newest first. Neighbours are then close in memory, and inserting them into
/// the index needs little searching. Copies the bytes, so that no record keeps its file in memory.
pub(crate) fn prepare(records: &[LoadedRecord<'_>]) -> Result<PreparedVersions, EngineError> {
    let versions = records.iter().zip(0..).filter(|(loaded, _)| loaded.kind != RecordKind::Note);
    let mut items: Vec<_> =
        versions.map(|(loaded, at)| SortItem { lead: 0, key: key_of(loaded.bytes), at }).collect();
    let shared = shared_prefix(&items);
    items.iter_mut().for_each(|item| item.lead = lead(&item.key[shared..]));
    let newest_first = |item: &SortItem<'_>| Reverse(records[item.at as usize].key);
    items.sort_unstable_by(|a, b| {
        a.lead.cmp(&b.lead).then_with(|| a.key.cmp(b.key)).then_with(|| newest_first(a).cmp(&newest_first(b)))
    });
    items.iter().map(|item| Ok((item.at, decode(&records[item.at as usize])?))).collect()
}

fn decode(loaded: &LoadedRecord<'_>) -> Result<Version, EngineError> {
    let kv =
        KeyValue::decode(Bytes::copy_from_slice(loaded.bytes)).ok_or(EngineError::Damaged(loaded.key))?;
    let dead = loaded.kind == RecordKind::Delete;
    Ok(Version { kv: Arc::new(kv), main: loaded.key.main, sub: loaded.key.sub, dead })
}

/// The key of an encoded version; arbitrary bytes if `encoded` is not one.
fn key_of(encoded: &[u8]) -> &[u8] {
    encoded.get(key(encoded)).unwrap_or_default()
}

/// Length of the longest prefix that all keys share.
fn shared_prefix(items: &[SortItem<'_>]) -> usize {
    let Some((first, rest)) = items.split_first() else { return 0 };
    rest.iter().fold(first.key.len(), |shared, item| alike(&first.key[..shared], item.key))
}
