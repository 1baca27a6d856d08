//! Appending to the log: one write per group, and a sync when the caller requests it.

use super::ReplayResult;
use super::segment::WalSegments;
use crate::Limits;
use crate::codec::frame::{self, GroupSpan, LogPosition, SEGMENT_HEADER, SegmentHeader, group_len};
use crate::codec::record;
use crate::disk::File;
use crate::types::commit::Commit;
use kstore_nondet::Rng;
use std::io;
use std::sync::Arc;

/// Size of a sync marker, which is a group without records.
const SYNC_MARKER_BYTES: u64 = group_len(0) as u64;

/// The log's appender: writes groups to the newest segment. One thread owns it at a time.
#[derive(Debug)]
pub(crate) struct Wal {
    segments: Arc<WalSegments>,
    cluster: u64,
    rng: Rng,
    /// Size of a segment that is created when none is prepared.
    fresh_bytes: u64,
    file: Arc<dyn File>,
    size: u64,
    position: LogPosition,
    /// Sequence number of the last written record.
    written_seq: u64,
    /// Sequence number of the last record known to be durable.
    synced_seq: u64,
    /// The last record that a group in the log confirms as durable. A restart cannot be sure of later records.
    marked_seq: u64,
    /// The encoded group; kept to reuse its allocation.
    buffer: Vec<u8>,
    /// The position after the encoded group.
    next_position: LogPosition,
}

impl Wal {
    /// Starts a new segment after what was replayed. Records that were not confirmed durable are written again into it
    /// and synced, because the replay may have read them from the cache only.
    pub(crate) fn begin(
        segments: Arc<WalSegments>,
        cluster: u64,
        rng: Rng,
        replayed: &ReplayResult,
        limits: &Limits,
    ) -> io::Result<Self> {
        let (marked_seq, chain) = replayed.confirmed;
        let epoch = rng.next_u64();
        let header = SegmentHeader::new(cluster, epoch, marked_seq + 1, chain);
        let start = LogPosition { epoch, offset: SEGMENT_HEADER as u64, chain };
        let (mut position, mut tail) = (start, Vec::new());
        if replayed.tail_records > 0 {
            let span =
                GroupSpan { count: replayed.tail_records, first_seq: marked_seq + 1, synced_seq: marked_seq };
            position =
                frame::encode_group(&mut tail, start, span, |out| out.extend_from_slice(&replayed.tail));
        }
        let fresh_bytes = limits.first_segment_bytes;
        let (file, size) = segments.make(&header, &tail, position.offset + SYNC_MARKER_BYTES, fresh_bytes)?;
        let written_seq = replayed.last_seq;
        let synced_seq = written_seq;
        Ok(Self {
            segments,
            cluster,
            rng,
            fresh_bytes,
            file,
            size,
            position,
            written_seq,
            synced_seq,
            marked_seq,
            buffer: Vec::new(),
            next_position: position,
        })
    }

    /// Writes commits as one group. Returns its length in bytes. Not durable until [`Wal::sync`].
    pub(crate) fn append(&mut self, commits: &[Arc<Commit>]) -> io::Result<usize> {
        let _span = tracing::debug_span!("wal", commits = commits.len()).entered();
        let encode = |out: &mut Vec<u8>| commits.iter().for_each(|commit| record::encode(out, commit));
        self.make_group(commits.len(), encode);
        // Space for a sync marker must remain.
        if self.position.offset + self.buffer.len() as u64 + SYNC_MARKER_BYTES > self.size {
            self.rotate(self.buffer.len())?;
            self.make_group(commits.len(), encode);
        }
        self.write_group()?;
        self.written_seq += commits.len() as u64;
        Ok(self.buffer.len())
    }

    /// Makes everything appended durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()?;
        self.synced_seq = self.written_seq;
        Ok(())
    }

    /// Sequence number of the last record known to be durable.
    pub(crate) fn synced_seq(&self) -> u64 {
        self.synced_seq
    }

    /// Whether something was appended since the last sync.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.synced_seq < self.written_seq
    }

    /// Whether the segment is full enough to prepare the next one.
    pub(crate) fn needs_spare(&self) -> bool {
        self.position.offset > self.size / 2
    }

    /// Whether the log contains records that no group confirms as durable.
    pub(crate) fn needs_sync_marker(&self) -> bool {
        self.marked_seq < self.written_seq
    }

    /// Syncs unsynced records and writes a durable sync marker, so that the next start need not rewrite the last group.
    pub(crate) fn write_sync_marker(&mut self) -> io::Result<()> {
        if self.has_unsynced() {
            self.sync()?;
        }
        if self.needs_sync_marker() {
            self.make_group(0, |_| ());
            self.write_group()?;
            self.file.sync()?;
        }
        Ok(())
    }

    fn make_group(&mut self, count: usize, records: impl FnOnce(&mut Vec<u8>)) {
        let span = GroupSpan { count, first_seq: self.written_seq + 1, synced_seq: self.synced_seq };
        let mut buffer = std::mem::take(&mut self.buffer);
        self.next_position = frame::encode_group(&mut buffer, self.position, span, records);
        self.buffer = buffer;
    }

    fn write_group(&mut self) -> io::Result<()> {
        self.file.write_at(self.position.offset, &self.buffer)?;
        self.position = self.next_position;
        self.marked_seq = self.synced_seq;
        Ok(())
    }

    /// Starts the next segment. The old one is synced first, so that a segment with a successor is complete.
    fn rotate(&mut self, group: usize) -> io::Result<()> {
        if self.has_unsynced() {
            self.sync()?;
        }
        let epoch = self.rng.next_u64();
        let header = SegmentHeader::new(self.cluster, epoch, self.written_seq + 1, self.position.chain);
        let least = (SEGMENT_HEADER + group) as u64 + SYNC_MARKER_BYTES;
        (self.file, self.size) = self.segments.make(&header, &[], least, self.fresh_bytes)?;
        self.marked_seq = self.written_seq;
        self.position = LogPosition { epoch, offset: SEGMENT_HEADER as u64, chain: self.position.chain };
        Ok(())
    }
}
