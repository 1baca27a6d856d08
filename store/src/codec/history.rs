//! The encoding of records in the files of the `segments` engine, and of the list of those files.
//!
//! A record is kind, revision, sub-revision, length, checksum over all of it, then the content. All integers have fixed
//! width and are little-endian.

use super::DecodeError;
use crate::Revision;
use crate::types::record::{RecordKey, RecordKind};
use bincode::config::legacy;
use bincode::{Decode, Encode};

/// First bytes of an engine file: magic and version.
pub(crate) const FILE_HEADER: &[u8; 8] = b"kstoreH1";

/// Size of a record's header.
pub(crate) const RECORD_HEADER: usize = 21;

#[derive(Encode, Decode)]
struct Header {
    kind: u8,
    main: i64,
    sub: u32,
    len: u32,
}

const HEADER: usize = RECORD_HEADER - 4;

/// A decoded entry of an engine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryEntry<'a> {
    /// A record of history.
    Record(RecordKind, RecordKey, &'a [u8]),
    /// The keys of removed records, in this or other files.
    Removed(&'a [u8]),
    /// The replacement of a record that was damaged beyond repair.
    StandIn(StandIn<'a>),
    /// A record of history that is deflated; see `codec::packed`.
    Packed(PackedRecord<'a>),
    /// The dictionary of packed records near it, deflated.
    Dictionary(&'a [u8]),
}

/// A deflated record, which is inflated with a dictionary in the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedRecord<'a> {
    pub(crate) kind: RecordKind,
    pub(crate) key: RecordKey,
    /// Bytes from the begin of this entry back to the begin of the first copy of the dictionary's entry.
    pub(crate) before: u32,
    /// Bytes from the begin of this entry on to the begin of the second copy.
    pub(crate) after: u32,
    /// Length of the record, inflated.
    pub(crate) len: u32,
    /// The first bytes of the record, as they are: of a version those up to the end of its key.
    pub(crate) prefix: &'a [u8],
    /// The rest of the record, deflated without a header.
    pub(crate) deflated: &'a [u8],
}

/// Replaces a record whose content is lost. It keeps the record's name, so that no read returns an older record
/// instead. It also locates the damaged bytes, so that the next start skips them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StandIn<'a> {
    pub(crate) kind: RecordKind,
    pub(crate) key: RecordKey,
    /// The number of the file with the damaged bytes.
    pub(crate) file: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// The name of the record: for a version its key and revision, encoded as a version without value; for a note,
    /// empty.
    pub(crate) name: &'a [u8],
}

// Kinds of entries that are no records. The lower numbers are `RecordKind::code`.
const REMOVED: u8 = 3;
const STAND_IN: u8 = 4;
const PACKED: u8 = 5;
const DICTIONARY: u8 = 6;

/// Size of a packed record's fields before its bytes: the record's kind, then the distances of the dictionary, the record's length, and
/// that of its prefix.
const PACKED_FIELDS: usize = 17;

/// Size of a stand-in's fields before the name: the record's kind, then file, offset and length of the damaged bytes.
const STAND_IN_FIELDS: usize = 13;

/// Appends a record.
pub(crate) fn put(out: &mut Vec<u8>, kind: RecordKind, key: RecordKey, bytes: &[u8]) {
    append(out, kind.code(), key, bytes);
}

/// Appends a stand-in.
pub(crate) fn put_stand_in(out: &mut Vec<u8>, stand_in: &StandIn<'_>) {
    let mut bytes = Vec::with_capacity(STAND_IN_FIELDS + stand_in.name.len());
    bytes.push(stand_in.kind.code());
    for number in [stand_in.file, stand_in.offset, stand_in.len] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(stand_in.name);
    append(out, STAND_IN, stand_in.key, &bytes);
}

fn stand_in(key: RecordKey, body: &[u8]) -> Option<StandIn<'_>> {
    let (fields, name) = body.split_at_checked(STAND_IN_FIELDS)?;
    let (kind, numbers) = fields.split_first()?;
    let mut numbers = numbers.chunks_exact(4).map(|n| u32::from_le_bytes(n.try_into().expect("four bytes")));
    let (file, offset, len) = (numbers.next()?, numbers.next()?, numbers.next()?);
    Some(StandIn { kind: RecordKind::from_code(*kind)?, key, file, offset, len, name })
}

/// Appends a packed record.
pub(crate) fn put_packed(out: &mut Vec<u8>, packed: &PackedRecord<'_>) {
    let PackedRecord { kind, key, before, after, len, prefix, deflated } = *packed;
    let mut bytes = Vec::with_capacity(PACKED_FIELDS + prefix.len() + deflated.len());
    bytes.push(kind.code());
    let prefix_len = u32::try_from(prefix.len()).expect("a record is bounded far below 4 GiB");
    for number in [before, after, len, prefix_len] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(prefix);
    bytes.extend_from_slice(deflated);
    append(out, PACKED, key, &bytes);
}

/// Length of a packed record's entry.
pub(crate) fn packed_len(prefix: usize, deflated: usize) -> usize {
    RECORD_HEADER + PACKED_FIELDS + prefix + deflated
}

fn packed(key: RecordKey, body: &[u8]) -> Option<PackedRecord<'_>> {
    let (fields, bytes) = body.split_at_checked(PACKED_FIELDS)?;
    let (kind, numbers) = fields.split_first()?;
    let mut numbers = numbers.chunks_exact(4).map(|n| u32::from_le_bytes(n.try_into().expect("four bytes")));
    let (before, after, len) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let (prefix, deflated) = bytes.split_at_checked(numbers.next()? as usize)?;
    Some(PackedRecord { kind: RecordKind::from_code(*kind)?, key, before, after, len, prefix, deflated })
}

