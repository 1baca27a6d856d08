//! Tests of a history with a bound in bytes: it never makes a write fail, and the quota bounds the current versions alone.

use super::conformance::{block_on, block_on_real, cases, tiny};
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::runtime::request::{Request, Response};
use crate::{
    Alarm, Config, EngineKind, KeyRange, LeaseId, Limits, NoSpaceReason, Op, Range, Revision, Store, Txn,
    TxnError,
};
use bytes::Bytes;
use kstore_nondet::{Nondet, Rng};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use std::collections::BTreeMap;
use std::sync::Arc;

const QUOTA: u64 = 40_000;
const BOUND: u64 = 20_000;

fn bounded(config: Config) -> Config {
    let limits = Limits { quota_bytes: Some(QUOTA), history_bytes: Some(BOUND), ..config.limits };
    Config { limits, ..config }
}

fn on_disk(disk: &SimDisk, engine: EngineKind) -> Store {
    let config = bounded(tiny(Config { engine, ..Config::durable("/data") }, 3));
    Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(1)).unwrap()
}

async fn in_memory() -> Store {
    Store::open(bounded(Config::memory()), Nondet::simulated(1)).await.unwrap()
}

/// A key that no burst chooses.
const LAST: u8 = 8;

/// The keys that exist with the sizes of their values.
type Model = BTreeMap<u8, usize>;

/// What the keys of the model count against the quota, with some room for the numbers of each version.
fn current(model: &Model) -> u64 {
    model.values().map(|size| 256 + 3 + 40 + *size as u64).sum()
}

