//! Replay of the log at a start. Records that were never confirmed durable are cut off at the first incomplete group.
//! If a confirmed record is missing, the store does not open.

use super::segment::WalSegments;
use crate::codec::frame::{ALIGN, DecodedGroup, GROUP_MAGIC, SEGMENT_HEADER, SegmentHeader, decode_group};
use crate::codec::record::{self, LogRecord};
use crate::disk::read_all;
use crate::types::error::OpenError;
use std::collections::VecDeque;
use std::path::Path;

/// Result of a replay.
#[derive(Debug, Default)]
pub(crate) struct ReplayResult {
    /// Sequence number of the last record.
    pub(crate) last_seq: u64,
    /// The last record confirmed as durable, and the checksum of its group, which the next segment continues.
    pub(crate) confirmed: (u64, u32),
    /// The encoded records after the confirmed one. They may have been read from the cache only.
    pub(crate) tail: Vec<u8>,
    pub(crate) tail_records: usize,
    /// Bytes of all groups read.
    pub(crate) bytes: u64,
}

/// Replays all segments: calls `visit` for every record above `after`, in order. The log must have the id `cluster`.
pub(crate) fn replay(
    segments: &WalSegments,
    cluster: u64,
    after: u64,
    visit: &mut dyn FnMut(LogRecord<'_>) -> Result<(), String>,
) -> Result<ReplayResult, OpenError> {
    let firsts = segments.first_seqs();
    match firsts.first() {
        Some(first) if *first > after + 1 => {
            return Err(damaged(
                &segments.path(*first),
                format!("the log begins at record {first}, not {}", after + 1),
            ));
        }
        None if after > 0 => return Err(damaged(&segments.path(after + 1), "the log is missing".to_owned())),
        Some(_) | None => {}
    }
    let mut reader = ReplayState {
        cluster,
        after,
        visit,
        next_seq: 0,
        chain: 0,
        groups: VecDeque::new(),
        synced: 0,
        bytes: 0,
        newest: (0, 0),
    };
    for (at, first) in firsts.iter().enumerate() {
        let path = segments.path(*first);
        let io = |source| OpenError::Io { path: path.clone(), source };
        let file = segments.open(*first).map_err(io)?;
        let bytes = read_all(&*file).map_err(io)?;
        reader
            .segment(&bytes, *first, firsts.get(at + 1).copied())
            .map_err(|detail| damaged(&path, detail))?;
    }
    if reader.next_seq <= after && after > 0 {
        let path = segments.path(*firsts.last().expect("there is a segment"));
        return Err(damaged(&path, format!("it ends before record {after}, which was checkpointed")));
    }
    Ok(reader.finish())
}

fn damaged(path: &Path, detail: String) -> OpenError {
    OpenError::Damaged { file: path.to_owned(), detail }
}

/// A group that was read but is not confirmed as durable.
struct UnconfirmedGroup {
    last_seq: u64,
    chain: u32,
    records: usize,
    payload: Vec<u8>,
}

struct ReplayState<'a> {
    cluster: u64,
    after: u64,
    visit: &'a mut dyn FnMut(LogRecord<'_>) -> Result<(), String>,
    /// Sequence number of the next record; zero before the first segment.
    next_seq: u64,
    chain: u32,
    /// The group with the last confirmed record, followed by later groups and sync markers.
    groups: VecDeque<UnconfirmedGroup>,
    synced: u64,
    bytes: u64,
    /// Sequence number of the newest segment's first record, and the checksum that it continues.
    newest: (u64, u32),
}

