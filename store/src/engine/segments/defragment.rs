//! Defragmentation: copies the live entries of one file into the newest file, then retires the old file. Packing is the same for a file
//! that consists of superseded records. Records that are packed already are copied as they are, with their dictionary.

use super::files::{FinishedFile, Tail, file_bytes, walk};
use super::pack::{self, RecordGroup};
use super::{EngineError, Inner, Location, Removal};
use crate::codec::history::{self, HistoryEntry, PackedRecord};
use crate::codec::packed::{self, PackedGroup, Unpacker, dictionary_in};
use crate::engine::FindNewest;
use crate::types::record::{Record, RecordKey};
use bytes::Bytes;
use parking_lot::RwLock;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Whether less than half of a file's bytes are live, so that it is worth copying. Each byte is then written at most
/// about twice in all. Dictionaries do not count: they are copied with the records that need them.
fn is_wasteful(file: &FinishedFile) -> bool {
    file.wanted * 2 < file.len.saturating_sub(file.dictionary_bytes)
}

/// Number of small files above which they are merged. Every start creates a file, and a growing store outgrows its
/// small files.
const SMALL_FILES: usize = 8;

/// The file to copy next, and whether there are more. Files with damage come first: a damaged entry must leave the
/// files before its replacement does.
fn choose(inner: &Inner, tail: &Tail) -> Option<(FinishedFile, bool)> {
    let usable = |file: &FinishedFile| !inner.blocked.contains(&file.number);
    let finished: Vec<_> = inner.files.finished(tail.number()).filter(usable).collect();
    if let Some(file) = finished.iter().find(|file| inner.damaged.contains(&file.number)) {
        return Some((*file, true));
    }
    let mut wasted: Vec<_> = finished.iter().filter(|file| is_wasteful(file)).collect();
    wasted.sort_unstable_by_key(|file| file.wanted * 1_000 / file.len);
    if let Some(file) = wasted.first() {
        return Some((**file, wasted.len() > 1));
    }
    let large = file_bytes(inner.files.size().live, tail.most());
    let small = finished.iter().filter(|file| file.len < large / 4);
    let count = small.clone().count();
    let file = small.min_by_key(|file| file.len).filter(|_| count > SMALL_FILES)?;
    Some((*file, count > SMALL_FILES + 1))
}

/// Records whose locations change per lock acquisition.
const BATCH: usize = 1_024;

/// Removals per entry.
const MARKS: usize = 1_024;

/// The content of a file that must be copied.
#[derive(Default)]
struct LiveContent<'a> {
    /// The live records.
    records: Vec<LiveRecord<'a>>,
    /// Removals of records, with the files that contain the records.
    removed: Vec<(RecordKey, u32)>,
    /// Records whose removal is not needed after the file is deleted.
    gone: Vec<RecordKey>,
    /// Live records that are damaged and cannot be corrected.
    damaged: Vec<RecordKey>,
}

/// A live record of a file.
struct LiveRecord<'a> {
    key: RecordKey,
    /// Its intact entry, which may be a stand-in, or packed.
    entry: Cow<'a, [u8]>,
    offset: usize,
}

/// Live records by how they are written.
#[derive(Default)]
struct SplitRecords<'a> {
    /// Encoded entries that do not depend on their place.
    plain: Vec<(RecordKey, Cow<'a, [u8]>)>,
    /// Records that were packed before, in the groups of the file.
    packed: Vec<PackedGroup>,
    /// Superseded records that were not packed before.
    superseded: Vec<Record>,
}