#[derive(Clone, Debug)]
enum Step {
    /// A burst of writes: key and size of each. A key whose size is zero is deleted.
    Burst(Vec<(u8, usize)>),
    /// The newest `.0` revisions stay.
    Compact(i64),
    /// The process is killed, and the store opened again.
    Crash(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![1 => 0..1usize, 4 => 1..1_500usize, 1 => 1_500..6_000usize];
    let burst = vec((0u8..8, size), 1..60).prop_map(Step::Burst);
    let step = prop_oneof![12 => burst, 1 => (0i64..40).prop_map(Step::Compact), 1 => any::<u64>().prop_map(Step::Crash)];
    vec(step, 1..14)
}

fn op(key: u8, size: usize) -> Op {
    let name = vec![b'k', b'0' + key];
    if size == 0 { Op::delete(name) } else { Op::put(name, vec![key; size]) }
}

/// The writes of a burst that fit the quota, after which the model has them.
fn fitting(model: &mut Model, writes: &[(u8, usize)]) -> Vec<Txn> {
    let mut txns = Vec::new();
    for (key, size) in writes {
        let mut next = model.clone();
        match *size {
            0 => next.remove(key),
            size => next.insert(*key, size),
        };
        if *size == 0 || current(&next) < QUOTA {
            *model = next;
            txns.push(Txn::of(vec![op(*key, *size)]));
        }
    }
    txns
}

fn check(store: &Store, model: &Model) {
    let all = store.range(&Range::new(KeyRange::all())).unwrap();
    let found: Model = all.kvs.iter().map(|kv| (kv.key()[1] - b'0', kv.value().len())).collect();
    assert_eq!(&found, model, "no acknowledged write is lost");
    let size = store.size();
    let exact: u64 = all.kvs.iter().map(|kv| 256 + kv.encoded().len() as u64).sum();
    assert_eq!(size.current, exact, "the counter equals a recount");
    assert_eq!(store.alarms(), []);
    // Every record has a frame.
    assert!(size.live < QUOTA + BOUND + BOUND / 4 + 12_000, "{size:?}");
    assert!(
        store.compacted() < store.revision() || store.revision() == Revision(1),
        "the state before stays"
    );
}

/// Runs the steps; each burst is one request, or one group of a stepped store.
async fn run(mut store: Store, steps: Vec<Step>, disk: Option<(SimDisk, EngineKind)>) {
    // Each burst ends with a write of this key: a group is evaluated as a whole before the removal begins.
    let mut model = Model::from([(LAST, 1)]);
    store.txn(Txn::of(vec![op(LAST, 1)])).await.unwrap();
    let mut disk = disk;
    for step in steps {
        match step {
            Step::Burst(writes) => {
                let txns = fitting(&mut model, &writes);
                if disk.is_some() {
                    let answers =
                        store.driver().submit_group(txns.into_iter().map(Request::Txn).collect()).unwrap();
                    for answer in answers {
                        let Response::Txn(result) = answer else { panic!("{answer:?}") };
                        result.expect("history never makes a write fail");
                    }
                } else {
                    for txn in txns {
                        store.txn(txn).await.expect("history never makes a write fail");
                    }
                }
                store.txn(Txn::of(vec![op(LAST, 1)])).await.expect("history never makes a write fail");
            }
            Step::Compact(kept) => {
                let to = Revision(store.revision().0 - 1 - kept);
                if to > store.compacted() && to.0 > 0 {
                    store.compact(to).await.unwrap();
                }
            }
            Step::Crash(seed) => {
                if let Some((found, engine)) = &mut disk {
                    *found = found.crash(CrashPolicy::Nothing, seed);
                    store = on_disk(found, *engine);
                }
            }
        }
        check(&store, &model);
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn in_memory_history_never_makes_a_write_fail(steps in steps()) {
        block_on(async { run(in_memory().await, steps, None).await });
    }

    #[test]
    fn on_disk_history_never_makes_a_write_fail_across_crashes(steps in steps(), volatile in any::<bool>()) {
        let engine = if volatile { EngineKind::Memory } else { EngineKind::Segments };
        block_on(async {
            let disk = SimDisk::default();
            run(on_disk(&disk, engine), steps, Some((disk, engine))).await;
        });
    }
}

/// With threads, many callers at once, and the engines of files: the removal keeps up with the writers.
#[test]
fn a_burst_of_concurrent_writers_never_meets_the_quota() {
    const WRITES: usize = 2_000;
    for engine in [EngineKind::Segments, EngineKind::Sled] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = bounded(Config { engine, ..Config::durable(dir.path().join("data")) });
        config.limits = Limits { quota_bytes: Some(400_000), history_bytes: Some(200_000), ..config.limits };
        config.limits.feed_batch_bytes = 16 << 10;
        block_on_real(async {
            let store = Store::open(config.clone(), Nondet::real()).await.unwrap();
            let write = |at: usize| {
                let store = store.clone();
                tokio::spawn(async move { store.put(format!("k{}", at % 16), vec![7; 4_000]).await })
            };
            for chunk in (0..WRITES).collect::<Vec<_>>().chunks(64) {
                let tasks: Vec<_> = chunk.iter().map(|at| write(*at)).collect();
                for task in tasks {
                    task.await.unwrap().expect("history never makes a write fail");
                }
            }
            assert_eq!((store.revision(), store.alarms()), (Revision(1 + WRITES as i64), vec![]));
            let compacted = store.compacted();
            assert!(compacted.0 > WRITES as i64 / 2, "{engine:?}: {compacted}");
            // Every write of the test is 8 MB; what waits for the worker is a small part of them.
            store.compact_physical(Revision(store.revision().0 - 1)).await.unwrap();
            assert!(store.size().live < 400_000, "{engine:?}: {:?}", store.size());
            store.close().await;
            let store = Store::open(config, Nondet::real()).await.unwrap();
            assert_eq!(store.range(&Range::new(KeyRange::all())).unwrap().count, 16, "{engine:?}");
            store.close().await;
        });
    }
}

#[test]
fn current_versions_at_the_quota_are_refused_until_some_are_deleted() {
    block_on(async {
        let disk = SimDisk::default();
        for store in [in_memory().await, on_disk(&disk, EngineKind::Segments)] {
            let mut written = 0;
            let refused = loop {
                match store.put(format!("k{written:02}"), vec![7; 1_000]).await {
                    Ok(_) => written += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!((refused, store.alarms()), (TxnError::NoSpace, vec![Alarm::NoSpace]));
            assert!((QUOTA / 1_400..QUOTA / 1_200).contains(&(written as u64)), "{written} writes");
            let reason = store.no_space_reason().unwrap();
            assert!(matches!(reason, NoSpaceReason::Quota { quota: QUOTA, .. }), "{reason:?}");

            // What does not add to the data, or adds little to existing keys, is accepted: a deletion may need such an update.
            store.put("k00", vec![8; 1_000]).await.unwrap();
            store.put("k00", vec![8; 1_200]).await.unwrap();
            assert_eq!(store.put("k01", vec![8; 9_000]).await, Err(TxnError::NoSpace));
            assert_eq!(store.lease_grant(60, LeaseId::NONE).await.map(drop), Ok(()), "leases take little");

            store.delete_range(KeyRange::prefix("k0")).await.unwrap();
            assert_eq!((store.alarms(), store.no_space_reason()), (vec![], None));
            store.put("new", vec![8; 1_000]).await.unwrap();
        }
    });
}

#[test]
fn an_alarm_of_the_quota_ends_after_a_crash_too_and_an_operators_stays() {
    block_on(async {
        let disk = SimDisk::default();
        let store = on_disk(&disk, EngineKind::Segments);
        while store.put(format!("k{}", store.revision()), vec![7; 1_000]).await.is_ok() {}
        let disk = disk.crash(CrashPolicy::Nothing, 1);
        let store = on_disk(&disk, EngineKind::Segments);
        assert_eq!(store.alarms(), [Alarm::NoSpace]);
        assert_eq!(store.put("more", vec![7; 1_000]).await, Err(TxnError::NoSpace));
        assert_eq!(store.alarm_raise(Alarm::NoSpace).await, Ok(true), "for one more reason");
        store.delete_range(KeyRange::all()).await.unwrap();
        assert_eq!(store.put("more", vec![7; 1]).await, Err(TxnError::NoSpace));
        assert_eq!(store.alarm_disarm(Alarm::NoSpace).await, Ok(true));
        store.put("more", vec![7; 1_000]).await.unwrap();
        assert_eq!(store.alarms(), []);
    });
}

#[test]
fn a_history_that_is_larger_than_its_bound_at_the_start_is_compacted_by_the_first_write() {
    block_on(async {
        let disk = SimDisk::default();
        let unbounded = tiny(Config::durable("/data"), 3);
        let store = Store::open_stepped(Arc::new(disk.clone()), &unbounded, &Rng::seeded(1)).unwrap();
        for at in 0..200 {
            store.put("k", noise(at)).await.unwrap();
        }
        let before = store.size().live;
        assert!(before > 3 * BOUND, "{before}");
        store.close().await;
        let store = on_disk(&disk, EngineKind::Segments);
        store.put("k", noise(200)).await.unwrap();
        let (live, compacted) = (store.size().live, store.compacted());
        assert!(live < BOUND + 5_000 && live > BOUND / 2, "{live} of {before}");
        assert!(compacted.0 > 100 && compacted.0 < 195, "{compacted}: the newest part stays");
    });
}

/// A thousand bytes that do not compress.
fn noise(seed: u64) -> Bytes {
    let rng = Rng::seeded(seed);
    (0..125).flat_map(|_| rng.next_u64().to_le_bytes()).collect::<Vec<_>>().into()
}

/// A pinned read delays the removal, not the writers, and costs no history.
#[test]
fn a_pinned_read_makes_no_write_wait_and_no_further_history_go() {
    block_on(async {
        let store = in_memory().await;
        let pin = store.driver().core().pins.pin();
        for at in 0..60 {
            store.put("k", noise(at)).await.unwrap();
        }
        let compacted = store.compacted();
        assert!(compacted.0 > 1 && compacted.0 < 30, "{compacted}: once, for the first part");
        drop(pin);
        store.put("k", noise(60)).await.unwrap();
        assert!(store.compacted() > compacted);
        let size = store.size();
        assert!(size.live < BOUND + 5_000, "{size:?}");
    });
}
