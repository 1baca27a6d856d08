//! The log's framing: the segment header, and the group, which is the unit of writing, syncing and checking.
//!
//! A group is a header with its own checksum (so that its length is checked before it is used), the records, and a
//! checksum over both. The checksum is seeded with the previous group's (so that a lost or stale group breaks the
//! chain). Zeros pad the group to a multiple of eight bytes. All integers have fixed width and are little-endian.

use bincode::config::legacy;
use bincode::{Decode, Encode};

/// Size of a segment's header: one page, so that no group shares a page with it.
pub(crate) const SEGMENT_HEADER: usize = 4096;

/// Size of a group's header, including its checksum.
pub(crate) const GROUP_HEADER: usize = 52;

/// Alignment of groups.
pub(crate) const ALIGN: usize = 8;

const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"kstoreWL");
/// The first bytes of every group.
pub(crate) const GROUP_MAGIC: [u8; 4] = *b"kGRP";
const FORMAT: u32 = 1;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SegmentHeader {
    magic: u64,
    format: u32,
    /// The id of the data that this log belongs to.
    pub(crate) cluster: u64,
    /// A random number per segment, so that neither groups of another segment nor a stored value can be taken for a
    /// group of this one.
    pub(crate) epoch: u64,
    /// Sequence number of the first record.
    pub(crate) first_seq: u64,
    /// Checksum of the group before `first_seq`.
    pub(crate) chain: u32,
}

/// The header of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct GroupHeader {
    magic: u32,
    /// Bytes of records.
    pub(crate) len: u32,
    /// Number of records; zero in a sync marker, which only records how far the log is synced.
    pub(crate) count: u32,
    /// Checksum of the previous group.
    pub(crate) chain: u32,
    pub(crate) epoch: u64,
    /// Offset of the group in its file.
    pub(crate) offset: u64,
    /// Sequence number of the first record.
    pub(crate) first_seq: u64,
    /// Sequence number up to which all records were durable when the group was written.
    pub(crate) synced_seq: u64,
}

impl SegmentHeader {
    pub(crate) fn new(cluster: u64, epoch: u64, first_seq: u64, chain: u32) -> Self {
        Self { magic: SEGMENT_MAGIC, format: FORMAT, cluster, epoch, first_seq, chain }
    }

    /// Encodes the header, padded to its page.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEGMENT_HEADER);
        put_checked(&mut out, self);
        out.resize(SEGMENT_HEADER, 0);
        out
    }

    /// Decodes a header; none if it is not one of this format.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let header: Self = take_checked(bytes)?;
        (header.magic == SEGMENT_MAGIC && header.format == FORMAT).then_some(header)
    }
}

/// Position in a segment at which the next group is written: epoch, offset, and checksum chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPosition {
    pub(crate) epoch: u64,
    pub(crate) offset: u64,
    pub(crate) chain: u32,
}

/// The record count and sequence numbers of a new group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupSpan {
    pub(crate) count: usize,
    pub(crate) first_seq: u64,
    pub(crate) synced_seq: u64,
}

/// Encodes a group into `out`, replacing its content; `records` appends the records. Returns the position after the
/// group.
pub(crate) fn encode_group(
    out: &mut Vec<u8>,
    at: LogPosition,
    span: GroupSpan,
    records: impl FnOnce(&mut Vec<u8>),
) -> LogPosition {
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
    LogPosition { offset: at.offset + out.len() as u64, chain, ..at }
}

/// Size of a group whose records have `len` bytes.
pub(crate) const fn group_len(len: usize) -> usize {
    (GROUP_HEADER + len + 4).next_multiple_of(ALIGN)
}

/// A decoded group with valid checksums.
#[derive(Debug)]
pub(crate) struct DecodedGroup<'a> {
    pub(crate) header: GroupHeader,
    pub(crate) payload: &'a [u8],
    /// The group's checksum, which seeds the next group's.
    pub(crate) chain: u32,
    /// Offset of the next group.
    pub(crate) end: usize,
}

/// Decodes the group at `offset` of a segment; `None` if no intact group of that epoch is there. The caller checks
/// whether it continues the chain.
pub(crate) fn decode_group(segment: &[u8], offset: usize, epoch: u64) -> Option<DecodedGroup<'_>> {
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
    (chain == stored).then_some(DecodedGroup { header, payload: &whole[GROUP_HEADER..], chain, end: next })
}

/// The epoch of the group at `offset`, if its header is intact. Only for the start of a segment whose own header is
/// damaged: elsewhere a stored value could look like a group.
pub(crate) fn epoch_at(segment: &[u8], offset: usize) -> Option<u64> {
    let header: GroupHeader = take_checked(segment.get(offset..)?)?;
    let own = header.magic == u32::from_le_bytes(GROUP_MAGIC) && header.offset == offset as u64;
    own.then_some(header.epoch)
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

    const AT: LogPosition = LogPosition { epoch: 9, offset: 16, chain: 77 };

    fn group() -> Vec<u8> {
        let mut out = Vec::new();
        let span = GroupSpan { count: 2, first_seq: 5, synced_seq: 4 };
        encode_group(&mut out, AT, span, |out| out.extend_from_slice(b"onetwo"));
        let mut segment = vec![0; 16];
        segment.append(&mut out);
        segment
    }

    #[test]
    fn a_group_decodes() {
        let segment = group();
        let read = decode_group(&segment, 16, 9).unwrap();
        assert_eq!(read.payload, b"onetwo");
        assert_eq!((read.header.first_seq, read.header.synced_seq, read.header.count), (5, 4, 2));
        assert_eq!((read.header.chain, read.end), (77, segment.len()));
        assert_eq!(read.end - 16, group_len(6));
    }

    #[test]
    fn a_misplaced_damaged_or_foreign_group_does_not_decode() {
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
    fn a_segment_header_decodes_and_is_checked() {
        let header = SegmentHeader::new(1, 2, 3, 4);
        let mut page = header.encode();
        assert_eq!((page.len(), SegmentHeader::decode(&page)), (SEGMENT_HEADER, Some(header)));
        page[20] ^= 1;
        assert_eq!(SegmentHeader::decode(&page), None);
    }
}
