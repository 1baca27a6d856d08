//! The examples of FORMAT.md are what the codecs write and read.

use crate::codec::frame::{self, GroupSpan, LogPosition, SEGMENT_HEADER, SegmentHeader};
use crate::codec::history::{self, FILE_HEADER, FileList, HistoryEntry, PackedRecord, StandIn};
use crate::codec::packed::FileUnpacker;
use crate::codec::{manifest, record};
use crate::engine::sled;
use crate::types::alarm::{AlarmChange, Alarms};
use crate::types::commit::{Commit, LeaseChange};
use crate::types::event::{Event, EventKind};
use crate::types::kv::Stamp;
use crate::types::kv_encoding;
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::types::state::DurableState;
use crate::{Alarm, KeyValue, LeaseId, Revision};
use bytes::Bytes;
use std::sync::Arc;

const PAGE: &str = include_str!("../../FORMAT.md");

/// The bytes of an example of the page: of each line the part before the bar. `00*4` is a byte that is repeated.
fn example(name: &str) -> Vec<u8> {
    let start = format!("```text {name}\n");
    let block = PAGE.split(&start).nth(1).unwrap_or_else(|| panic!("no example {name}"));
    let lines = block.lines().take_while(|line| !line.starts_with("```"));
    let words = lines.flat_map(|line| line.split(" | ").next().unwrap().split_whitespace());
    let bytes = words.flat_map(|word| {
        let (byte, times) = word.split_once('*').unwrap_or((word, "1"));
        vec![u8::from_str_radix(byte, 16).unwrap(); times.parse().unwrap()]
    });
    bytes.collect()
}

fn version() -> KeyValue {
    let revision = Revision(2);
    let stamp = Stamp { create_revision: revision, mod_revision: revision, version: 1, lease: LeaseId(7) };
    KeyValue::new(b"k", b"v", stamp)
}

fn put() -> Record {
    let bytes = version().encoded().clone();
    Record { key: RecordKey::new(Revision(2), 0), kind: RecordKind::Put, bytes }
}

fn commit() -> Commit {
    let note = Some(Bytes::from_static(b"n"));
    let event = Event { kind: EventKind::Put, kv: Arc::new(version()), prev_kv: None, note: note.clone() };
    Commit {
        seq: 300,
        revision: Revision(2),
        events: [Arc::new(event)].into(),
        note,
        leases: vec![LeaseChange::Granted(LeaseId(7), 60)],
        ..Commit::default()
    }
}

fn logged(commit: &Commit) -> Vec<u8> {
    let mut bytes = Vec::new();
    record::encode(&mut bytes, commit);
    bytes
}

#[test]
fn versions_are_as_documented() {
    assert_eq!(version().encoded()[..], example("version"));
    assert_eq!(KeyValue::tombstone(b"k", Revision(3)).encoded()[..], example("tombstone"));
}

#[test]
fn the_log_is_as_documented() {
    let (id, epoch, chain) = (0x1122_3344_5566_7788, 9, 77);
    let header = SegmentHeader::new(id, epoch, 300, chain);
    assert_eq!(header.encode(), example("segment-header"));
    assert_eq!(SegmentHeader::decode(&example("segment-header")), Some(header));

    let mut group = Vec::new();
    let at = LogPosition { epoch, offset: SEGMENT_HEADER as u64, chain };
    let span = GroupSpan { count: 1, first_seq: 300, synced_seq: 299 };
    frame::encode_group(&mut group, at, span, |out| record::encode(out, &commit()));
    assert_eq!(group, example("group"));

    assert_eq!(logged(&commit()), example("log-record"));
    let change = Commit {
        seq: 301,
        revision: Revision(2),
        leases: vec![LeaseChange::Gone(LeaseId(7))],
        compacted: Some(Revision(2)),
        alarms: Some(Alarms::default().after(AlarmChange::Raise(Alarm::NoSpace)).after(AlarmChange::LowDisk)),
        ..Commit::default()
    };
    assert_eq!(logged(&change), example("log-record-2"));
    let bytes = example("log-record");
    let read = record::decode(&bytes).unwrap().0;
    assert_eq!(read.records().collect::<Vec<_>>(), commit().records().collect::<Vec<_>>());
}

#[test]
fn the_manifest_is_as_documented() {
    let written = manifest::Manifest {
        cluster: 7,
        generation: 3,
        state: DurableState {
            seq: 300,
            revision: Revision(12),
            compacted: Revision::NEVER_COMPACTED,
            alarms: Alarms::default().after(AlarmChange::Raise(Alarm::NoSpace)),
            leases: [(LeaseId(7), 60)].into(),
        },
        engine: "segments".to_owned(),
        token: example("file-list"),
        swept: 9,
    };
    assert_eq!(manifest::encode(&written), example("manifest"));
    assert_eq!(manifest::decode(&example("manifest")), Some(Ok(written)));
}

#[test]
fn engine_files_are_as_documented() {
    assert!(PAGE.contains(std::str::from_utf8(FILE_HEADER).unwrap()));
    assert_eq!(history::encode_list(&FileList { files: vec![(2, 64)] }), example("file-list"));
    let (Record { key, kind, bytes: content }, name) = (put(), KeyValue::tombstone(b"k", Revision(2)));
    let stand_in = StandIn { kind, key, file: 1, offset: 8, len: 36, name: name.encoded() };
    let note = RecordKey::note(Revision(2));
    let mut entries: [Vec<u8>; 4] = Default::default();
    history::put(&mut entries[0], kind, key, &content);
    history::put(&mut entries[1], RecordKind::Note, note, b"n");
    history::put_removed(&mut entries[2], &[key]);
    history::put_stand_in(&mut entries[3], &stand_in);
    let names = ["entry", "entry-note", "entry-removed", "entry-stand-in"];
    for (name, entry) in names.into_iter().zip(entries) {
        assert_eq!(entry, example(name), "{name}");
    }
    let (entry, len) = (example("entry"), example("entry").len());
    assert_eq!(history::read(&entry), Some((HistoryEntry::Record(kind, key, &content), len)));
}

#[test]
fn packed_records_are_as_documented() {
    let key = put().key;
    let mut entries: [Vec<u8>; 2] = Default::default();
    history::put_dictionary(&mut entries[0], b"\x01\x06\0\xf9\xffvalue-");
    let stamp =
        Stamp { create_revision: Revision(2), mod_revision: Revision(2), version: 1, lease: LeaseId(0) };
    let version = kv_encoding::encode(b"k", b"v", &stamp);
    let (prefix, value) = version.split_at(version.len() - 3);
    let deflated = [&b"\x01\x03\0\xfc\xff"[..], value].concat();
    let (before, after, len) = (32, 55, 12);
    let packed = PackedRecord { kind: RecordKind::Put, key, before, after, len, prefix, deflated: &deflated };
    history::put_packed(&mut entries[1], &packed);
    for (name, entry) in ["entry-dictionary", "entry-packed"].into_iter().zip(entries) {
        assert_eq!(entry, example(name), "{name}");
    }
    let group = [example("entry-dictionary"), example("entry-packed"), example("entry-dictionary")].concat();
    let record = FileUnpacker::default().record(&group, &packed, before as usize).unwrap();
    assert_eq!(record.bytes, version);
}

#[test]
fn sled_records_are_as_documented() {
    assert_eq!(sled::encode_key(put().key)[..], example("sled-key"));
    assert_eq!(sled::decode_value(put().key, &example("sled-value")).unwrap(), put());
}
