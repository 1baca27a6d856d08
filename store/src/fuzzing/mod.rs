//! Entry points for fuzzers. Each target takes any bytes and returns, or panics because it found a defect. The store's
//! tests run the same functions over random bytes and the kept corpus. Not an interface for users.

#[cfg_attr(not(test), expect(dead_code, reason = "the store's tests use all of it"))]
pub(crate) mod model;

use crate::codec::packed::Unpacker;
use crate::codec::{history, manifest, record};
use crate::disk::Disk;
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::recovery::recover;
use crate::runtime::request::{Request, Response};
use crate::types::commit::Commit;
use crate::wal::{self, Wal, WalSegments};
use crate::{
    Compare, CompareOp, Config, Delete, KeyRange, LeaseId, Limits, Op, Put, Range, Revision, SortOrder,
    SortTarget, Target, Txn, txn,
};
use bytes::Bytes;
use futures::FutureExt;
use kstore_nondet::{Nondet, Rng};
use model::Model;
use std::path::Path;
use std::sync::Arc;

/// A fuzz target: its name and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets of this crate.
pub const TARGETS: [FuzzTarget; 6] = [
    ("wal_replay", wal_replay),
    ("record", log_record),
    ("history", history_entries),
    ("manifest", manifest_file),
    ("snapshot_restore", snapshot_restore),
    ("txn", transactions),
];

/// Decisions read from the fuzzer's bytes; zeros when no bytes are left.
struct Decisions<'a>(&'a [u8]);

impl<'a> Decisions<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, bound: usize) -> usize {
        let number = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        number % bound.max(1)
    }

    fn chance(&mut self, one_in: u8) -> bool {
        self.byte() % one_in == 1
    }

    fn some(&mut self, most: usize) -> &'a [u8] {
        let len = self.below(most + 1).min(self.0.len());
        let (some, rest) = self.0.split_at(len);
        self.0 = rest;
        some
    }
}

const LOG: &str = "/wal";
const CLUSTER: u64 = 11;

/// Restores a snapshot file with these bytes into memory.
pub fn snapshot_restore(bytes: &[u8]) {
    crate::maintenance::fuzz_restore(bytes);
}

/// Takes the bytes as a script of appends, syncs, damage and a crash, and replays the log. The replayed
/// records must be a prefix of the written ones, byte for byte. Without damage they must include all synced records.
pub fn wal_replay(bytes: &[u8]) {
    let mut decisions = Decisions(bytes);
    let disk = SimDisk::default();
    disk.create_dir(Path::new(LOG)).expect("a simulated disk without faults does not fail");
    let (written, synced) = write_log(&disk, &mut decisions);
    let policy = CrashPolicy::ALL[decisions.below(CrashPolicy::ALL.len())];
    let disk = disk.crash(policy, u64::from(decisions.byte()));
    let damaged = !decisions.is_empty();
    while !decisions.is_empty() {
        damage(&disk, &mut decisions);
    }
    let mut read = Vec::new();
    let segments = WalSegments::list(Arc::new(disk), Path::new(LOG)).expect("as above");
    let replayed = wal::replay(&segments, CLUSTER, 0, &mut |record| {
        read.push((record.seq, record.note.map(<[u8]>::to_vec)));
        Ok(())
    });
    assert!(written.starts_with(&read), "what is read was written");
    match replayed {
        Ok(replayed) => assert_eq!(replayed.last_seq, read.len() as u64),
        Err(error) => assert!(damaged, "{error}"),
    }
    assert!(damaged || read.len() >= synced, "{} of {synced} synced records", read.len());
}

/// A record's sequence number and note.
type Written = (u64, Option<Vec<u8>>);

/// Writes a log. Returns every record, and how many of them are synced.
fn write_log(disk: &SimDisk, decisions: &mut Decisions<'_>) -> (Vec<Written>, usize) {
    let limits = Limits { first_segment_bytes: 8 << 10, segment_bytes: 8 << 10, ..Limits::default() };
    let segments = Arc::new(WalSegments::list(Arc::new(disk.clone()), Path::new(LOG)).expect("as above"));
    let replayed = wal::replay(&segments, CLUSTER, 0, &mut |_| Ok(())).expect("there is nothing yet");
    let log = Wal::begin(segments, CLUSTER, Rng::seeded(1), &replayed, &limits);
    let (mut log, mut written, mut synced) = (log.expect("as above"), Vec::new(), 0);
    for _ in 0..decisions.below(8) {
        let mut commits = Vec::new();
        for _ in 0..1 + decisions.below(3) {
            let seq = written.len() as u64 + 1;
            let note = decisions.some(40).repeat(1 + decisions.below(100));
            written.push((seq, Some(note.clone())));
            commits.push(Arc::new(commit(seq, note)));
        }
        log.append(&commits).expect("as above");
        if !decisions.chance(4) {
            log.sync().expect("as above");
            synced = written.len();
        }
    }
    (written, synced)
}

