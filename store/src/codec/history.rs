//! The form of records in the files of the `segments` engine, and of the list of those files.
//!
//! A record is kind, revision, place in the revision, length, checksum over all of it, then the bytes. Fixed-width
//! integers, little-endian.

use bincode::config::legacy;
use bincode::{Decode, Encode};

use super::DecodeError;
use crate::Revision;
use crate::commit::RecordKey;
use crate::engine::RecordKind;

/// What a file of the engine begins with: magic and version.
pub(crate) const FILE_HEADER: &[u8; 8] = b"kstoreH1";

/// What a record occupies beside its bytes.
pub(crate) const RECORD_HEADER: usize = 21;

#[derive(Encode, Decode)]
struct Header {
    kind: u8,
    main: i64,
    sub: u32,
    len: u32,
}

const HEADER: usize = RECORD_HEADER - 4;

/// What stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// A record of history.
    Record(RecordKind, RecordKey, &'a [u8]),
    /// The keys of records that are no longer wanted, wherever they stand.
    Removed(&'a [u8]),
}

const REMOVED: u8 = 3;

/// Appends a record.
pub(crate) fn put(out: &mut Vec<u8>, kind: RecordKind, key: RecordKey, bytes: &[u8]) {
    let kind = match kind {
        RecordKind::Put => 0,
        RecordKind::Delete => 1,
        RecordKind::Note => 2,
    };
    append(out, kind, key, bytes);
}

/// Appends the keys of records that are no longer wanted.
pub(crate) fn put_removed(out: &mut Vec<u8>, keys: &[RecordKey]) {
    let mut bytes = Vec::with_capacity(keys.len() * REMOVED_KEY);
    for key in keys {
        bytes.extend_from_slice(&key.main.0.to_le_bytes());
        bytes.extend_from_slice(&key.sub.to_le_bytes());
    }
    append(out, REMOVED, RecordKey::new(Revision(0), 0), &bytes);
}

/// What the removal of a record occupies.
pub(crate) const REMOVED_KEY: usize = 12;

/// The keys in [`Entry::Removed`].
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

/// Reads the entry that `bytes` begins with, and says how long it is; none if it is not whole or does not check.
pub(crate) fn read(bytes: &[u8]) -> Option<(Entry<'_>, usize)> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (fields, _) = bincode::decode_from_slice::<Header, _>(header, legacy()).ok()?;
    let body = rest.get(..fields.len as usize)?;
    if checksum(header, body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let key = RecordKey::new(Revision(fields.main), fields.sub);
    let entry = match fields.kind {
        0 => Entry::Record(RecordKind::Put, key, body),
        1 => Entry::Record(RecordKind::Delete, key, body),
        2 => Entry::Record(RecordKind::Note, key, body),
        REMOVED => Entry::Removed(body),
        _ => return None,
    };
    Some((entry, RECORD_HEADER + body.len()))
}

/// What the entry that `bytes` begins with says of itself, unchecked: a record's name, and how long it is. None if no
/// record begins so.
pub(crate) fn peek(bytes: &[u8]) -> Option<(RecordKey, usize)> {
    let header = bytes.get(..HEADER)?;
    let (fields, _) = bincode::decode_from_slice::<Header, _>(header, legacy()).ok()?;
    let key = RecordKey::new(Revision(fields.main), fields.sub);
    (fields.kind < REMOVED).then_some((key, RECORD_HEADER + fields.len as usize))
}

/// The files that make up a state, with the length that counts of each.
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
    fn a_list_that_claims_more_files_than_its_bytes_can_hold_takes_no_space_for_them() {
        for claimed in [1u64 << 60, 1 << 32] {
            // A count behind the mark of one that takes eight bytes.
            let mut bytes = vec![crate::codec::VERSION, 253];
            bytes.extend_from_slice(&claimed.to_le_bytes());
            bytes.extend_from_slice(&[1, 20, 7, 30]);
            assert_eq!(decode_list(&bytes), Err(DecodeError::Malformed), "{claimed} files");
        }
    }

    #[test]
    fn entries_read_back_in_order_and_any_flipped_bit_is_noticed() {
        let key = RecordKey::new(Revision(1 << 40), 3);
        let mut bytes = Vec::new();
        put(&mut bytes, RecordKind::Put, key, b"value");
        let first = bytes.len();
        put_removed(&mut bytes, &[key, RecordKey::note(Revision(2))]);
        assert_eq!(read(&bytes), Some((Entry::Record(RecordKind::Put, key, b"value"), first)));
        let Some((Entry::Removed(keys), _)) = read(&bytes[first..]) else {
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
}