impl<'a> SplitRecords<'a> {
    /// Splits records of a file. Without `newest` none that is not packed counts as superseded.
    fn of(
        inner: &RwLock<Inner>,
        newest: Option<&FindNewest>,
        records: Vec<LiveRecord<'a>>,
        file: &[u8],
    ) -> Result<Self, EngineError> {
        let mut split = Self::default();
        let (mut candidates, mut groups) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for record in records {
            match history::read(&record.entry) {
                Some((HistoryEntry::Packed(packed), _)) => {
                    let first = record.offset.saturating_sub(packed.before as usize);
                    groups.entry(first).or_default().push(record);
                }
                Some((HistoryEntry::Record(kind, key, body), _)) if newest.is_some() => {
                    candidates
                        .push((Record { kind, key, bytes: Bytes::copy_from_slice(body) }, record.entry));
                }
                _ => split.plain.push((record.key, record.entry)),
            }
        }
        for group in groups.into_values() {
            split.add_group(&group, file)?;
        }
        if let Some(newest) = newest {
            let superseded = pack::superseded(inner, newest, candidates.iter().map(|(record, _)| record));
            for ((record, entry), is_superseded) in candidates.into_iter().zip(superseded) {
                if is_superseded {
                    split.superseded.push(record);
                } else {
                    split.plain.push((record.key, entry));
                }
            }
        }
        Ok(split)
    }