/// Appends a deflated dictionary.
pub(crate) fn put_dictionary(out: &mut Vec<u8>, deflated: &[u8]) {
    append(out, DICTIONARY, RecordKey::new(Revision(0), 0), deflated);
}

/// Appends an entry with the keys of removed records.
pub(crate) fn put_removed(out: &mut Vec<u8>, keys: &[RecordKey]) {
    let mut bytes = Vec::with_capacity(keys.len() * REMOVED_KEY);
    for key in keys {
        bytes.extend_from_slice(&key.main.0.to_le_bytes());
        bytes.extend_from_slice(&key.sub.to_le_bytes());
    }
    append(out, REMOVED, RecordKey::new(Revision(0), 0), &bytes);
}

/// Size of one key in a removal entry.
pub(crate) const REMOVED_KEY: usize = 12;

/// Decodes the keys of [`HistoryEntry::Removed`].
pub(crate) fn removed_keys(bytes: &[u8]) -> impl Iterator<Item = RecordKey> + '_ {
    bytes.chunks_exact(REMOVED_KEY).map(|key| {
        let (main, sub) = key.split_at(8);
        let main = i64::from_le_bytes(main.try_into().expect("a chunk of eight"));
        RecordKey::new(Revision(main), u32::from_le_bytes(sub.try_into().expect("a chunk of four")))
    })
}

