//! etcd's hash of a history, bit for bit: CRC-32C over the bucket's name and the stored form of every record up to a
//! revision. Records that compaction may already have removed are not hashed. So two stores with the same history have
//! the same hash, however far each has removed records.

use crate::codec::etcd::EtcdRecord;
use crate::engine::EngineError;
use crate::mvcc::view;
use crate::published::core::Core;
use crate::published::pins::Pin;
use crate::read::history::History;
use crate::types::record::{Record, RecordKey};
use crate::{Range, RangeError, Revision};
use crc::{CRC_32_ISCSI, Crc, Digest, Table};

/// The answer of [`crate::Store::hash_kv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKv {
    /// The hash value.
    pub hash: u32,
    /// The revision up to which history was hashed.
    pub hashed: Revision,
    /// The compacted revision at that time. Two hashes compare only if `hashed` and `compacted` are equal.
    pub compacted: Revision,
    /// The store's revision at that time.
    pub current: Revision,
}

/// CRC-32C that processes 16 bytes at a time: as fast as the disk, with 16 KiB of tables.
pub(crate) static CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// The name of the bucket, which etcd hashes first.
const BUCKET: &[u8] = b"key";

/// Hashes the history up to `requested`, or all of it. It blocks no thread. Compaction does not disturb it unless it
/// passes `requested` before the pin is taken.
pub(crate) fn hash_kv(core: &Core, requested: Revision) -> Result<HashKv, RangeError> {
    core.check_serving()?;
    let mut answer =
        HashKv { hash: 0, hashed: requested, compacted: Revision::NEVER_COMPACTED, current: Revision::FIRST };
    let (pin, kept) = loop {
        let pin = core.pins.pin();
        {
            let visible = core.visible();
            (answer.compacted, answer.current) = (visible.state.compacted, visible.state.revision);
        }
        let request = Range { revision: answer.hashed, ..Range::key("") };
        answer.hashed = view::resolve(&request, answer.current, answer.compacted)?;
        if let Some(kept) = collect(core, &answer) {
            break (pin, kept);
        }
    };
    answer.hash = digest(core, pin, &answer, &kept).map_err(|error| damaged(&error, answer.hashed))?;
    Ok(answer)
}

fn damaged(error: &EngineError, hashed: Revision) -> RangeError {
    tracing::error!(%error, "cannot read the history");
    match error {
        EngineError::Damaged(key) => RangeError::Damaged { revision: key.main },
        EngineError::Corrupt(_) | EngineError::Io(_) => RangeError::Damaged { revision: hashed },
    }
}

/// The records up to the compacted revision that are hashed; none if a compaction happened meanwhile.
///
/// They are the records that a compaction at the hashed revision would keep. If it would keep none, etcd skips none:
/// then they are the records that the last compaction kept.
fn collect(core: &Core, of: &HashKv) -> Option<Vec<RecordKey>> {
    if of.compacted.0 <= 0 {
        return Some(Vec::new());
    }
    let mut kept = kept_at(core, of.hashed);
    if kept.is_empty() {
        kept = kept_at(core, of.compacted);
    }
    if core.visible().state.compacted != of.compacted {
        return None;
    }
    kept.retain(|key| key.main <= of.compacted);
    kept.sort_unstable();
    kept.dedup();
    Some(kept)
}

/// The records that a compaction at `revision` would keep. Holds the lock for one chunk of keys at a time.
fn kept_at(core: &Core, revision: Revision) -> Vec<RecordKey> {
    let mut kept = Vec::new();
    let mut from = Some(Box::default());
    while let Some(key) = from {
        let visible = core.visible();
        let (entries, next) = visible.index.step(&key);
        kept.extend(entries.iter().filter_map(|entry| entry.kept_at(revision)));
        from = next;
    }
    kept
}

fn digest(core: &Core, pin: Pin<'_>, of: &HashKv, kept: &[RecordKey]) -> Result<u32, EngineError> {
    let mut history = History::upto(core, of.hashed, pin);
    let mut digest = CASTAGNOLI.digest();
    digest.update(BUCKET);
    while let Some(records) = history.step()? {
        for record in records {
            let key = record.key;
            if key.main > of.compacted || kept.binary_search(&key).is_ok() {
                add(&mut digest, &record)?;
            }
        }
    }
    Ok(digest.finalize())
}

fn add(digest: &mut Digest<'_, u32, Table<16>>, record: &Record) -> Result<(), EngineError> {
    let stored = EtcdRecord::of(record).map_err(|_| EngineError::Damaged(record.key))?;
    if let Some(stored) = stored {
        digest.update(stored.key());
        digest.update(&stored.value);
    }
    Ok(())
}
