//! Defragmentation: copies the live entries of one file into the newest file, then retires the old file.

use super::files::{FinishedFile, Tail, file_bytes, walk};
use super::{EngineError, Inner, Location, Removal};
use crate::codec::history::{self, HistoryEntry};
use crate::types::record::RecordKey;
use parking_lot::RwLock;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Whether less than half of a file's bytes are live, so that it is worth copying. Each byte is then written at most
/// about twice in all.
fn is_wasteful(file: &FinishedFile) -> bool {
    file.wanted * 2 < file.len
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
    /// The encoded entries of live records.
    records: Vec<(RecordKey, Cow<'a, [u8]>)>,
    /// Removals of records, with the files that contain the records.
    removed: Vec<(RecordKey, u32)>,
    /// Records whose removal is not needed after the file is deleted.
    gone: Vec<RecordKey>,
    /// Live records that are damaged and cannot be corrected.
    damaged: Vec<RecordKey>,
}

/// Result of one step of defragmentation.
pub(super) enum DefragmentStep {
    /// No file is worth copying.
    Idle,
    /// A file was copied and retired; `more` tells whether another is worth copying.
    Copied { more: bool },
    /// A file cannot be read. It stays until one of its records is removed, or the scrub can read it. Other files are
    /// copied meanwhile.
    Unreadable,
    /// A file contains damaged live records. It stays until they are replaced.
    Damaged(Vec<RecordKey>),
}

/// Copies one file.
pub(super) fn step(inner: &RwLock<Inner>, tail: &mut Tail) -> Result<DefragmentStep, EngineError> {
    let (file, read, more) = {
        let inner = inner.read();
        let Some((file, more)) = choose(&inner, tail) else { return Ok(DefragmentStep::Idle) };
        (file, inner.files.read(file.number, file.len), more)
    };
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
    let mut locations = Vec::with_capacity(kept.records.len());
    for (key, entry) in &kept.records {
        locations.push((*key, tail.append(inner, |out| out.extend_from_slice(entry))?));
    }
    let mut marks = Vec::new();
    for (keys, record_file) in
        kept.removed.chunks(MARKS).map(|part| part.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>())
    {
        let mark = tail.append(inner, |out| history::put_removed(out, &keys))?;
        marks.extend(
            keys.into_iter()
                .zip(record_file)
                .map(|(key, record_file)| (key, Removal { record_file, removal_file: mark.file })),
        );
    }
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
    Ok(DefragmentStep::Copied { more })
}

/// Collects what must be copied: live records in this file, and removals of records that are in other files.
fn sort<'a>(inner: &Inner, number: u32, bytes: &'a [u8]) -> Result<LiveContent<'a>, EngineError> {
    let mut kept = LiveContent::default();
    let mut record = |key: RecordKey, location: Location| {
        if inner.locations.get(key) == Some(location) {
            let from = location.offset as usize;
            kept.records.push((key, bytes[from..from + location.len as usize].into()));
        } else if inner.removed.get(&key).is_some_and(|removal| removal.record_file == number) {
            kept.gone.push(key);
        }
    };
    let mut removed = Vec::new();
    walk(number, bytes, &BTreeMap::new(), |entry, location: Location| match entry {
        HistoryEntry::Record(_, key, _) => record(key, location),
        HistoryEntry::StandIn(stand_in) => record(stand_in.key, location),
        HistoryEntry::Removed(keys) => removed.extend(history::removed_keys(keys).filter_map(|key| {
            let removal = inner.removed.get(&key)?;
            (removal.removal_file == number && removal.record_file != number)
                .then_some((key, removal.record_file))
        })),
    })?;
    kept.removed = removed;
    Ok(kept)
}

/// Collects what must be copied from a file with damage, using the map of locations. Visits every record of the engine.
fn salvage<'a>(inner: &Inner, number: u32, bytes: &'a [u8]) -> LiveContent<'a> {
    let mut kept = LiveContent::default();
    for row in inner.locations.iter().filter(|row| row.location().file == number) {
        let (key, from, len) = (row.key(), row.location().offset as usize, row.location().len as usize);
        let entry = bytes.get(from..from + len).unwrap_or_default();
        match whole(entry, key) {
            Some(entry) => kept.records.push((key, entry)),
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
        Some((HistoryEntry::Removed(_), _)) | None => false,
    }
}
