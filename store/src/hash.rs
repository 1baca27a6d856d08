//! etcd's hash of a history, bit for bit: CRC-32C over the name of the bucket and the stored form of every record up to a
//! revision, without the ones that compaction may already have removed. So two stores with the same history agree, however
//! far each is with winning back space.

use crc::{CRC_32_ISCSI, Crc, Digest, Table};

use crate::codec::etcd::Stored;
use crate::commit::RecordKey;
use crate::core::Core;
use crate::engine::{EngineError, Record};
use crate::history::History;
use crate::pins::Pin;
use crate::{Range, RangeError, Revision, view};

/// The answer of [`crate::Store::hash_kv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKv {
    /// The hash.
    pub hash: u32,
    /// The revision up to which history was hashed.
    pub hashed: Revision,
    /// The compacted revision then: only hashes of equal `hashed` and `compacted` compare.
    pub compacted: Revision,
    /// The store's revision then.
    pub current: Revision,
}

/// Sixteen bytes at a time: as fast as the disk, in 16 KiB of tables.
pub(crate) static CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// What etcd begins with: the name of the bucket.
const BUCKET: &[u8] = b"key";

/// Hashes the history up to `requested`, or all of it. Holds up no one; compaction does not disturb it unless it passes
/// `requested` at the very start.
pub(crate) fn hash_kv(core: &Core, requested: Revision) -> Result<HashKv, RangeError> {
    core.serving()?;
    let mut answer =
        HashKv { hash: 0, hashed: requested, compacted: Revision::NEVER_COMPACTED, current: Revision::FIRST };
    let (pin, kept) = loop {
        let pin = core.pins.pin();
        {
            let visible = core.visible();
            (answer.compacted, answer.current) = (visible.compacted, visible.revision);
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
    tracing::error!(%error, "the history cannot be read");
    match error {
        EngineError::Damaged(key) => RangeError::Damaged { revision: key.main },
        EngineError::Corrupt(_) | EngineError::Io(_) => RangeError::Damaged { revision: hashed },
    }
}

/// The records up to the compacted revision that count; none if compaction moved meanwhile.
///
/// They are what a compaction at the hashed revision would keep. If that is nothing, etcd leaves out nothing: then they
/// are what the compaction that was has kept.
fn collect(core: &Core, of: &HashKv) -> Option<Vec<RecordKey>> {
    if of.compacted.0 <= 0 {
        return Some(Vec::new());
    }
    let mut kept = kept_at(core, of.hashed);
    if kept.is_empty() {
        kept = kept_at(core, of.compacted);
    }
    if core.visible().compacted != of.compacted {
        return None;
    }
    kept.retain(|key| key.main <= of.compacted);
    kept.sort_unstable();
    kept.dedup();
    Some(kept)
}

/// What a compaction at `revision` would keep. Holds the lock for one chunk of keys at a time.
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
    let stored = Stored::of(record).map_err(|_| EngineError::Damaged(record.key))?;
    if let Some(stored) = stored {
        digest.update(stored.key());
        digest.update(&stored.value);
    }
    Ok(())
}
