//! Making the index, and which keys hang on leases, from the records that an engine holds. What the log has beyond them comes
//! on top of it (see `recover`).

use std::cmp::Reverse;
use std::sync::Arc;

use bytes::Bytes;

use crate::KeyValue;
use crate::codec::kv::key;
use crate::engine::reader::{Met, Prepared};
use crate::engine::{EngineError, RecordKind};
use crate::index::{Index, Restore, Version, alike, lead};
use crate::lease::table::LeaseTable;

/// See the module. Of no use before [`Rebuild::finish`].
#[derive(Debug, Default)]
pub(crate) struct Rebuild {
    index: Restore,
    /// Keys of which some version hangs on a lease.
    leased: Vec<Bytes>,
}

impl Rebuild {
    pub(crate) fn take(&mut self, prepared: Prepared, wanted: &dyn Fn(u32) -> bool) {
        for (at, version) in prepared {
            if wanted(at) {
                if !version.kv.lease().is_none() {
                    self.leased.push(version.kv.key_bytes());
                }
                self.index.add(version);
            }
        }
    }

    /// Everything was taken. Hangs the keys on their leases.
    pub(crate) fn finish(self, leases: &mut LeaseTable) -> Index {
        let index = self.index.finish();
        for key in self.leased {
            let entry = index.get(&key).expect("a key that was taken is in the index");
            leases.attach(&key, entry.newest().kv.lease());
        }
        index
    }
}

/// A record on its way into the index: how it compares, and which it is.
struct Item<'a> {
    /// The key's first bytes behind what all keys share. Most comparisons end here.
    lead: u64,
    key: &'a [u8],
    at: u32,
}

/// Decodes records, ordered by key and newest first: neighbours then lie together in memory, and go into the index without
/// much searching. Copies them, so that none keeps its file in memory.
pub(crate) fn prepare(records: &[Met<'_>]) -> Result<Prepared, EngineError> {
    let versions = records.iter().zip(0..).filter(|(met, _)| met.kind != RecordKind::Note);
    let mut items: Vec<_> = versions.map(|(met, at)| Item { lead: 0, key: key_of(met.bytes), at }).collect();
    let shared = shared_prefix(&items);
    items.iter_mut().for_each(|item| item.lead = lead(&item.key[shared..]));
    let place = |item: &Item<'_>| Reverse(records[item.at as usize].key);
    items.sort_unstable_by(|a, b| {
        a.lead.cmp(&b.lead).then_with(|| a.key.cmp(b.key)).then_with(|| place(a).cmp(&place(b)))
    });
    items.iter().map(|item| Ok((item.at, decode(&records[item.at as usize])?))).collect()
}

fn decode(met: &Met<'_>) -> Result<Version, EngineError> {
    let kv = KeyValue::decode(Bytes::copy_from_slice(met.bytes)).ok_or(EngineError::Damaged(met.key))?;
    let dead = met.kind == RecordKind::Delete;
    Ok(Version { kv: Arc::new(kv), main: met.key.main, sub: met.key.sub, dead })
}

/// The key of an encoded version; of something else, anything.
fn key_of(encoded: &[u8]) -> &[u8] {
    encoded.get(key(encoded)).unwrap_or_default()
}

/// How many bytes all keys begin with alike.
fn shared_prefix(items: &[Item<'_>]) -> usize {
    let Some((first, rest)) = items.split_first() else { return 0 };
    rest.iter().fold(first.key.len(), |shared, item| alike(&first.key[..shared], item.key))
}