fn append(out: &mut Vec<u8>, kind: u8, key: RecordKey, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("a record is bounded far below 4 GiB");
    let from = out.len();
    let header = Header { kind, main: key.main.0, sub: key.sub, len };
    bincode::encode_into_std_write(header, out, legacy()).expect("a vector takes everything");
    let crc = checksum(&out[from..], bytes);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn checksum(header: &[u8], bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(bytes);
    hasher.finalize()
}

/// Decodes the entry at the start of `bytes` and returns its length; none if it is incomplete or its checksum is wrong.
pub(crate) fn read(bytes: &[u8]) -> Option<(HistoryEntry<'_>, usize)> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (fields, _) = bincode::decode_from_slice::<Header, _>(header, legacy()).ok()?;
    let body = rest.get(..fields.len as usize)?;
    if checksum(header, body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let key = RecordKey::new(Revision(fields.main), fields.sub);
    let entry = match fields.kind {
        REMOVED => HistoryEntry::Removed(body),
        STAND_IN => HistoryEntry::StandIn(stand_in(key, body)?),
        PACKED => HistoryEntry::Packed(packed(key, body)?),
        DICTIONARY => HistoryEntry::Dictionary(body),
        code => HistoryEntry::Record(RecordKind::from_code(code)?, key, body),
    };
    Some((entry, RECORD_HEADER + body.len()))
}

/// Corrects the entry at the start of `bytes` if a single bit of it is flipped.
///
/// The checksum identifies the bit: no two single bits of an entry below 512 MiB change a CRC-32 in the same way.
/// Greater damage is mistaken for one bit with a probability of (bits of the entry) / 2^32.
pub(crate) fn correct(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = bytes.get(..HEADER)?;
    let stored = u32::from_le_bytes(*bytes.get(HEADER..)?.first_chunk()?);
    let len = u32::from_le_bytes(*header.get(LEN_FIELD..)?.first_chunk()?);
    let whole = |len: u32| bytes.get(..RECORD_HEADER.checked_add(len as usize)?);
    let mut found = Vec::new();
    if let Some(entry) = whole(len) {
        found.extend(correct_in_place(entry, stored));
    }
    for bit in 0..u32::BITS {
        let Some(entry) = whole(len ^ (1 << bit)) else { continue };
        let mut entry_header: [u8; HEADER] = header.try_into().ok()?;
        entry_header[LEN_FIELD + (bit / 8) as usize] ^= 1 << (bit % 8);
        if checksum(&entry_header, &entry[RECORD_HEADER..]) == stored {
            found.push([&entry_header[..], &entry[HEADER..]].concat());
        }
    }
    let entry = found.pop().filter(|_| found.is_empty())?;
    read(&entry).is_some_and(|(_, len)| len == entry.len()).then_some(entry)
}

/// Offset of the length in the header; it is the header's last field.
const LEN_FIELD: usize = HEADER - 4;

/// Corrects an entry whose length field is right.
fn correct_in_place(entry: &[u8], stored: u32) -> Option<Vec<u8>> {
    let (header, body) = (&entry[..HEADER], &entry[RECORD_HEADER..]);
    let difference = checksum(header, body) ^ stored;
    let mut entry = entry.to_vec();
    if difference.is_power_of_two() {
        let flipped = (stored ^ difference).to_le_bytes();
        entry[HEADER..RECORD_HEADER].copy_from_slice(&flipped);
        return Some(entry);
    }
    let (byte, mask) = flipped_bit(difference, HEADER + body.len())?;
    let at = match byte {
        byte if byte < LEN_FIELD => byte,
        // With a flipped length the entry would have had another length.
        byte if byte < HEADER => return None,
        byte => byte + RECORD_HEADER - HEADER,
    };
    entry[at] ^= mask;
    Some(entry)
}

/// Finds the single bit of `len` bytes whose flip changes their CRC-32 by `difference`: its byte, and the bit in it.
fn flipped_bit(difference: u32, len: usize) -> Option<(usize, u8)> {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    // The effect of flipping the last bit; each earlier bit is one more step of the shift register.
    let mut change = POLYNOMIAL;
    for byte in (0..len).rev() {
        for bit in (0..8).rev() {
            if change == difference {
                return Some((byte, 1 << bit));
            }
            change = if change & 1 == 1 { (change >> 1) ^ POLYNOMIAL } else { change >> 1 };
        }
    }
    None
}

/// Restores a damaged entry from a copy of its record. Returns the encoded copy if the stored checksum or the stored
/// content matches the copy. None if neither matches: then a damaged name points to the copy of another record.
pub(crate) fn restored(damaged: &[u8], kind: RecordKind, key: RecordKey, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut entry = Vec::with_capacity(RECORD_HEADER + bytes.len());
    put(&mut entry, kind, key, bytes);
    let damaged = damaged.get(..entry.len())?;
    let same = |part: std::ops::Range<usize>| damaged[part.clone()] == entry[part];
    (same(HEADER..RECORD_HEADER) || same(RECORD_HEADER..entry.len())).then_some(entry)
}

/// Reads the record key and length of the entry at the start of `bytes` without checking them. None if it is not a
/// record.
pub(crate) fn peek(bytes: &[u8]) -> Option<(RecordKey, usize)> {
    let header = bytes.get(..HEADER)?;
    let (fields, _) = bincode::decode_from_slice::<Header, _>(header, legacy()).ok()?;
    let key = RecordKey::new(Revision(fields.main), fields.sub);
    (fields.kind < REMOVED).then_some((key, RECORD_HEADER + fields.len as usize))
}

/// Reads key and length of the packed record at the start of `bytes` without checking them. None if it is no packed record.
pub(crate) fn peek_packed(bytes: &[u8]) -> Option<(RecordKey, usize)> {
    let header = bytes.get(..HEADER)?;
    let (fields, _) = bincode::decode_from_slice::<Header, _>(header, legacy()).ok()?;
    let key = RecordKey::new(Revision(fields.main), fields.sub);
    (fields.kind == PACKED).then_some((key, RECORD_HEADER + fields.len as usize))
}

/// Bytes before the prefix of a packed record in its entry.
pub(crate) const PACKED_HEADER: usize = RECORD_HEADER + PACKED_FIELDS;

/// Reads the length of the dictionary's entry at the start of `bytes` without checking it. None if it is no dictionary.
pub(crate) fn peek_dictionary(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..HEADER)?;
    let (fields, _) = bincode::decode_from_slice::<Header, _>(header, legacy()).ok()?;
    (fields.kind == DICTIONARY).then_some(RECORD_HEADER + fields.len as usize)
}

/// The files of an engine state, each with the length that belongs to the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct FileList {
    pub(crate) files: Vec<(u32, u64)>,
}

