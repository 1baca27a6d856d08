//! Search for records in the log, while it may be written and truncated: the copies from which damaged records are
//! repaired. Found records are checked. A record that is not found may still be there.

use super::segment::WalSegments;
use crate::Revision;
use crate::codec::frame::{SEGMENT_HEADER, SegmentHeader, decode_group};
use crate::codec::record;
use crate::disk::read_all;
use crate::types::record::{Record, RecordKey};
use std::collections::{BTreeMap, BTreeSet};

/// Finds the records with these keys, as far as the log has them. It reads whole files, so it is slow; damage is rare.
pub(crate) fn find(segments: &WalSegments, keys: &BTreeSet<RecordKey>) -> BTreeMap<RecordKey, Record> {
    let mut found = BTreeMap::new();
    for first in segments.first_seqs().into_iter().rev() {
        if found.len() == keys.len() {
            break;
        }
        // The background worker may have deleted the segment.
        let Ok(bytes) = segments.open(first).and_then(|file| read_all(&*file)) else { continue };
        find_in(&bytes, keys, &mut found);
    }
    found
}

fn find_in(bytes: &[u8], keys: &BTreeSet<RecordKey>, found: &mut BTreeMap<RecordKey, Record>) -> Option<()> {
    let header = SegmentHeader::decode(bytes)?;
    let mut offset = SEGMENT_HEADER;
    while let Some(group) = decode_group(bytes, offset, header.epoch) {
        let mut rest = group.payload;
        for _ in 0..group.header.count {
            let (record, len) = record::decode(rest).ok()?;
            let main = Revision(record.revision);
            for key in keys.range(RecordKey::new(main, 0)..=RecordKey::note(main)) {
                if let Some(copy) = record.record(*key) {
                    found.insert(*key, copy);
                }
            }
            rest = &rest[len..];
        }
        offset = group.end;
    }
    None
}
