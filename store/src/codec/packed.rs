//! Packed records: superseded versions, each deflated on its own with a dictionary that a group of them shares. A group is one copy of
//! the dictionary, the packed records, and another copy. So each record is an entry with a checksum, as others are, and is read without
//! its neighbours; damage to one copy of the dictionary loses nothing. Pure.

use super::history::{self, HistoryEntry, PackedRecord, RECORD_HEADER};
use crate::types::kv_encoding;
use crate::types::record::{Record, RecordKey, RecordKind};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::ops::Range;

/// The largest dictionary, in bytes. Deflate refers back 32 KiB at most; the rest is for the record itself.
const DICTIONARY: usize = 24 << 10;

/// Bytes of the largest entry of a dictionary. What does not deflate grows by little.
pub(crate) const ENTRY_BYTES: usize = RECORD_HEADER + DICTIONARY + DICTIONARY / 1_024 + 64;

/// Records that a dictionary has parts of: records of several kinds, each of which repeats most of another one of its kind.
const SAMPLES: usize = 16;

/// Level of deflate: beyond it a group takes much longer and is hardly smaller.
const LEVEL: u32 = 6;

/// No deflated byte stands for more bytes than this. Bounds what a malformed length makes a reader allocate.
const MOST_PER_BYTE: usize = 1_032;

/// A group that is to be appended to a file.
pub(crate) struct PackedGroup {
    /// The encoded entries.
    pub(crate) bytes: Vec<u8>,
    /// The place of each record's entry in `bytes`, in the order of the records.
    pub(crate) entries: Vec<(RecordKey, Range<usize>)>,
}

/// Packs records of one group, in their order. None if that does not save a quarter of their bytes.
pub(crate) fn pack(records: &[Record]) -> Option<PackedGroup> {
    let dictionary = dictionary_of(records);
    let mut deflater = Compress::new(Compression::new(LEVEL), false);
    let mut deflated = Vec::with_capacity(records.len());
    for record in records {
        deflater.reset();
        deflater.set_dictionary(&dictionary).ok()?;
        deflated.push(deflate(&mut deflater, &record.bytes[prefix(&record.bytes)..])?);
    }
    let parts: Vec<_> = records
        .iter()
        .zip(&deflated)
        .map(|(record, deflated)| PackedRecord {
            kind: record.kind,
            key: record.key,
            before: 0,
            after: 0,
            len: u32::try_from(record.bytes.len()).expect("a record is bounded far below 4 GiB"),
            prefix: &record.bytes[..prefix(&record.bytes)],
            deflated,
        })
        .collect();
    let dictionary = deflate(&mut Compress::new(Compression::new(LEVEL), false), &dictionary)?;
    group(&dictionary, &parts).filter(|group| group.bytes.len() < plain_len(&parts) / 4 * 3)
}

