//! The history checker over a store on a simulated disk: many concurrent clients, a crash, and clients that continue on
//! what is left. With `Sync` durability no history is bad, even if the disk loses unsynced changes; with `Relaxed` the checker detects
//! lost acknowledged writes.

use super::conformance::{block_on_real, tiny};
use crate::disk::sim::{CrashPolicy, Fault, SimDisk};
use crate::{
    CompactError, Compare, CompareOp, Config, Delete, Durability, EventKind, KeyRange, KeyValue, LeaseError,
    LeaseId, Op, OpResult, Put, Range, RangeError, RangeResult, Revision, Store, Target, Txn, TxnError,
    TxnResult, WatchError, WatchRequest,
};
use kstore_checker::history::{
    self as seen, Blob, Call, History, Keys, OpReply, Operation, Outcome, RangeReply, Refusal, Reply,
    WatchContent, WatchResponse,
};
use kstore_checker::{Guarantee, Verdict, judge};
use kstore_nondet::Rng;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

const CLIENTS: u32 = 6;
const LIVES: usize = 3;
/// Most changing operations of the disk between two crashes.
const LIFE: u64 = 120;

/// The clock of a history, whose every reading is unique.
#[derive(Default)]
struct HistoryClock(Cell<u64>);

impl HistoryClock {
    fn now(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

fn key_range(keys: &Keys) -> KeyRange {
    let bytes = |blob: &Blob| blob.as_bytes().to_vec().into();
    KeyRange::from_etcd(bytes(&keys.key), bytes(&keys.end))
}

fn range(range: &seen::Range) -> Range {
    let revision = Revision(range.revision);
    Range { revision, limit: range.limit, keys_only: range.keys_only, ..Range::new(key_range(&range.keys)) }
}

fn op(op: &seen::Op) -> Op {
    match op {
        seen::Op::Range(of) => Op::Range(range(of)),
        seen::Op::Put { key, value, lease, prev_kv } => {
            let put = Put::new(key.as_bytes().to_vec(), value.as_bytes().to_vec());
            Op::Put(Put { lease: LeaseId(*lease), prev_kv: *prev_kv, ..put })
        }
        seen::Op::Delete { keys, prev_kv } => Op::Delete(Delete { keys: key_range(keys), prev_kv: *prev_kv }),
    }
}

fn txn(txn: &seen::Txn) -> Txn {
    let compare = |compare: &seen::Compare| {
        let seen::Field::Mod(revision) = compare.field else { unreachable!("clients compare mod revisions") };
        Compare::key(compare.key.as_bytes().to_vec(), CompareOp::Equal, Target::Mod(Revision(revision)))
    };
    let ops = |ops: &[seen::Op]| ops.iter().map(op).collect();
    let compares = txn.compares.iter().map(compare).collect();
    Txn { compares, success: ops(&txn.then), failure: ops(&txn.or_else), note: None }
}

fn kv(kv: &KeyValue) -> seen::KeyValue {
    seen::KeyValue {
        key: kv.key().into(),
        value: kv.value().into(),
        create_revision: kv.create_revision().0,
        mod_revision: kv.mod_revision().0,
        version: kv.version(),
        lease: kv.lease().0,
    }
}

fn range_reply(result: &RangeResult) -> RangeReply {
    let kvs = result.kvs.iter().map(|found| kv(found)).collect();
    RangeReply { revision: result.revision.0, kvs, more: result.more, count: result.count }
}

fn txn_reply(result: &TxnResult) -> Reply {
    let reply = |result: &OpResult| match result {
        OpResult::Range(result) => OpReply::Range(range_reply(result)),
        OpResult::Put(result) => OpReply::Put(result.prev_kv.as_deref().map(kv)),
        OpResult::Delete(result) => {
            let prev_kvs = result.prev_kvs.iter().map(|gone| kv(gone)).collect();
            OpReply::Delete { deleted: result.deleted, prev_kvs }
        }
        OpResult::Txn(_) => unreachable!("clients nest nothing"),
    };
    let results = result.responses.iter().map(reply).collect();
    Reply::Txn { revision: result.revision.0, succeeded: result.succeeded, results }
}

fn failed(refusal: Refusal) -> Outcome {
    Outcome::Failed(refusal)
}

fn range_failure(error: RangeError) -> Outcome {
    match error {
        RangeError::Compacted { .. } => failed(Refusal::Compacted),
        RangeError::Future { .. } => failed(Refusal::FutureRevision),
        RangeError::Stopped(_) => Outcome::Unknown,
        other => failed(Refusal::Other(other.to_string())),
    }
}

fn txn_failure(error: TxnError) -> Outcome {
    match error {
        TxnError::LeaseNotFound(_) => failed(Refusal::LeaseNotFound),
        TxnError::Stopped(_) => Outcome::Unknown,
        other => failed(Refusal::Other(other.to_string())),
    }
}

fn lease_failure(error: LeaseError) -> Outcome {
    match error {
        LeaseError::NotFound(_) => failed(Refusal::LeaseNotFound),
        LeaseError::Exists(_) => failed(Refusal::LeaseExists),
        LeaseError::Stopped(_) => Outcome::Unknown,
        other => failed(Refusal::Other(other.to_string())),
    }
}

fn compact_failure(error: CompactError) -> Outcome {
    match error {
        CompactError::Compacted { .. } => failed(Refusal::Compacted),
        CompactError::Future { .. } => failed(Refusal::FutureRevision),
        CompactError::Stopped(_) => Outcome::Unknown,
        other => failed(Refusal::Other(other.to_string())),
    }
}

async fn perform(store: &Store, operation: &Operation) -> Outcome {
    match operation {
        Operation::Range(of) => match store.range(&range(of)) {
            Ok(result) => Outcome::Ok(Reply::Range(range_reply(&result))),
            Err(error) => range_failure(error),
        },
        Operation::Txn(of) => match store.txn(txn(of)).await {
            Ok(result) => Outcome::Ok(txn_reply(&result)),
            Err(error) => txn_failure(error),
        },
        Operation::LeaseGrant { id, ttl } => match store.lease_grant(*ttl, LeaseId(*id)).await {
            Ok(granted) => Outcome::Ok(Reply::LeaseGrant { revision: granted.revision.0, ttl: granted.ttl }),
            Err(error) => lease_failure(error),
        },
        Operation::LeaseRevoke { id } => match store.lease_revoke(LeaseId(*id)).await {
            Ok(revision) => Outcome::Ok(Reply::LeaseRevoke { revision: revision.0 }),
            Err(error) => lease_failure(error),
        },
        Operation::Compact { revision } => match store.compact(Revision(*revision)).await {
            Ok(()) => Outcome::Ok(Reply::Compact { revision: store.revision().0 }),
            Err(error) => compact_failure(error),
        },
        Operation::LeaseKeepAlive { .. } | Operation::Defragment => unreachable!("clients do not"),
    }
}

/// A client's next operation; the store is about at `revision`.
fn choose(rng: &Rng, client: u32, number: u64, revision: i64) -> Operation {
    let key = || Blob::from(format!("k{}", rng.below(5)));
    let value = Blob::from(format!("{client}-{number}"));
    let put = |lease| seen::Op::Put { key: key(), value: value.clone(), lease, prev_kv: rng.below(2) == 0 };
    let old = (revision - rng.below(20) as i64).max(0);
    let lease = 1 + rng.below(4) as i64;
    match rng.below(20) {
        0..4 => Operation::Range(seen::Range { keys: Keys::prefix(b"k"), ..seen::Range::default() }),
        4..6 => Operation::Range(seen::Range {
            keys: Keys::prefix(b"k"),
            revision: old,
            ..seen::Range::default()
        }),
        6..11 => Operation::Txn(seen::Txn::of(put(0))),
        11..13 => Operation::Txn(seen::Txn::of(put(lease))),
        13 => Operation::Txn(seen::Txn::of(seen::Op::Delete { keys: Keys::one(key()), prev_kv: true })),
        14..16 => {
            let (key, known) = (key(), if rng.below(2) == 0 { 0 } else { old });
            let (relation, field) = (seen::Relation::Equal, seen::Field::Mod(known));
            let guard = seen::Compare { key: key.clone(), relation, field };
            let read =
                seen::Op::Range(seen::Range { keys: Keys::one(key.clone()), ..seen::Range::default() });
            let then = vec![seen::Op::Put { key, value, lease: 0, prev_kv: false }];
            Operation::Txn(seen::Txn { compares: vec![guard], then, or_else: vec![read] })
        }
        16 => Operation::LeaseGrant { id: lease, ttl: 10_000 },
        17 => Operation::LeaseRevoke { id: lease },
        18 => Operation::Compact { revision: old },
        _ => {
            let delete = seen::Op::Delete { keys: Keys::between("k3", "k9"), prev_kv: false };
            let put = seen::Op::Put { key: "k1".into(), value, lease: 0, prev_kv: true };
            Operation::Txn(seen::Txn { compares: vec![], then: vec![put, delete], or_else: vec![] })
        }
    }
}

/// Runs one client until the store stops.
async fn client(store: &Store, id: u32, rng: &Rng, moments: &HistoryClock) -> Vec<Call> {
    let (mut calls, mut lost) = (Vec::new(), false);
    while !lost {
        let operation = choose(rng, id, moments.now(), store.revision().0);
        let call = moments.now();
        let outcome = perform(store, &operation).await;
        let ret = moments.now();
        lost = outcome == Outcome::Unknown;
        calls.push(Call { client: id, call, ret, operation, outcome });
        // Reads do not wait, so without yielding no other client would run.
        tokio::task::yield_now().await;
    }
    calls
}

/// Watches everything from `start` on until the store stops, possibly before the watch starts. Also returns the
/// revision to continue from.
async fn watch(store: &Store, start: i64, moments: &HistoryClock) -> (seen::Watch, i64) {
    let request = seen::WatchRequest { keys: Keys::all(), start, prev_kv: true, ..Default::default() };
    let (at, mut responses, mut next) = (moments.now(), Vec::new(), start);
    let watched = WatchRequest::new(KeyRange::all()).from(Revision(start)).with_prev_kv();
    let mut watcher = match store.watch(watched) {
        Err(WatchError::Stopped(_)) => {
            return (seen::Watch { client: CLIENTS, at, request, responses }, next);
        }
        watcher => watcher.unwrap(),
    };
    while let Some(Ok(batch)) = watcher.next().await {
        let event = |event: &crate::Event| {
            let kind = match event.kind {
                EventKind::Put => seen::EventKind::Put,
                EventKind::Delete => seen::EventKind::Delete,
            };
            seen::Event { kind, kv: kv(&event.kv), prev_kv: event.prev_kv.as_deref().map(kv) }
        };
        let events = batch.events.iter().map(|of| event(of)).collect();
        let (revision, said) = (batch.revision.0, WatchContent::Events { events, fragment: false });
        responses.push(WatchResponse { at: moments.now(), revision, said });
        next = revision + 1;
    }
    (seen::Watch { client: CLIENTS, at, request, responses }, next)
}

/// The newest revision of an acknowledged write.
fn acknowledged(calls: &[Call]) -> i64 {
    let revision = |call: &Call| match &call.outcome {
        Outcome::Ok(Reply::Txn { revision, .. } | Reply::LeaseRevoke { revision }) => *revision,
        _ => 0,
    };
    calls.iter().map(revision).max().unwrap_or(0)
}

/// The history of a store's clients over several crashes, and how many crashes lost acknowledged revisions.
struct Lives {
    history: History,
    lossy_crashes: usize,
}

/// Runs a store several times, each but the last ended by a crash.
async fn lives(config: &Config, policy: CrashPolicy, seed: u64) -> Lives {
    let (rng, moments) = (Rng::seeded(seed), HistoryClock::default());
    let (mut disk, mut history, mut next) = (SimDisk::default(), History::default(), 2);
    let (mut newest, mut lossy_crashes) = (0, 0);
    for life in 0..LIVES {
        let store = Store::open_threads(Arc::new(disk.clone()), config, &Rng::seeded(seed)).unwrap();
        lossy_crashes += usize::from(store.revision().0 < newest);
        disk.set_fault(Some(Fault::CrashAt(disk.ops() + 10 + rng.below(LIFE))));
        let clients = (0..CLIENTS).map(|id| client(&store, id, &rng, &moments));
        let clients = futures::future::join_all(clients);
        let (calls, (watched, resume)) = futures::join!(clients, watch(&store, next, &moments));
        store.close().await;
        let calls: Vec<_> = calls.into_iter().flatten().collect();
        newest = acknowledged(&calls);
        history.calls.extend(calls);
        history.watches.push(watched);
        next = resume;
        disk = disk.crash(policy, seed + life as u64);
    }
    let store = Store::open_threads(Arc::new(disk), config, &rng).unwrap();
    lossy_crashes += usize::from(store.revision().0 < newest);
    let operation = Operation::Range(seen::Range { keys: Keys::all(), ..seen::Range::default() });
    let call = moments.now();
    let outcome = perform(&store, &operation).await;
    history.calls.push(Call { client: 0, call, ret: moments.now(), operation, outcome });
    store.close().await;
    Lives { history, lossy_crashes }
}

/// The checker's verdict on a store's runs, and the number of crashes that lost acknowledged revisions.
fn verdict(durability: Durability, policy: CrashPolicy, seed: u64) -> (Verdict, usize) {
    let config = Config { durability, ..tiny(Config::durable("/data"), seed as u8) };
    let lives = block_on_real(lives(&config, policy, seed));
    (judge(&lives.history), lives.lossy_crashes)
}

#[test]
fn with_sync_durability_no_crash_violates_a_guarantee() {
    for policy in CrashPolicy::ALL {
        let mut calls = 0;
        for seed in 0..12 {
            let (verdict, lossy_crashes) = verdict(Durability::Sync, policy, seed);
            assert!(verdict.is_good(), "{policy:?}, seed {seed}: {verdict}");
            assert_eq!(lossy_crashes, 0, "{policy:?}, seed {seed}");
            calls += verdict.counts.calls;
        }
        assert!(calls > 1_000, "{policy:?}: only {calls} calls");
    }
}

#[test]
fn with_relaxed_durability_the_checker_detects_lost_writes() {
    let durability = Durability::Relaxed { interval: Duration::from_secs(3_600) };
    // Threads decide what a crash finds on the disk: a run may lose nothing, more often on a busy machine.
    let (mut lossy_runs, mut unbroken) = (0, vec![Guarantee::OneHistory, Guarantee::Monotonic]);
    for seed in 0..100 {
        let (verdict, lossy_crashes) = verdict(durability, CrashPolicy::Nothing, seed);
        assert!(
            lossy_crashes == 0 || !verdict.violations.is_empty(),
            "seed {seed}: {lossy_crashes} {verdict}"
        );
        unbroken.retain(|guarantee| !verdict.breaks(*guarantee));
        lossy_runs += usize::from(lossy_crashes > 0);
        if lossy_runs >= 8 && unbroken.is_empty() {
            return;
        }
    }
    panic!("{lossy_runs} of 100 runs lost a write, and none broke {unbroken:?}");
}
