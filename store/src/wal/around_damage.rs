//! Reading a damaged log: every intact group counts, also those after the damage. For salvage only; a store that opens
//! accepts no gap.

use super::replay::find_group;
use crate::codec::frame::{SEGMENT_HEADER, SegmentHeader, epoch_at};
use crate::codec::record::{self, LogRecord};
use std::collections::BTreeMap;

/// A segment's first sequence number, as its name has it, and its content.
pub(crate) struct SegmentBytes {
    pub(crate) first_seq: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Sequence numbers of records that are missing or damaged: the first and the last.
pub(crate) type MissingRecords = (u64, u64);

/// Reads all intact groups of the segments, which must be in order. `take` converts a record. Returns the converted
/// records by sequence number, and which records in between are missing.
pub(crate) fn read_around_damage<T>(
    segments: impl Iterator<Item = SegmentBytes>,
    cluster: u64,
    take: &mut dyn FnMut(LogRecord<'_>) -> T,
) -> (BTreeMap<u64, T>, Vec<MissingRecords>) {
    let mut found = BTreeMap::new();
    let mut segments = segments.peekable();
    let mut first = None;
    while let Some(segment) = segments.next() {
        first.get_or_insert(segment.first_seq);
        // A segment repeats what was not confirmed in the one before.
        found.split_off(&segment.first_seq);
        let is_last = segments.peek().is_none();
        read_segment(&segment, cluster, is_last, &mut |record| {
            let seq = record.seq;
            found.insert(seq, take(record));
        });
    }
    let missing = first.map(|first| gaps(first, found.keys())).unwrap_or_default();
    (found, missing)
}

fn read_segment(
    segment: &SegmentBytes,
    cluster: u64,
    is_last: bool,
    visit: &mut dyn FnMut(LogRecord<'_>),
) -> Option<()> {
    let bytes = &segment.bytes[..];
    let epoch = match SegmentHeader::decode(bytes) {
        Some(header) => (header.cluster == cluster).then_some(header.epoch),
        None => epoch_at(bytes, SEGMENT_HEADER),
    }?;
    let mut groups = Vec::new();
    let mut offset = SEGMENT_HEADER.min(bytes.len());
    while let Some(group) = find_group(bytes, offset, epoch) {
        offset = group.end;
        groups.push(group);
    }
    let confirmed = groups.iter().map(|group| group.header.synced_seq).max()?;
    let mut next_seq = segment.first_seq;
    for group in groups {
        // A torn write at the end of the log was never confirmed, and neither was anything after it.
        if is_last && group.header.first_seq > next_seq && next_seq > confirmed {
            break;
        }
        let mut rest = group.payload;
        for seq in (group.header.first_seq..).take(group.header.count as usize) {
            let (record, len) = record::decode(rest).ok().filter(|(record, _)| record.seq == seq)?;
            visit(record);
            rest = &rest[len..];
        }
        next_seq = next_seq.max(group.header.first_seq + u64::from(group.header.count));
    }
    Some(())
}

/// The numbers between `first` and the last key that are no keys.
fn gaps<'a>(first: u64, keys: impl Iterator<Item = &'a u64>) -> Vec<MissingRecords> {
    let (mut next, mut gaps) = (first, Vec::new());
    for key in keys {
        if *key > next {
            gaps.push((next, key - 1));
        }
        next = key + 1;
    }
    gaps
}
