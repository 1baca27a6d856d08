//! The log's framing: what a segment begins with, and the group, which is the unit that is written, synced and checked.
//!
//! A group is a header with its own checksum (so that a length is not trusted before it is checked), the records, a
//! checksum over all of it seeded with the group before (so that a lost or stale group breaks the chain), and zeros up to
//! a multiple of eight. Fixed-width integers, little-endian.

use bincode::config::legacy;
use bincode::{Decode, Encode};

/// What a segment's header occupies: one page, so that groups do not share it.
pub(crate) const SEGMENT_HEADER: usize = 4096;

/// What a group's header occupies, its checksum included.
pub(crate) const GROUP_HEADER: usize = 52;

/// Groups begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"kstoreWL");
/// What every group begins with.
pub(crate) const GROUP_MAGIC: [u8; 4] = *b"kGRP";
const FORMAT: u32 = 1;

/// The beginning of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SegmentHeader {
    magic: u64,
    format: u32,
    /// Whose log this is.
    pub(crate) cluster: u64,
    /// Random per segment: groups of another one cannot be taken for its own, nor can a value forge one.
    pub(crate) epoch: u64,
    /// The first record's place in the log.
    pub(crate) first_seq: u64,
    /// The checksum of the group before `first_seq`.
    pub(crate) chain: u32,
}

/// The beginning of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct GroupHeader {
    magic: u32,
    /// Bytes of records.
    pub(crate) len: u32,
    /// Number of records; none in a group that only says how far the log is synced.
    pub(crate) count: u32,
    /// The checksum of the group before.
    pub(crate) chain: u32,
    pub(crate) epoch: u64,
    /// Where in its file it stands.
    pub(crate) offset: u64,
    /// The first record's place in the log.
    pub(crate) first_seq: u64,
    /// Every record up to this one was known to be durable when the group was written.
    pub(crate) synced_seq: u64,
}

impl SegmentHeader {
    pub(crate) fn new(cluster: u64, epoch: u64, first_seq: u64, chain: u32) -> Self {
        Self { magic: SEGMENT_MAGIC, format: FORMAT, cluster, epoch, first_seq, chain }
    }

    /// The header's page.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEGMENT_HEADER);
        put_checked(&mut out, self);
        out.resize(SEGMENT_HEADER, 0);
        out
    }

    /// Reads a header; none if it is not one of this format.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let header: Self = take_checked(bytes)?;
        (header.magic == SEGMENT_MAGIC && header.format == FORMAT).then_some(header)
    }
}

/// What every group of a segment shares, and where the next one goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) epoch: u64,
    pub(crate) offset: u64,
    pub(crate) chain: u32,
}

/// What a new group says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) count: usize,
    pub(crate) first_seq: u64,
    pub(crate) synced_seq: u64,
}

/// Makes a group in `out`, which then holds nothing else: `records` appends its records. Returns the position behind it.
pub(crate) fn encode_group(
    out: &mut Vec<u8>,
    at: Position,
    span: Span,
    records: impl FnOnce(&mut Vec<u8>),
) -> Position {
    out.clear();
    out.resize(GROUP_HEADER, 0);
    records(out);
    let len = out.len() - GROUP_HEADER;
    let header = GroupHeader {
        magic: u32::from_le_bytes(GROUP_MAGIC),
        len: u32::try_from(len).expect("a group is bounded far below 4 GiB"),
        count: u32::try_from(span.count).expect("a group is bounded"),
        chain: at.chain,
        epoch: at.epoch,
        offset: at.offset,
        first_seq: span.first_seq,
        synced_seq: span.synced_seq,
    };
    let mut head = Vec::with_capacity(GROUP_HEADER);
    put_checked(&mut head, &header);
    out[..GROUP_HEADER].copy_from_slice(&head);
    let chain = chained(at.chain, out);
    out.extend_from_slice(&chain.to_le_bytes());
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    Position { offset: at.offset + out.len() as u64, chain, ..at }
}

/// How many bytes a group of records of `len` bytes occupies.
pub(crate) const fn group_len(len: usize) -> usize {
    (GROUP_HEADER + len + 4).next_multiple_of(ALIGN)
}

/// A checked group.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) header: GroupHeader,
    pub(crate) payload: &'a [u8],
    /// Its checksum, which seeds the next one's.
    pub(crate) chain: u32,
    /// Where the next one goes.
    pub(crate) end: usize,
}

/// Reads the group at `offset` of a segment; none if there is no whole group of that epoch. Whether it continues the chain
/// is for the caller to compare.
pub(crate) fn decode_group(segment: &[u8], offset: usize, epoch: u64) -> Option<Group<'_>> {
    let bytes = segment.get(offset..)?;
    let header: GroupHeader = take_checked(bytes)?;
    let own = header.magic == u32::from_le_bytes(GROUP_MAGIC)
        && header.epoch == epoch
        && header.offset == offset as u64;
    if !own {
        return None;
    }
    let end = GROUP_HEADER.checked_add(header.len as usize)?;
    let whole = bytes.get(..end)?;
    let stored = u32::from_le_bytes(*bytes.get(end..)?.first_chunk()?);
    let chain = chained(header.chain, whole);
    let next = offset + group_len(header.len as usize);
    (chain == stored).then_some(Group { header, payload: &whole[GROUP_HEADER..], chain, end: next })
}

fn chained(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

fn put_checked<T: Encode>(out: &mut Vec<u8>, value: &T) {
    let from = out.len();
    bincode::encode_into_std_write(value, out, legacy()).expect("a vector takes everything");
    let crc = crc32fast::hash(&out[from..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

fn take_checked<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    let (value, len) = bincode::decode_from_slice(bytes, legacy()).ok()?;
    let stored = u32::from_le_bytes(*bytes.get(len..)?.first_chunk()?);
    (crc32fast::hash(&bytes[..len]) == stored).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Position = Position { epoch: 9, offset: 16, chain: 77 };

    fn group() -> Vec<u8> {
        let mut out = Vec::new();
        let span = Span { count: 2, first_seq: 5, synced_seq: 4 };
        encode_group(&mut out, AT, span, |out| out.extend_from_slice(b"onetwo"));
        let mut segment = vec![0; 16];
        segment.append(&mut out);
        segment
    }

    #[test]
    fn a_group_reads_back() {
        let segment = group();
        let read = decode_group(&segment, 16, 9).unwrap();
        assert_eq!(read.payload, b"onetwo");
        assert_eq!((read.header.first_seq, read.header.synced_seq, read.header.count), (5, 4, 2));
        assert_eq!((read.header.chain, read.end), (77, segment.len()));
        assert_eq!(read.end - 16, group_len(6));
    }

    #[test]
    fn a_group_elsewhere_of_another_epoch_or_damaged_is_none() {
        let segment = group();
        assert!(decode_group(&segment, 16, 8).is_none());
        assert!(decode_group(&segment[8..], 8, 9).is_none());
        for at in 16..16 + GROUP_HEADER + 6 + 4 {
            let mut damaged = segment.clone();
            damaged[at] ^= 1;
            assert!(decode_group(&damaged, 16, 9).is_none(), "byte {at}");
            assert!(decode_group(&segment[..at], 16, 9).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn a_segment_header_reads_back_and_is_checked() {
        let header = SegmentHeader::new(1, 2, 3, 4);
        let mut page = header.encode();
        assert_eq!((page.len(), SegmentHeader::decode(&page)), (SEGMENT_HEADER, Some(header)));
        page[20] ^= 1;
        assert_eq!(SegmentHeader::decode(&page), None);
    }
}