fn commit(seq: u64, note: Vec<u8>) -> Commit {
    Commit { seq, revision: Revision(1), note: Some(note.into()), ..Commit::default() }
}

fn damage(disk: &SimDisk, decisions: &mut Decisions<'_>) {
    let files = disk.files(Path::new(LOG));
    let (name, len) = &files[decisions.below(files.len())];
    let (offset, bytes) = (decisions.below(*len), decisions.some(16));
    disk.overwrite(&Path::new(LOG).join(name), offset, bytes);
}

/// Decodes records of the log.
pub fn log_record(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok((_, len)) = record::decode(rest) {
        assert!(len > 0 && len <= rest.len(), "a record takes some of the bytes");
        rest = &rest[len..];
    }
}

/// Decodes entries of the engine's files, and the list of those files.
pub fn history_entries(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((entry, len)) = history::read(rest) {
        assert!(len > 0 && len <= rest.len(), "an entry takes some of the bytes");
        if let history::HistoryEntry::Removed(keys) = entry {
            assert!(history::removed_keys(keys).count() <= keys.len());
        }
        if let history::HistoryEntry::Packed(packed) = entry {
            let record = Unpacker::default().record(&packed, bytes);
            assert!(record.is_none_or(|record| record.bytes.len() == packed.len as usize));
        }
        if let history::HistoryEntry::Dictionary(deflated) = entry {
            drop(Unpacker::default().dictionary(deflated));
        }
        rest = &rest[len..];
    }
    if let Ok(list) = history::decode_list(bytes) {
        let again = history::decode_list(&history::encode_list(&list));
        assert_eq!(again.ok(), Some(list), "what is written is read");
    }
}

/// Decodes a manifest file.
pub fn manifest_file(bytes: &[u8]) {
    if let Some(Ok(found)) = manifest::decode(bytes) {
        let again = manifest::decode(&manifest::encode(&found)).and_then(Result::ok);
        assert_eq!(again, Some(found), "what is written is read");
    }
}

/// Runs transactions on a store in memory and on the reference model, and compares them after each.
pub fn transactions(bytes: &[u8]) {
    let (mut decisions, mut model) = (Decisions(bytes), Model::new());
    let driver = recover::open(Config::memory(), &Nondet::simulated(1)).expect("memory opens");
    let ask = |request| driver.submit(request, 0).now_or_never().expect("memory never waits");
    for id in 1..3 {
        let now = tokio::time::Instant::now();
        ask(Request::Grant { id: LeaseId(id), ttl: 1_000_000, now }).expect("the store is open");
        model.leases.insert(id, 1_000_000);
    }
    for _ in 0..64 {
        if decisions.is_empty() {
            break;
        }
        let txn = transaction(&mut decisions, 2);
        if txn::check::check(&txn, &Limits::default()).is_err() {
            continue;
        }
        let Ok(Response::Txn(answer)) = ask(Request::Txn(txn.clone())) else { panic!("the store is open") };
        if let Ok(result) = answer {
            assert_eq!(model::outcome(&result), model.txn(&txn), "{txn:?}");
        }
        let all = Range::new(KeyRange::all());
        let read = driver.core().range(&all).expect("the store is open");
        assert_eq!(model::range_reply(&read), model::range(model.now(), &all, model.revision()));
    }
}

fn key(decisions: &mut Decisions<'_>) -> Bytes {
    vec![b'a' + decisions.byte() % 4].into()
}

fn keys(decisions: &mut Decisions<'_>) -> KeyRange {
    match decisions.byte() % 5 {
        0..3 => KeyRange::single(key(decisions)),
        3 => KeyRange::between(key(decisions), key(decisions)),
        _ => KeyRange::from_key(key(decisions)),
    }
}

fn transaction(decisions: &mut Decisions<'_>, depth: u8) -> Txn {
    let compares = (0..decisions.below(3)).map(|_| compare(decisions)).collect();
    let success = (0..decisions.below(4)).map(|_| operation(decisions, depth)).collect();
    let failure = (0..decisions.below(3)).map(|_| operation(decisions, depth)).collect();
    Txn { compares, success, failure, note: None }
}

