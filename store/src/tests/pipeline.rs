//! Tests of evaluation ahead of the log, which only a crash can reveal. No answer is sent before everything that it
//! depends on is durable, and everything answered or observed is there after a failure.

use super::actions;
use super::conformance::{block_on, tiny};
use crate::disk::sim::{CrashPolicy, Fault, SimDisk};
use crate::runtime::request::{Request, Response};
use crate::runtime::stepped::Pending;
use crate::txn::check::{check, check_each};
use crate::{
    Compare, CompareOp, Config, EngineKind, KeyRange, LeaseId, Limits, Op, OpResult, Range, RangeError,
    Revision, Stopped, Store, Target, Txn, TxnError, WatchRequest,
};
use futures::FutureExt;
use kstore_nondet::Rng;
use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

fn config() -> Config {
    tiny(Config::durable("/data"), 0)
}

fn open(disk: &SimDisk, seed: u64) -> Store {
    Store::open_stepped(Arc::new(disk.clone()), &config(), &Rng::seeded(seed)).unwrap()
}

fn put(key: &'static str) -> Request {
    Request::Txn(Txn::of(vec![Op::put(key, "v")]))
}

fn one(store: &Store, request: Request) -> Pending {
    store.driver().evaluate_group(vec![request]).unwrap().pop().unwrap()
}

fn come(pending: &mut Pending) -> Option<Response> {
    pending.try_recv().ok()
}

/// Requests whose answers depend on a staged change: a name, the change, and the request.
fn tellers() -> Vec<(&'static str, Request, Request)> {
    let now = tokio::time::Instant::now();
    let create = |key| Request::Txn(Txn::if_unchanged(key, Revision(0), Op::put(key, "w")));
    let read = Request::Txn(Txn::of(vec![Op::Range(Range::key("k"))]));
    let at = Op::Range(Range::key("k").at(Revision(2)));
    let grant = || Request::Grant { id: LeaseId(8), ttl: 60, now };
    vec![
        ("a guard that does not hold", put("k"), create("k")),
        ("a read", put("k"), read),
        ("a read at the staged revision", put("k"), Request::Txn(Txn::of(vec![at]))),
        ("a lease that is gone", Request::Revoke(LeaseId(7)), Request::KeepAlive { id: LeaseId(7), now }),
        ("a lease that exists", grant(), grant()),
        ("the leases", grant(), Request::List),
        ("a revision that is compacted", Request::Compact(Revision(1)), Request::Compact(Revision(1))),
    ]
}

#[test]
fn an_answer_waits_until_all_commits_it_depends_on_are_durable() {
    block_on(async {
        for (what, change, tell) in tellers() {
            let disk = SimDisk::default();
            let store = open(&disk, 1);
            store.lease_grant(60, LeaseId(7)).await.unwrap();
            let mut watcher = store.watch(WatchRequest::new(KeyRange::all())).unwrap();
            let mut changed = one(&store, change);
            let mut answered = one(&store, tell);
            let seen = (store.revision(), store.compacted(), watcher.progress());
            assert_eq!(seen, (Revision(1), Revision(-1), Some(Revision(1))), "{what}");
            assert!(store.range(&Range::key("k")).unwrap().kvs.is_empty(), "{what}");
            assert!(come(&mut changed).is_none() && come(&mut answered).is_none(), "{what}");
            assert!(store.driver().log_group().unwrap());
            assert!(come(&mut changed).is_some() && come(&mut answered).is_none(), "{what}");
            assert_eq!(watcher.next().now_or_never().is_some(), store.revision() > Revision(1), "{what}");
            assert!(store.driver().log_group().unwrap());
            assert!(come(&mut answered).is_some(), "{what}");
            assert!(!store.driver().log_group().unwrap());
        }
    });
}