    /// Adds packed records that share a dictionary. If few of the group are left, they are smaller by themselves.
    fn add_group(&mut self, group: &[LiveRecord<'_>], file: &[u8]) -> Result<(), EngineError> {
        let lost = || EngineError::Corrupt("the dictionary of a packed record is lost".to_owned());
        let entries: Vec<_> = group.iter().filter_map(|record| packed_in(&record.entry)).collect();
        let (first, offset) =
            entries.first().zip(group.first().map(|record| record.offset)).ok_or_else(lost)?;
        let deflated = dictionary_in(file, first, offset).ok_or_else(lost)?;
        match packed::regroup(deflated, &entries) {
            Some(group) => self.packed.push(group),
            None => {
                let mut unpacker = Unpacker::default();
                let dictionary = unpacker.dictionary(deflated).ok_or_else(lost)?;
                for packed in entries {
                    let record =
                        unpacker.record(&packed, &dictionary).ok_or(EngineError::Damaged(packed.key))?;
                    let mut entry = Vec::new();
                    history::put(&mut entry, record.kind, record.key, &record.bytes);
                    self.plain.push((record.key, entry.into()));
                }
            }
        }
        Ok(())
    }

    /// Bytes of the superseded records that were not packed before.
    fn superseded_bytes(&self) -> usize {
        self.superseded.iter().map(|record| record.bytes.len()).sum()
    }
}

/// Result of one step of defragmentation.
pub(super) enum DefragmentStep {
    /// No file is worth copying.
    Idle,
    /// A file was copied and retired; `more` tells whether another is worth copying.
    Copied { more: bool },
    /// A file does not consist of superseded records, and stays as it is.
    LeftAlone,
    /// A file cannot be read. It stays until one of its records is removed, or the scrub can read it. Other files are
    /// copied meanwhile.
    Unreadable,
    /// A file contains damaged live records. It stays until they are replaced.
    Damaged(Vec<RecordKey>),
}

/// Copies one file that is worth it. Records that were packed stay so.
pub(super) fn step(inner: &RwLock<Inner>, tail: &mut Tail) -> Result<DefragmentStep, EngineError> {
    let chosen = choose(&inner.read(), tail);
    match chosen {
        Some((file, more)) => copy(inner, tail, (file, more), None),
        None => Ok(DefragmentStep::Idle),
    }
}

/// Looks at the next file that is due, and copies it if most of it is superseded, which is packed then. Returns the bytes of the file; zero
/// if none is due.
pub(super) fn pack_step(
    inner: &RwLock<Inner>,
    tail: &mut Tail,
    newest: &FindNewest,
) -> Result<u64, EngineError> {
    let due = pack::due(&inner.read(), tail);
    let Some(file) = due else { return Ok(0) };
    // A later step of defragmentation takes care of damage.
    copy(inner, tail, (file, true), Some(newest))?;
    Ok(file.len)
}

/// Copies one file. With `newest`, which finds superseded records, it is left alone unless most of it is superseded.
fn copy(
    inner: &RwLock<Inner>,
    tail: &mut Tail,
    (file, more): (FinishedFile, bool),
    newest: Option<&FindNewest>,
) -> Result<DefragmentStep, EngineError> {
    let read = inner.read().files.read(file.number, file.len);
    let number = file.number;
    let bytes = match read {
        Ok(bytes) => bytes,
        // The file has no live record, so the removals to keep are known without reading it.
        Err(_) if !inner.read().locations.iter().any(|row| row.location().file == number) => Vec::new(),
        Err(error) => {
            let mut inner = inner.write();
            let path = inner.files.path(number);
            tracing::error!(%error, file = %path.display(), "cannot read an engine file; its space stays in use");
            inner.blocked.insert(number);
            return Ok(DefragmentStep::Unreadable);
        }
    };
    let sorted = sort(&inner.read(), number, &bytes);
    let kept = match sorted {
        Ok(kept) if bytes.len() as u64 == file.len => kept,
        Ok(_) | Err(_) => {
            inner.write().damaged.insert(number);
            salvage(&inner.read(), number, &bytes)
        }
    };
    if !kept.damaged.is_empty() {
        return Ok(DefragmentStep::Damaged(kept.damaged));
    }
    let split = SplitRecords::of(inner, newest, kept.records, &bytes)?;
    let groups = if newest.is_some() && !pack::is_worthwhile(split.superseded_bytes(), file.wanted) {
        Vec::new()
    } else {
        pack::groups(&split.superseded)
    };
    if newest.is_some() && !groups.iter().any(RecordGroup::is_packed) {
        inner.write().packing.leave_alone(number, file.len);
        return Ok(DefragmentStep::LeftAlone);
    }
    let mut locations = Vec::new();
    for (key, entry) in &split.plain {
        locations.push((*key, tail.append(inner, |out| out.extend_from_slice(entry))?));
    }
    for group in split.packed.into_iter().map(RecordGroup::Packed).chain(groups) {
        group.append(inner, tail, &mut locations)?;
    }
    let marks = append_removals(inner, tail, &kept.removed)?;
    tail.flush(inner)?;
    // In batches: a reader waits for one.
    locations.chunks(BATCH).for_each(|chunk| {
        let mut inner = inner.write();
        chunk.iter().for_each(|(key, location)| inner.insert(*key, *location));
    });
    marks.chunks(BATCH).for_each(|chunk| {
        let mut inner = inner.write();
        chunk.iter().for_each(|(key, removal)| inner.keep_removal(*key, *removal));
    });
    let mut inner = inner.write();
    kept.gone.into_iter().for_each(|key| inner.drop_removal(key));
    inner.damaged.remove(&number);
    inner.files.retire(number);
    inner.packing.forget(number);
    Ok(DefragmentStep::Copied { more })
}

/// Appends removals of records, each with the file that has the record.
fn append_removals(
    inner: &RwLock<Inner>,
    tail: &mut Tail,
    removed: &[(RecordKey, u32)],
) -> Result<Vec<(RecordKey, Removal)>, EngineError> {
    let mut marks = Vec::new();
    for (keys, record_file) in
        removed.chunks(MARKS).map(|part| part.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>())
    {
        let mark = tail.append(inner, |out| history::put_removed(out, &keys))?;
        marks.extend(
            keys.into_iter()
                .zip(record_file)
                .map(|(key, record_file)| (key, Removal { record_file, removal_file: mark.file })),
        );
    }
    Ok(marks)
}

/// Collects what must be copied: live records in this file, and removals of records that are in other files. Fails if the file is damaged.
fn sort<'a>(inner: &Inner, number: u32, bytes: &'a [u8]) -> Result<LiveContent<'a>, EngineError> {
    let mut kept = LiveContent::default();
    let (mut lost, mut dictionaries) = (None, DictionaryCheck::of(bytes));
    let mut record = |key: RecordKey, location: Location| {
        if inner.locations.get(key) == Some(location) {
            let offset = location.offset as usize;
            let entry = &bytes[offset..offset + location.len as usize];
            if !dictionaries.has(entry, offset) {
                lost = Some(offset);
            }
            kept.records.push(LiveRecord { key, entry: entry.into(), offset });
        } else if inner.removed.get(&key).is_some_and(|removal| removal.record_file == number) {
            kept.gone.push(key);
        }
    };
    let mut removed = Vec::new();
    walk(number, bytes, &BTreeMap::new(), |entry, location: Location| match entry {
        HistoryEntry::Record(_, key, _) => record(key, location),
        HistoryEntry::StandIn(stand_in) => record(stand_in.key, location),
        HistoryEntry::Packed(packed) => record(packed.key, location),
        HistoryEntry::Dictionary(_) => {}
        HistoryEntry::Removed(keys) => removed.extend(history::removed_keys(keys).filter_map(|key| {
            let removal = inner.removed.get(&key)?;
            (removal.removal_file == number && removal.record_file != number)
                .then_some((key, removal.record_file))
        })),
    })?;
    if let Some(offset) = lost {
        let file = super::files::name(number);
        return Err(EngineError::Corrupt(format!("{file}: no dictionary for the record at byte {offset}")));
    }
    kept.removed = removed;
    Ok(kept)
}