impl ReplayState<'_> {
    /// Reads one segment; `successor` is the first sequence number of the next one.
    fn segment(&mut self, bytes: &[u8], first: u64, successor: Option<u64>) -> Result<(), String> {
        let header = SegmentHeader::decode(bytes).ok_or("its header is damaged")?;
        if header.cluster != self.cluster {
            return Err("it belongs to another store".to_owned());
        }
        if header.first_seq != first {
            return Err(format!("its header says that it begins at record {}", header.first_seq));
        }
        self.join(&header)?;
        self.newest = (header.first_seq, header.chain);
        let mut offset = SEGMENT_HEADER;
        loop {
            let group = decode_group(bytes, offset, header.epoch).filter(|group| self.continues(group));
            // A successor was started only after everything before it was synced, and it repeats what was not. Sync
            // markers may still follow.
            if successor.is_some_and(|successor| self.next_seq >= successor)
                && group.as_ref().is_none_or(|group| group.header.count > 0)
            {
                return Ok(());
            }
            let Some(group) = group else { break };
            offset = group.end;
            self.bytes += (group.payload.len()) as u64;
            self.group(&group)?;
        }
        match successor {
            Some(successor) => {
                Err(format!("record {} is missing; the next segment begins at {successor}", self.next_seq))
            }
            None => self.check_tail(bytes, offset, &header),
        }
    }

    /// Checks that the segment continues the last one: at its end, or at a group that it repeats.
    fn join(&mut self, header: &SegmentHeader) -> Result<(), String> {
        if self.next_seq == 0 {
            self.next_seq = header.first_seq;
            self.chain = header.chain;
            self.groups.push_back(UnconfirmedGroup {
                last_seq: header.first_seq - 1,
                chain: header.chain,
                records: 0,
                payload: Vec::new(),
            });
            self.synced = header.first_seq - 1;
            return Ok(());
        }
        let joins =
            |group: &UnconfirmedGroup| group.last_seq + 1 == header.first_seq && group.chain == header.chain;
        let at = self.groups.iter().rposition(joins).ok_or("it does not continue the one before")?;
        self.groups.truncate(at + 1);
        self.next_seq = header.first_seq;
        self.chain = header.chain;
        self.confirm(header.first_seq - 1);
        Ok(())
    }

    fn continues(&self, group: &DecodedGroup<'_>) -> bool {
        group.header.chain == self.chain && group.header.first_seq == self.next_seq
    }

    fn group(&mut self, group: &DecodedGroup<'_>) -> Result<(), String> {
        let mut rest = group.payload;
        for seq in (self.next_seq..).take(group.header.count as usize) {
            let (record, len) =
                record::decode(rest).map_err(|error| format!("record {seq} cannot be read: {error}"))?;
            if record.seq != seq {
                return Err(format!("found record {} instead of {seq}", record.seq));
            }
            rest = &rest[len..];
            if seq > self.after {
                self.after = seq;
                (self.visit)(record).map_err(|detail| format!("record {seq}: {detail}"))?;
            }
        }
        self.next_seq += u64::from(group.header.count);
        self.chain = group.chain;
        self.groups.push_back(UnconfirmedGroup {
            last_seq: self.next_seq - 1,
            chain: group.chain,
            records: group.header.count as usize,
            payload: group.payload.to_vec(),
        });
        self.confirm(group.header.synced_seq);
        Ok(())
    }

    /// Marks everything up to `seq` as confirmed. Sync markers after it may be unconfirmed.
    fn confirm(&mut self, seq: u64) {
        self.synced = self.synced.max(seq);
        let last = self.groups.iter().rev().map(|group| group.last_seq).find(|last| *last <= self.synced);
        while self.groups.front().is_some_and(|group| Some(group.last_seq) < last) {
            self.groups.pop_front();
        }
    }

    /// Checks the end of the log: an incomplete group must never have been confirmed. A later group that confirms it
    /// proves damage.
    fn check_tail(&self, bytes: &[u8], from: usize, header: &SegmentHeader) -> Result<(), String> {
        let mut offset = from;
        while let Some(found) = find_group(bytes, offset, header.epoch) {
            if found.header.synced_seq >= self.next_seq {
                return Err(format!(
                    "record {} at byte {from} is damaged, and record {} was confirmed after it",
                    self.next_seq, found.header.synced_seq
                ));
            }
            offset = found.end;
        }
        Ok(())
    }

    fn finish(self) -> ReplayResult {
        let mut groups = self.groups.into_iter();
        let mut confirmed = groups.next().map_or((0, 0), |group| (group.last_seq, group.chain));
        if confirmed.0 + 1 == self.newest.0 {
            // The next segment replaces the newest one, so it must continue what that one continued.
            confirmed.1 = self.newest.1;
        }
        let (mut tail, mut tail_records) = (Vec::new(), 0);
        for group in groups {
            tail.extend_from_slice(&group.payload);
            tail_records += group.records;
        }
        let last_seq = confirmed.0 + tail_records as u64;
        ReplayResult { last_seq, confirmed, tail, tail_records, bytes: self.bytes }
    }
}

/// The next intact group of that epoch at or after `offset`.
pub(super) fn find_group(bytes: &[u8], offset: usize, epoch: u64) -> Option<DecodedGroup<'_>> {
    let may_begin = |at: &usize| bytes[*at..].starts_with(&GROUP_MAGIC);
    (offset..bytes.len()).step_by(ALIGN).filter(may_begin).find_map(|at| decode_group(bytes, at, epoch))
}