#[test]
fn no_answer_depends_on_a_change_whose_sync_failed() {
    block_on(async {
        for (what, change, tell) in tellers() {
            for fault in [Fault::SyncsFail, Fault::CrashAt(0)] {
                let disk = SimDisk::default();
                let store = open(&disk, 1);
                store.lease_grant(60, LeaseId(7)).await.unwrap();
                let mut pending = [one(&store, change_again(&change)), one(&store, change_again(&tell))];
                disk.set_fault(Some(fault));
                while store.driver().log_group() == Ok(true) {}
                for pending in &mut pending {
                    assert!(pending.await.is_err(), "{what}");
                }
                assert_eq!(store.txn(Txn::default()).await, Err(TxnError::Stopped(Stopped)), "{what}");
                let again = open(&disk.crash(CrashPolicy::Nothing, 1), 2);
                assert_eq!((again.revision(), again.compacted()), (Revision(1), Revision(-1)), "{what}");
                assert_eq!(again.leases().await.unwrap(), [LeaseId(7)], "{what}");
            }
        }
    });
}

/// A copy of a request.
fn change_again(request: &Request) -> Request {
    match request {
        Request::Txn(txn) => Request::Txn(txn.clone()),
        Request::Each(txns) => Request::Each(txns.clone()),
        Request::Grant { id, ttl, now } => Request::Grant { id: *id, ttl: *ttl, now: *now },
        Request::KeepAlive { id, now } => Request::KeepAlive { id: *id, now: *now },
        Request::Revoke(id) => Request::Revoke(*id),
        Request::Compact(revision) => Request::Compact(*revision),
        Request::List => Request::List,
        other => unreachable!("{other:?} is not asked here"),
    }
}

/// A request to the two stores that are compared.
#[derive(Clone, Debug)]
enum TestRequest {
    Txn(Txn),
    /// Transactions that are executed one after the other as one request.
    Each(Vec<Txn>),
    /// Reads in a transaction, this many revisions before the current one.
    ReadBack(KeyRange, i64),
    Grant(i64),
    Revoke(i64),
    /// Compacts up to this many revisions before the current one.
    Compact(i64),
}

fn ask() -> impl Strategy<Value = TestRequest> {
    prop_oneof![
        12 => actions::txn(2).prop_map(TestRequest::Txn),
        2 => vec(actions::txn(1), 1..4).prop_map(TestRequest::Each),
        3 => (actions::keys(), 0i64..4).prop_map(|(keys, back)| TestRequest::ReadBack(keys, back)),
        1 => (1i64..4).prop_map(TestRequest::Grant),
        1 => (1i64..4).prop_map(TestRequest::Revoke),
        1 => (0i64..4).prop_map(TestRequest::Compact),
    ]
}

