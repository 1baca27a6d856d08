//! Repair of a file's damaged entries. A single flipped bit is corrected, a record with a copy in the log is rewritten,
//! a dictionary is written again from its other copy, and a record that a stand-in replaces is skipped. Other damage stays, since
//! the original bytes are unknown.

use super::files::name;
use super::{EngineError, Location};
use crate::codec::history::{self, FILE_HEADER, HistoryEntry};
use crate::types::record::{Record, RecordKey};
use std::collections::BTreeMap;

/// Finds a copy of a record in the log. Callable from any thread.
pub(crate) type FindCopy<'a> = &'a (dyn Fn(RecordKey) -> Option<Record> + Sync);

/// Lengths of damaged bytes that a stand-in replaces, by file and offset.
pub(super) type ReplacedRanges = BTreeMap<(u32, u32), u32>;

/// Result of repairing a file.
#[derive(Debug, Default)]
pub(super) struct FileRepair {
    /// Locations of the repaired bytes.
    pub(super) written: Vec<Location>,
    /// Byte ranges to skip: offsets with lengths.
    pub(super) passed: BTreeMap<usize, usize>,
}

/// Repairs the bytes of a file.
///
/// # Errors
///
/// The first damage that cannot be repaired.
pub(super) fn repair_entries(
    number: u32,
    bytes: &mut [u8],
    find: FindCopy<'_>,
    replaced: &ReplacedRanges,
) -> Result<FileRepair, EngineError> {
    let mut repaired = FileRepair::default();
    let header = FILE_HEADER.len();
    if !bytes.starts_with(FILE_HEADER) {
        let off = bytes.iter().zip(FILE_HEADER).map(|(is, was)| (is ^ was).count_ones()).sum::<u32>();
        if off > 1 || bytes.len() < header {
            return Err(EngineError::Corrupt(format!("{} is not a file of the engine", name(number))));
        }
        bytes[..header].copy_from_slice(FILE_HEADER);
        repaired.written.push(Location { file: number, offset: 0, len: header as u32 });
    }
    // The places of both copies of the last packed record's dictionary.
    let mut copies = None;
    let mut offset = header;
    while offset < bytes.len() {
        if let Some((entry, len)) = history::read(&bytes[offset..]) {
            if let HistoryEntry::Packed(packed) = entry {
                let place = |place: Option<usize>| place.filter(|place| *place < bytes.len());
                let first = place(offset.checked_sub(packed.before as usize));
                copies = first.zip(place(offset.checked_add(packed.after as usize)));
            }
            offset += len;
        } else if let Some(len) = replaced.get(&(number, offset as u32)) {
            repaired.passed.insert(offset, *len as usize);
            offset += *len as usize;
        } else if let Some(entry) =
            written(&bytes[offset..], find).or_else(|| dictionary(bytes, offset, copies))
        {
            bytes[offset..offset + entry.len()].copy_from_slice(&entry);
            repaired.written.push(Location { file: number, offset: offset as u32, len: entry.len() as u32 });
            offset += entry.len();
        } else {
            let detail = format!("{} is damaged at byte {offset}, and the log has no copy", name(number));
            return Err(EngineError::Corrupt(detail));
        }
    }
    Ok(repaired)
}

/// The entry of the damaged dictionary at an offset, from its other copy. `copies` are the places of the dictionary of the records before.
fn dictionary(bytes: &[u8], offset: usize, copies: Option<(usize, usize)>) -> Option<Vec<u8>> {
    let entry = |place: usize| match history::read(bytes.get(place..)?)? {
        (HistoryEntry::Dictionary(_), len) => Some(bytes[place..place + len].to_vec()),
        _ => None,
    };
    match copies {
        Some((first, second)) if second == offset => entry(first),
        // The first copy: the record after it knows where the second one is.
        _ => {
            let len = history::peek_dictionary(&bytes[offset..])?;
            let next = offset.checked_add(len)?;
            match history::read(bytes.get(next..)?)? {
                (HistoryEntry::Packed(packed), _)
                    if next.checked_sub(packed.before as usize) == Some(offset) =>
                {
                    entry(next.checked_add(packed.after as usize)?).filter(|entry| entry.len() == len)
                }
                _ => None,
            }
        }
    }
}

/// The original bytes of the damaged entry at the start of `bytes`, if they can be determined.
fn written(bytes: &[u8], find: FindCopy<'_>) -> Option<Vec<u8>> {
    let copied = || {
        let (key, _) = history::peek(bytes)?;
        let copy = find(key)?;
        history::restored(bytes, copy.kind, copy.key, &copy.bytes)
    };
    copied().or_else(|| history::correct(bytes))
}