/// A group of records that were packed with one dictionary, which is deflated. None if they are not smaller than by themselves.
pub(crate) fn regroup(dictionary: &[u8], records: &[PackedRecord<'_>]) -> Option<PackedGroup> {
    group(dictionary, records).filter(|group| group.bytes.len() < plain_len(records))
}

/// Bytes of the records' entries if they are not packed.
fn plain_len(records: &[PackedRecord<'_>]) -> usize {
    records.iter().map(|record| RECORD_HEADER + record.len as usize).sum()
}

/// Encodes a group: the dictionary, the records with its distances, and the dictionary.
fn group(dictionary: &[u8], records: &[PackedRecord<'_>]) -> Option<PackedGroup> {
    let mut bytes = Vec::new();
    history::put_dictionary(&mut bytes, dictionary);
    let first = bytes.clone();
    let len = |record: &PackedRecord<'_>| history::packed_len(record.prefix.len(), record.deflated.len());
    let second = first.len() + records.iter().map(len).sum::<usize>();
    let mut entries = Vec::with_capacity(records.len());
    for record in records {
        let from = bytes.len();
        let (before, after) = (u32::try_from(from).ok()?, u32::try_from(second - from).ok()?);
        history::put_packed(&mut bytes, &PackedRecord { before, after, ..*record });
        entries.push((record.key, from..bytes.len()));
    }
    bytes.extend_from_slice(&first);
    Some(PackedGroup { bytes, entries })
}

/// Parts of records from the whole group.
fn dictionary_of(records: &[Record]) -> Vec<u8> {
    let mut dictionary = Vec::new();
    for record in records.iter().step_by(records.len().div_ceil(SAMPLES).max(1)) {
        let part = &record.bytes[prefix(&record.bytes)..];
        dictionary.extend_from_slice(&part[..part.len().min(DICTIONARY - dictionary.len())]);
    }
    dictionary
}

/// Bytes at the beginning of a version that are not deflated: those before its value. They are a version without value, by which an index
/// is built and damage is named.
fn prefix(version: &[u8]) -> usize {
    let fields = kv_encoding::decode(version).filter(|fields| !fields.value.is_empty());
    fields.map_or(0, |fields| version[kv_encoding::end_before_value(&fields.value)].len())
}

fn deflate(deflater: &mut Compress, bytes: &[u8]) -> Option<Vec<u8>> {
    // Deflate stores what it cannot make smaller, with five bytes for each 16 KiB at least.
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 1_024 + 64);
    let status = deflater.compress_vec(bytes, &mut out, FlushCompress::Finish).ok()?;
    (status == Status::StreamEnd).then_some(out)
}

/// Inflates packed records and dictionaries. One of them serves many records.
pub(crate) struct Unpacker(Decompress);

impl Default for Unpacker {
    fn default() -> Self {
        Self(Decompress::new(false))
    }
}

impl Unpacker {
    /// The record of an entry, with the content of its dictionary. None if the content is not what was packed.
    pub(crate) fn record(&mut self, entry: &PackedRecord<'_>, dictionary: &[u8]) -> Option<Record> {
        let PackedRecord { kind, key, len, prefix, deflated, .. } = *entry;
        let mut bytes = Vec::with_capacity((len as usize).min(prefix.len() + deflated.len() * MOST_PER_BYTE));
        bytes.extend_from_slice(prefix);
        self.inflate(deflated, dictionary, len as usize, &mut bytes)?;
        Some(Record { kind, key, bytes: bytes.into() })
    }

    /// The content of a dictionary's entry.
    pub(crate) fn dictionary(&mut self, deflated: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(DICTIONARY);
        self.0.reset(false);
        let status = self.0.decompress_vec(deflated, &mut bytes, FlushDecompress::Finish).ok()?;
        (status == Status::StreamEnd).then_some(bytes)
    }

    /// Inflates until `out` has `len` bytes.
    fn inflate(&mut self, deflated: &[u8], dictionary: &[u8], len: usize, out: &mut Vec<u8>) -> Option<()> {
        self.0.reset(false);
        self.0.set_dictionary(dictionary).ok()?;
        // One byte more shows content that is too long.
        out.reserve((len + 1).saturating_sub(out.len()).min(deflated.len() * MOST_PER_BYTE + 1));
        let status = self.0.decompress_vec(deflated, out, FlushDecompress::Finish).ok()?;
        (status == Status::StreamEnd && out.len() == len).then_some(())
    }
}

/// The places of the two copies of a record's dictionary in a file, for an entry at an offset. One that is outside of the file is left
/// out.
pub(crate) fn dictionary_places(entry: &PackedRecord<'_>, offset: u64) -> impl Iterator<Item = u64> {
    let before = offset.checked_sub(u64::from(entry.before));
    before.into_iter().chain([offset + u64::from(entry.after)])
}

/// The deflated dictionary of a record in the bytes of its file. The record's entry is at `offset`.
pub(crate) fn dictionary_in<'a>(file: &'a [u8], entry: &PackedRecord<'_>, offset: usize) -> Option<&'a [u8]> {
    dictionary_places(entry, offset as u64).find_map(|place| {
        match history::read(file.get(usize::try_from(place).ok()?..)?)? {
            (HistoryEntry::Dictionary(deflated), _) => Some(deflated),
            _ => None,
        }
    })
}

/// Unpacks the records of one file, of which all bytes are at hand. It keeps the last dictionary, which the next record shares.
#[derive(Default)]
pub(crate) struct FileUnpacker {
    unpacker: Unpacker,
    /// The first place of the last dictionary, and its content.
    last: Option<(u64, Vec<u8>)>,
}

impl FileUnpacker {
    /// The record of the entry at an offset. None if neither copy of its dictionary is intact.
    pub(crate) fn record(&mut self, file: &[u8], entry: &PackedRecord<'_>, offset: usize) -> Option<Record> {
        let first = (offset as u64).checked_sub(u64::from(entry.before))?;
        if self.last.as_ref().is_none_or(|(place, _)| *place != first) {
            let dictionary = self.unpacker.dictionary(dictionary_in(file, entry, offset)?)?;
            self.last = Some((first, dictionary));
        }
        let (_, dictionary) = self.last.as_ref()?;
        self.unpacker.record(entry, dictionary)
    }
}

/// Whether a record is worth packing: a version with a value. Tombstones and notes are about as large as what packing adds.
pub(crate) fn is_packable(kind: RecordKind, bytes: &[u8]) -> bool {
    /// Bytes of the smallest record that is packed.
    const LEAST: usize = if cfg!(test) { 16 } else { 128 };
    kind == RecordKind::Put && bytes.len() >= LEAST && prefix(bytes) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::kv::Stamp;
    use crate::{LeaseId, Revision};
    use bytes::Bytes;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    /// A version like those of objects: mostly equal to the one before.
    fn version(main: i64, noise: &[u8]) -> Record {
        let value = format!(
            "{{\"metadata\":{{\"name\":\"web-{main}\",\"labels\":{{\"app\":\"web\"}}}},\"spec\":{{\"containers\":[{{\"image\":\"nginx\",\"name\":\"nginx\"}}],\"nodeName\":\"node-1\"}},\"noise\":{noise:?}}}"
        );
        let (key, main) = (format!("/registry/pods/default/web-{}", main % 7), Revision(main));
        let stamp = Stamp { create_revision: main, mod_revision: main, version: 1, lease: LeaseId(3) };
        let bytes = kv_encoding::encode(key.as_bytes(), value.as_bytes(), &stamp);
        Record { key: RecordKey::new(main, 0), kind: RecordKind::Put, bytes }
    }

    fn read_back(group: &PackedGroup, prefix: &[u8]) -> Vec<Option<Record>> {
        let file = [prefix, &group.bytes].concat();
        let mut unpacker = FileUnpacker::default();
        let entries = group.entries.iter().map(|(_, range)| {
            let offset = prefix.len() + range.start;
            match history::read(&file[offset..]) {
                Some((HistoryEntry::Packed(entry), len)) if len == range.len() => {
                    unpacker.record(&file, &entry, offset)
                }
                _ => None,
            }
        });
        entries.collect()
    }

    #[test]
    fn similar_versions_take_a_fraction_of_their_bytes() {
        let records: Vec<Record> = (1..200).map(|main| version(main, &[main as u8; 20])).collect();
        let plain: usize = records.iter().map(|record| record.bytes.len()).sum();
        let group = pack(&records).unwrap();
        assert!(group.bytes.len() * 2 < plain, "{} of {plain}", group.bytes.len());
        assert_eq!(read_back(&group, b"before").into_iter().flatten().collect::<Vec<_>>(), records);
    }

    #[test]
    fn what_does_not_become_smaller_is_not_packed() {
        let mut seed = 1u64;
        let mut noise = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        };
        let records: Vec<Record> = (1..50)
            .map(|main| Record {
                key: RecordKey::new(Revision(main), 0),
                kind: RecordKind::Put,
                bytes: (0..300).map(|_| noise()).collect::<Vec<u8>>().into(),
            })
            .collect();
        assert!(pack(&records).is_none());
    }

    #[test]
    fn either_copy_of_the_dictionary_is_enough() {
        let records: Vec<Record> = (1..60).map(|main| version(main, &[1; 20])).collect();
        let group = pack(&records).unwrap();
        let second = group.entries.last().unwrap().1.end;
        for at in [30, second + 30] {
            let mut damaged = PackedGroup { bytes: group.bytes.clone(), entries: group.entries.clone() };
            damaged.bytes[at] ^= 0x55;
            assert!(
                read_back(&damaged, b"")
                    .iter()
                    .zip(&records)
                    .all(|(read, record)| read.as_ref() == Some(record))
            );
        }
        let mut both = group;
        both.bytes[30] ^= 0x55;
        both.bytes[second + 30] ^= 0x55;
        assert!(read_back(&both, b"").iter().all(Option::is_none));
    }

    #[test]
    fn a_wrong_length_is_refused_and_allocates_little() {
        let records: Vec<Record> = (1..60).map(|main| version(main, &[1; 20])).collect();
        let group = pack(&records).unwrap();
        let Some((HistoryEntry::Packed(entry), _)) = history::read(&group.bytes[group.entries[3].1.start..])
        else {
            panic!("it is packed")
        };
        let deflated = dictionary_in(&group.bytes, &entry, group.entries[3].1.start).unwrap();
        let dictionary = Unpacker::default().dictionary(deflated).unwrap();
        for len in [0, entry.len - 1, entry.len + 1, u32::MAX] {
            let record = Unpacker::default().record(&PackedRecord { len, ..entry }, &dictionary);
            assert!(record.is_none(), "{len}");
        }
        assert!(Unpacker::default().record(&entry, &dictionary).is_some());
        assert!(Unpacker::default().record(&entry, b"another one").is_none_or(|record| record != records[3]));
    }

    proptest! {
        #[test]
        fn packed_records_of_any_bytes_are_read_as_they_were(
            noise in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 2..40),
            prefix in proptest::collection::vec(any::<u8>(), 0..9),
        ) {
            let records: Vec<Record> = noise.iter().zip(1..).map(|(noise, main)| version(main, noise)).collect();
            if let Some(group) = pack(&records) {
                let read: Vec<_> = read_back(&group, &prefix).into_iter().flatten().collect();
                prop_assert_eq!(&read, &records);
            }
            for record in &records {
                prop_assert!(is_packable(record.kind, &record.bytes) && !is_packable(RecordKind::Note, &record.bytes));
            }
            let arbitrary = Bytes::from(noise.concat().repeat(9));
            prop_assert!(!is_packable(RecordKind::Put, &arbitrary) || kv_encoding::decode(&arbitrary).is_some());
        }
    }
}