/// Builds the request; none if it would be refused before it is queued.
fn request(ask: &TestRequest, revision: i64, now: tokio::time::Instant) -> Option<Request> {
    Some(match ask {
        TestRequest::Txn(txn) => {
            check(txn, &Limits::default()).ok()?;
            Request::Txn(txn.clone())
        }
        TestRequest::Each(txns) => {
            check_each(txns, &Limits::default()).ok()?;
            Request::Each(txns.clone())
        }
        TestRequest::ReadBack(keys, back) => {
            let range = Range::new(keys.clone()).at(Revision((revision - back).max(1)));
            Request::Txn(Txn::of(vec![Op::Range(range)]))
        }
        TestRequest::Grant(id) => Request::Grant { id: LeaseId(*id), ttl: 1_000, now },
        TestRequest::Revoke(id) => Request::Revoke(LeaseId(*id)),
        TestRequest::Compact(back) => Request::Compact(Revision(revision - back)),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// T10: evaluation ahead of the log is invisible.
    #[test]
    fn answers_do_not_depend_on_the_lag_of_the_log(
        asks in vec((ask(), any::<bool>()), 1..60),
    ) {
        block_on(async {
            let (prompt, late) = (open(&SimDisk::default(), 1), open(&SimDisk::default(), 1));
            let now = tokio::time::Instant::now();
            let (mut expected, mut pending) = (Vec::new(), Vec::new());
            for (ask, log) in asks {
                let revision = prompt.revision().0;
                if let Some(request) = request(&ask, revision, now) {
                    pending.push(one(&late, change_again(&request)));
                    let answer = prompt.driver().submit_group(vec![request]).unwrap().pop().unwrap();
                    expected.push((ask, answer));
                }
                if log {
                    late.driver().log_group().unwrap();
                }
            }
            while late.driver().log_group().unwrap() {}
            for ((ask, expected), pending) in expected.iter().zip(pending) {
                assert_eq!(format!("{:?}", pending.await.unwrap()), format!("{expected:?}"), "{ask:?}");
            }
            let all = |store: &Store| store.range(&Range::new(KeyRange::all())).unwrap();
            assert_eq!(all(&late), all(&prompt));
        });
    }
}

/// The values of keys by revision.
type Values = BTreeMap<(i64, Vec<u8>), Vec<u8>>;

/// The observations of all clients of a store that is about to fail.
#[derive(Default)]
struct Observations {
    /// Values from answers, failed compares, reads and watches.
    values: Mutex<Values>,
    /// The highest observed revision.
    revision: AtomicI64,
}

impl Observations {
    fn revision(&self, revision: Revision) {
        self.revision.fetch_max(revision.0, Ordering::Relaxed);
    }

    fn value(&self, kv: &crate::KeyValue) {
        self.revision(kv.mod_revision());
        let name = (kv.mod_revision().0, kv.key().to_vec());
        let before = self.values.lock().insert(name, kv.value().to_vec());
        assert!(before.is_none_or(|before| before == kv.value()), "a version is one value");
    }

    fn results(&self, results: &[OpResult]) {
        for result in results {
            match result {
                OpResult::Range(range) => {
                    self.revision(range.revision);
                    range.kvs.iter().for_each(|kv| self.value(kv));
                }
                OpResult::Put(put) => self.value(&put.kv),
                OpResult::Delete(_) | OpResult::Txn(_) => {}
            }
        }
    }
}

const KEYS: u64 = 5;

fn key(n: u64) -> String {
    format!("key-{}", n % KEYS)
}

/// Writes keys under compares that often fail, until the store stops. Some disk failures do not stop it, so the
/// attempts are bounded.
async fn writer(store: Store, learned: Arc<Observations>, rng: Rng) {
    const ATTEMPTS: usize = 1_000;
    let mut known = vec![Revision(0); KEYS as usize];
    for _ in 0..ATTEMPTS {
        let n = rng.below(KEYS);
        let put = Op::put(key(n), format!("{:x}", rng.next_u64()).repeat(1 + rng.below(20) as usize));
        let guard = Compare::key(key(n), CompareOp::Equal, Target::Mod(known[n as usize]));
        let txn = Txn {
            compares: vec![guard],
            success: vec![put],
            failure: vec![Op::Range(Range::key(key(n)))],
            note: None,
        };
        match store.txn(txn).await {
            Ok(result) => {
                learned.revision(result.revision);
                learned.results(&result.responses);
                known[n as usize] = match &result.responses[..] {
                    [OpResult::Put(put)] => put.revision,
                    [OpResult::Range(range)] => range.kvs.first().map_or(Revision(0), |kv| kv.mod_revision()),
                    other => unreachable!("{other:?}"),
                };
            }
            Err(TxnError::Stopped(Stopped)) => return,
            Err(TxnError::Busy) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads until the store stops.
async fn reader(store: Store, learned: Arc<Observations>) {
    loop {
        match store.range(&Range::new(KeyRange::all())) {
            Ok(range) => {
                learned.revision(range.revision);
                range.kvs.iter().for_each(|kv| learned.value(kv));
            }
            Err(RangeError::Stopped(Stopped)) => return,
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// Watches until the store stops, asking for progress now and then. Not after an answer to that: as long as no writer runs, each answer
/// would be followed by another one at once, and a writer that waits behind this task would never run.
async fn watcher(store: Store, learned: Arc<Observations>) {
    let Ok(mut watcher) = store.watch(WatchRequest::new(KeyRange::all())) else { return };
    let mut last = watcher.created_at();
    while let Some(Ok(batch)) = watcher.next().await {
        let next = if batch.events.is_empty() { last } else { last.next() };
        assert!(
            batch.revision >= next,
            "revisions ascend: {} after {last}, {} events",
            batch.revision,
            batch.events.len()
        );
        last = batch.revision;
        learned.revision(batch.revision);
        batch.events.iter().for_each(|event| learned.value(&event.kv));
        if batch.revision.0 % 3 == 0 && !batch.events.is_empty() {
            watcher.handle().request_progress();
        }
    }
}

/// Runs clients against a store until its disk fails, then checks that a restart has all their observations.
fn fail_under_load(round: u64) {
    let rng = Rng::seeded(round);
    let disk = SimDisk::default();
    let limits = Limits {
        group_jobs: 1 + rng.below(8) as usize,
        queue_jobs: 4 + rng.below(60) as usize,
        watcher_events: 3,
        first_segment_bytes: 16 << 10,
        segment_bytes: 16 << 10,
        checkpoint_bytes: 32 << 10,
        reserve_bytes: 1 << 10,
        ..Limits::default()
    };
    let engine = if round.is_multiple_of(2) { EngineKind::Segments } else { EngineKind::Memory };
    let config = Config { engine, limits, ..Config::durable("/data") };
    let learned = Arc::new(Observations::default());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let store = Store::open_threads(Arc::new(disk.clone()), &config, &Rng::seeded(round)).unwrap();
        let after = disk.ops() + rng.below(300);
        let fault = if rng.below(2) == 0 { Fault::CrashAt(after) } else { Fault::ErrorAt(after) };
        disk.set_fault(Some(fault));
        let lookers = [
            tokio::spawn(watcher(store.clone(), learned.clone())),
            tokio::spawn(reader(store.clone(), learned.clone())),
        ];
        let writers: Vec<_> = (0..6)
            .map(|n| {
                let rng = Rng::seeded(round * 100 + n);
                tokio::spawn(writer(store.clone(), learned.clone(), rng))
            })
            .collect();
        for task in writers {
            task.await.unwrap();
        }
        store.close().await;
        for task in lookers {
            task.await.unwrap();
        }
    });
    let policy = CrashPolicy::ALL[rng.below(4) as usize];
    block_on(judge(&disk.crash(policy, round), &config, &learned, &format!("round {round}, {policy:?}")));
}

/// R1, R3, X4, X5: checks that all observations are there.
async fn judge(disk: &SimDisk, config: &Config, learned: &Observations, what: &str) {
    let store = Store::open_stepped(Arc::new(disk.clone()), config, &Rng::seeded(7));
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    let learned_revision = learned.revision.load(Ordering::Relaxed);
    assert!(store.revision().0 >= learned_revision, "{what}: {} < {learned_revision}", store.revision());
    let mut history = Values::new();
    let mut watcher = store.watch(WatchRequest::new(KeyRange::all()).from(Revision(1))).unwrap();
    while let Some(batch) = watcher.try_next() {
        for event in batch.unwrap().events.iter() {
            let name = (event.revision().0, event.key().to_vec());
            history.insert(name, event.kv.value().to_vec());
        }
    }
    for (name, value) in learned.values.lock().iter() {
        assert_eq!(history.get(name), Some(value), "{what}: {name:?}");
    }
}

#[test]
fn everything_observed_before_a_disk_failure_survives_a_restart() {
    (0..40).for_each(fail_under_load);
}