/// Collects what must be copied from a file with damage, using the map of locations. Visits every record of the engine.
fn salvage<'a>(inner: &Inner, number: u32, bytes: &'a [u8]) -> LiveContent<'a> {
    let (mut kept, mut dictionaries) = (LiveContent::default(), DictionaryCheck::of(bytes));
    for row in inner.locations.iter().filter(|row| row.location().file == number) {
        let (key, offset, len) = (row.key(), row.location().offset as usize, row.location().len as usize);
        let entry = bytes.get(offset..offset + len).unwrap_or_default();
        match whole(entry, key).filter(|entry| dictionaries.has(entry, offset)) {
            Some(entry) => kept.records.push(LiveRecord { key, entry, offset }),
            None => kept.damaged.push(key),
        }
    }
    kept.damaged.truncate(DAMAGED);
    for (key, removal) in &inner.removed {
        match (removal.record_file == number, removal.removal_file == number) {
            (true, _) => kept.gone.push(*key),
            (false, true) => kept.removed.push((*key, removal.record_file)),
            (false, false) => {}
        }
    }
    kept
}

/// Most damaged records that a step returns; their replacements are searched together.
const DAMAGED: usize = 4_096;

/// Looks for the dictionaries of a file's records. It keeps the last answer, since neighbours share a dictionary.
struct DictionaryCheck<'a> {
    file: &'a [u8],
    /// The first place of the last dictionary, and whether it is intact there or in its other place.
    last: Option<(usize, bool)>,
}

impl<'a> DictionaryCheck<'a> {
    fn of(file: &'a [u8]) -> Self {
        Self { file, last: None }
    }

    /// Whether an intact entry at an offset is not packed, or has an intact dictionary.
    fn has(&mut self, entry: &[u8], offset: usize) -> bool {
        let Some(packed) = packed_in(entry) else { return true };
        let Some(first) = offset.checked_sub(packed.before as usize) else { return false };
        match self.last {
            Some((last, found)) if last == first => found,
            _ => {
                let found = dictionary_in(self.file, &packed, offset).is_some();
                self.last = Some((first, found));
                found
            }
        }
    }
}

/// The packed record of an entry; none if it is not packed.
fn packed_in(entry: &[u8]) -> Option<PackedRecord<'_>> {
    match history::read(entry)? {
        (HistoryEntry::Packed(packed), _) => Some(packed),
        _ => None,
    }
}

/// The entry of a record, corrected if a single bit of it is flipped.
fn whole(entry: &[u8], key: RecordKey) -> Option<Cow<'_, [u8]>> {
    if is_of(entry, key) {
        return Some(entry.into());
    }
    let corrected = history::correct(entry).filter(|corrected| corrected.len() == entry.len())?;
    is_of(&corrected, key).then_some(corrected.into())
}

/// Whether an entry is intact and is that record or its stand-in.
pub(super) fn is_of(entry: &[u8], key: RecordKey) -> bool {
    match history::read(entry) {
        Some((HistoryEntry::Record(_, found, _), _)) => found == key,
        Some((HistoryEntry::StandIn(stand_in), _)) => stand_in.key == key,
        Some((HistoryEntry::Packed(packed), _)) => packed.key == key,
        Some((HistoryEntry::Removed(_) | HistoryEntry::Dictionary(_), _)) | None => false,
    }
}