fn compare(decisions: &mut Decisions<'_>) -> Compare {
    let ops = [CompareOp::Equal, CompareOp::NotEqual, CompareOp::Greater, CompareOp::Less];
    let (keys, op, number) = (keys(decisions), ops[decisions.below(4)], i64::from(decisions.byte() % 16));
    let target = match decisions.byte() % 5 {
        0 => Target::Version(number),
        1 => Target::Create(Revision(number)),
        2 => Target::Mod(Revision(number)),
        3 => Target::Lease(LeaseId(number % 3)),
        _ => Target::Value(decisions.some(2).to_vec().into()),
    };
    Compare { keys, op, target }
}

fn operation(decisions: &mut Decisions<'_>, depth: u8) -> Op {
    match decisions.byte() % 8 {
        0..4 => Op::Put(put(decisions)),
        4 => Op::Delete(Delete { keys: keys(decisions), prev_kv: decisions.chance(2) }),
        5 if depth > 0 => Op::Txn(transaction(decisions, depth - 1)),
        _ => Op::Range(range(decisions)),
    }
}

fn put(decisions: &mut Decisions<'_>) -> Put {
    let (ignore_value, ignore_lease) = (decisions.chance(8), decisions.chance(8));
    Put {
        key: key(decisions),
        value: if ignore_value { Bytes::new() } else { decisions.some(4).to_vec().into() },
        lease: LeaseId(if ignore_lease { 0 } else { i64::from(decisions.byte() % 4) }),
        prev_kv: decisions.chance(2),
        ignore_value,
        ignore_lease,
    }
}

fn range(decisions: &mut Decisions<'_>) -> Range {
    let mut small =
        || if decisions.chance(3) { Revision(i64::from(decisions.byte() % 16)) } else { Revision(0) };
    let (revision, min_mod_revision, max_mod_revision) = (small(), small(), small());
    let (min_create_revision, max_create_revision) = (small(), small());
    Range {
        keys: keys(decisions),
        revision,
        limit: i64::from(decisions.byte() % 5) - 1,
        max_bytes: 0,
        sort_target: SortTarget::ALL[decisions.below(SortTarget::ALL.len())],
        sort_order: if decisions.chance(2) { SortOrder::Descending } else { SortOrder::Ascending },
        keys_only: decisions.chance(4),
        count_only: decisions.chance(8),
        min_mod_revision,
        max_mod_revision,
        min_create_revision,
        max_create_revision,
    }
}

/// Seed inputs for the fuzzers, encoded by the store's own code so that each target gets far with them.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let rng = Rng::seeded(7);
    let random = |len: u64| (0..rng.below(len)).map(|_| rng.next_u64() as u8).collect::<Vec<_>>();
    let mut records = Vec::new();
    (1..4).for_each(|seq| record::encode(&mut records, &commit(seq, vec![seq as u8; 20])));
    let mut entries = Vec::new();
    let key = crate::types::record::RecordKey::new(Revision(3), 1);
    history::put(&mut entries, crate::types::record::RecordKind::Put, key, b"some version");
    history::put(
        &mut entries,
        crate::types::record::RecordKind::Note,
        crate::types::record::RecordKey::note(Revision(3)),
        b"who",
    );
    history::put_removed(&mut entries, &[key]);
    let list = history::encode_list(&history::FileList { files: vec![(1, 20), (7, 1 << 33)] });
    let leases = [(LeaseId(7), 60)].into();
    let state =
        crate::types::state::DurableState { seq: 9, revision: Revision(4), leases, ..Default::default() };
    let manifest = manifest::Manifest { state, ..Default::default() };
    vec![
        ("wal_replay", (0..4).map(|_| random(400)).collect()),
        ("record", vec![records]),
        ("history", vec![entries, list]),
        ("manifest", vec![manifest::encode(&manifest)]),
        ("snapshot_restore", vec![crate::tests::conformance::block_on(small_snapshot())]),
        ("txn", (0..4).map(|_| random(600)).collect()),
    ]
}

/// A snapshot with one entry of each kind, and as few pages as possible.
#[cfg(test)]
async fn small_snapshot() -> Vec<u8> {
    let store = crate::tests::samples::memory().await;
    let lease = store.lease_grant(60, LeaseId(7)).await.expect("memory never fails").id;
    for op in [
        Op::Put(Put { lease, ..Put::new("leased", "value") }),
        Op::put("gone", "value"),
        Op::delete("gone"),
        Op::put("kept", ""),
    ] {
        let txn = Txn { note: Some("who".into()), ..Txn::of(vec![op]) };
        store.txn(txn).await.expect("as above");
    }
    store.compact(Revision(2)).await.expect("as above");
    store.alarm_raise(crate::Alarm::NoSpace).await.expect("as above");
    crate::tests::samples::image(&store)
}
