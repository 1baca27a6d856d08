//! Looking one record up in the log, which may be written and shortened meanwhile: the copy from which a damaged record is
//! healed. What is found was checked; what is not may still be there.

use bytes::Bytes;

use super::segment::Segments;
use crate::Revision;
use crate::codec::frame::{SEGMENT_HEADER, SegmentHeader, decode_group};
use crate::codec::record::{self, LogChange, LogRecord};
use crate::commit::RecordKey;
use crate::disk::read_all;
use crate::engine::{Record, RecordKind};

/// The record of that name, newest files first. Reads whole files: for the rare case.
pub(crate) fn find(segments: &Segments, key: RecordKey) -> Option<Record> {
    segments.first_seqs().into_iter().rev().find_map(|first| {
        // It may be gone by now.
        let bytes = read_all(&*segments.open(first).ok()?).ok()?;
        find_in(&bytes, key)
    })
}

fn find_in(bytes: &[u8], key: RecordKey) -> Option<Record> {
    let header = SegmentHeader::decode(bytes)?;
    let mut offset = SEGMENT_HEADER;
    while let Some(group) = decode_group(bytes, offset, header.epoch) {
        let mut rest = group.payload;
        for _ in 0..group.header.count {
            let (record, len) = record::decode(rest).ok()?;
            if let Some(found) = part(&record, key) {
                return Some(found);
            }
            rest = &rest[len..];
        }
        offset = group.end;
    }
    None
}

/// What a logged commit has of that name.
fn part(record: &LogRecord<'_>, key: RecordKey) -> Option<Record> {
    if Revision(record.revision) != key.main || record.changes.is_empty() {
        return None;
    }
    let (kind, bytes) = if key.is_note() {
        (RecordKind::Note, record.note?)
    } else {
        match record.changes.get(key.sub as usize)? {
            LogChange::Put(bytes) => (RecordKind::Put, *bytes),
            LogChange::Delete(bytes) => (RecordKind::Delete, *bytes),
        }
    };
    Some(Record { key, kind, bytes: Bytes::copy_from_slice(bytes) })
}
