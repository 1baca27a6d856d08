//! Packing: files that consist of superseded versions are copied in packed form (`codec::packed`), a file a step, as the background worker
//! paces it. Newest versions stay as they are: a start reads their values.
//!
//! A version is packed only if the engine has a newer one of its key. So an index that is made of the engine's records finds the value
//! of each newest version, although it sees packed ones without their values.

use super::files::{FinishedFile, Tail};
use super::{EngineError, Inner, Location};
use crate::codec::history;
use crate::codec::packed::{PackedGroup, is_packable, pack};
use crate::engine::FindNewest;
use crate::types::kv_encoding;
use crate::types::record::{Record, RecordKey};
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// Bytes of the records of a group: so many that its dictionary is a small part of it.
const GROUP: usize = if cfg!(test) { 600 } else { 1 << 20 };

/// Bytes below which records are no group: they would hardly be larger than the two copies of their dictionary.
const LEAST: usize = if cfg!(test) { 60 } else { 32 << 10 };

/// Keys whose newest versions are looked up together. A writer waits for as many.
const LOOK_UPS: usize = 1_024;

/// When finished files are looked at for superseded records.
#[derive(Default)]
pub(super) struct Packing {
    /// Bytes of entries that were written since the start.
    written: u64,
    /// Files that were looked at and left alone: when they are looked at again, and how long the wait was.
    left_alone: BTreeMap<u32, (u64, u64)>,
}

impl Packing {
    /// An entry of this length was written.
    pub(super) fn written(&mut self, len: u32) {
        self.written += u64::from(len);
    }

    /// Whether a file of this length should be looked at. After a start nothing is until something was written: what was not worth it
    /// before is not now.
    fn is_due(&self, number: u32, len: u64) -> bool {
        let at = self.left_alone.get(&number).map_or(if cfg!(test) { 0 } else { len }, |(at, _)| *at);
        at <= self.written
    }

    /// A file of this length was looked at and left alone. Versions become superseded by what is written, so the next look is after so many
    /// bytes, and each further one after twice as many: all looks together read a few times what was written.
    pub(super) fn leave_alone(&mut self, number: u32, len: u64) {
        let wait = self.left_alone.get(&number).map_or(len, |(_, wait)| wait * 2);
        self.left_alone.insert(number, (self.written + wait, wait));
    }

    /// A file has no content any more.
    pub(super) fn forget(&mut self, number: u32) {
        self.left_alone.remove(&number);
    }
}

/// The next file to look at for superseded records: the oldest one that is due.
pub(super) fn due(inner: &Inner, tail: &Tail) -> Option<FinishedFile> {
    let usable = |file: &FinishedFile| {
        let is_whole = !inner.blocked.contains(&file.number) && !inner.damaged.contains(&file.number);
        is_whole && file.wanted >= LEAST as u64 && inner.packing.is_due(file.number, file.len)
    };
    inner.files.finished(tail.number()).find(usable)
}

/// For each record, whether it is worth packing: superseded by a version that the engine has.
pub(super) fn superseded<'a>(
    inner: &RwLock<Inner>,
    newest: &FindNewest,
    records: impl Iterator<Item = &'a Record>,
) -> Vec<bool> {
    let records: Vec<_> = records.collect();
    let mut found = vec![false; records.len()];
    let packable: Vec<usize> =
        (0..records.len()).filter(|at| is_packable(records[*at].kind, &records[*at].bytes)).collect();
    for part in packable.chunks(LOOK_UPS) {
        let keys: Vec<&[u8]> = part
            .iter()
            .map(|at| {
                let bytes = &records[*at].bytes;
                &bytes[kv_encoding::key(bytes)]
            })
            .collect();
        let newest = newest(&keys);
        let inner = inner.read();
        for (at, newest) in part.iter().zip(newest) {
            let is_stored = |key: &RecordKey| inner.locations.get(*key).is_some();
            found[*at] = newest.is_some_and(|newest| newest > records[*at].key && is_stored(&newest));
        }
    }
    found
}

/// Whether so much of a file's wanted bytes is superseded that copying it is worth it.
pub(super) fn is_worthwhile(superseded: usize, wanted: u64) -> bool {
    superseded >= LEAST && superseded as u64 * 2 >= wanted
}

/// Superseded records that are written together.
pub(super) enum RecordGroup {
    Packed(PackedGroup),
    /// They do not become smaller.
    Plain(Vec<Record>),
}

/// Splits records into groups and packs them.
pub(super) fn groups(records: &[Record]) -> Vec<RecordGroup> {
    let (mut groups, mut rest) = (Vec::new(), records);
    while !rest.is_empty() {
        let mut bytes = 0;
        let count = rest.iter().take_while(|record| {
            let fits = bytes < GROUP;
            bytes += if fits { record.bytes.len() } else { 0 };
            fits
        });
        let (group, later) = rest.split_at(count.count());
        let packed = Some(group).filter(|_| bytes >= LEAST).and_then(pack);
        groups.push(packed.map_or_else(|| RecordGroup::Plain(group.to_vec()), RecordGroup::Packed));
        rest = later;
    }
    groups
}

impl RecordGroup {
    /// Whether it is written in packed form.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }

    /// Appends the records. Adds their locations.
    pub(super) fn append(
        &self,
        inner: &RwLock<Inner>,
        tail: &mut Tail,
        locations: &mut Vec<(RecordKey, Location)>,
    ) -> Result<(), EngineError> {
        match self {
            Self::Packed(PackedGroup { bytes, entries }) => {
                let whole = tail.append(inner, |out| out.extend_from_slice(bytes))?;
                let of_records: usize = entries.iter().map(|(_, range)| range.len()).sum();
                inner.write().files.add_dictionary_bytes(whole.file, (bytes.len() - of_records) as u64);
                locations.extend(entries.iter().map(|(key, range)| {
                    let (offset, len) = (whole.offset + range.start as u32, range.len() as u32);
                    (*key, Location { file: whole.file, offset, len })
                }));
            }
            Self::Plain(records) => {
                for record in records {
                    let location =
                        tail.append(inner, |out| history::put(out, record.kind, record.key, &record.bytes))?;
                    locations.push((record.key, location));
                }
            }
        }
        Ok(())
    }
}