pub(crate) fn encode_list(list: &FileList) -> Vec<u8> {
    let mut out = Vec::new();
    super::put(&mut out, list);
    out
}

pub(crate) fn decode_list(bytes: &[u8]) -> Result<FileList, DecodeError> {
    super::take(bytes).map(|(list, _)| list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_list_with_a_wrong_count_allocates_no_memory_for_it() {
        for claimed in [1u64 << 60, 1 << 32] {
            // A count after the marker for an 8-byte integer.
            let mut bytes = vec![crate::codec::VERSION, 253];
            bytes.extend_from_slice(&claimed.to_le_bytes());
            bytes.extend_from_slice(&[1, 20, 7, 30]);
            assert_eq!(decode_list(&bytes), Err(DecodeError::Malformed), "{claimed} files");
        }
    }

    #[test]
    fn entries_decode_in_order_and_any_flipped_bit_is_detected() {
        let key = RecordKey::new(Revision(1 << 40), 3);
        let mut bytes = Vec::new();
        put(&mut bytes, RecordKind::Put, key, b"value");
        let first = bytes.len();
        put_removed(&mut bytes, &[key, RecordKey::note(Revision(2))]);
        assert_eq!(read(&bytes), Some((HistoryEntry::Record(RecordKind::Put, key, b"value"), first)));
        let Some((HistoryEntry::Removed(keys), _)) = read(&bytes[first..]) else {
            panic!("the second is a removal")
        };
        assert!(removed_keys(keys).eq([key, RecordKey::note(Revision(2))]));
        for at in 0..first {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(read(&damaged), None, "byte {at}");
            assert_eq!(read(&bytes[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn any_single_flipped_bit_of_an_entry_is_corrected_and_two_are_not() {
        let key = RecordKey::new(Revision(77), 3);
        let stand_in = StandIn { kind: RecordKind::Put, key, file: 1, offset: 2, len: 3, name: b"name" };
        let mut records = vec![Vec::new(); 4];
        put(&mut records[0], RecordKind::Put, key, &[0x5a; 300]);
        put_removed(&mut records[1], &[key, RecordKey::note(Revision(2))]);
        put_stand_in(&mut records[2], &stand_in);
        put(&mut records[3], RecordKind::Delete, key, b"");
        assert_eq!(read(&records[2]), Some((HistoryEntry::StandIn(stand_in), records[2].len())));
        for entry in &records {
            let behind = [&entry[..], &records[0]].concat();
            for bit in 0..entry.len() * 8 {
                let mut damaged = behind.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(correct(&damaged).as_ref(), Some(entry), "bit {bit}");
                let other = (bit * 7 + 13) % (entry.len() * 8);
                if other != bit {
                    damaged[other / 8] ^= 1 << (other % 8);
                    assert_eq!(correct(&damaged), None, "bits {bit} and {other}");
                }
            }
        }
    }

    #[test]
    fn a_copy_restores_a_damaged_entry_only_if_checksum_or_content_match() {
        let (key, other) = (RecordKey::new(Revision(7), 0), RecordKey::new(Revision(8), 0));
        let mut entry = Vec::new();
        put(&mut entry, RecordKind::Put, key, b"a body");
        let whole = entry.clone();
        entry[RECORD_HEADER + 2] ^= 0xff;
        assert_eq!(restored(&entry, RecordKind::Put, key, b"a body"), Some(whole.clone()));
        assert_eq!(restored(&entry, RecordKind::Put, other, b"a body"), None);
        entry.clone_from(&whole);
        entry[HEADER] ^= 0xff;
        assert_eq!(restored(&entry, RecordKind::Put, key, b"a body"), Some(whole));
        assert_eq!(restored(&entry, RecordKind::Put, key, b"a different one"), None);
    }
}
