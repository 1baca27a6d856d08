//! Regression tests for defects that etcd had, by issue number. Those of concurrency are in `concurrent`, those of
//! crashes in `crash`; `PROPERTIES.md` lists them.

use super::conformance::{block_on, block_on_real, tiny};
use crate::disk::sim::{CrashPolicy, OperationKind, SimDisk};
use crate::{
    Config, Delete, EventKind, KeyRange, Limits, Op, Range, RangeError, Revision, Store, Txn, WatchRequest,
};
use futures::FutureExt;
use kstore_nondet::Rng;
use std::sync::Arc;

/// A store on a disk that can crash, with tiny limits, so that old versions are read from the engine.
struct CrashableStore {
    disk: SimDisk,
    config: Config,
    store: Store,
}

impl CrashableStore {
    fn new() -> Self {
        let config = tiny(Config::durable("/data"), 0);
        let disk = SimDisk::default();
        let store = Store::open_stepped(Arc::new(disk.clone()), &config, &Rng::seeded(1)).unwrap();
        Self { disk, config, store }
    }

    /// Crashes the machine without any unsynced change.
    fn crash(&mut self) {
        self.disk = self.disk.crash(CrashPolicy::Nothing, 1);
        self.store = Store::open_stepped(Arc::new(self.disk.clone()), &self.config, &Rng::seeded(2)).unwrap();
    }

    async fn run(&self, ops: Vec<Op>) -> Revision {
        self.store.txn(Txn::of(ops)).await.unwrap().revision
    }
}

fn all() -> WatchRequest {
    WatchRequest::new(KeyRange::all())
}

fn delete_all() -> Op {
    Op::Delete(Delete { keys: KeyRange::all(), prev_kv: false })
}

/// The newest record was a tombstone, compaction removed it, and after a restart the revision was lower.
#[test]
fn etcd_17780_the_revision_does_not_go_back_when_its_last_record_is_compacted() {
    block_on(async {
        let mut bench = CrashableStore::new();
        for round in 0..20 {
            bench.run(vec![Op::put("k", vec![0; 500])]).await;
            let deleted = bench.run(vec![Op::delete("k")]).await;
            bench.store.compact(deleted).await.unwrap();
            if round % 2 == 0 {
                bench.crash();
            } else {
                bench.store.close().await;
                bench.crash();
            }
            assert_eq!((bench.store.revision(), bench.store.compacted()), (deleted, deleted));
            assert_eq!(bench.run(vec![Op::put("other", "v")]).await, deleted.next());
        }
    });
}

/// A watch from the compacted revision missed the deletion at that revision.
#[test]
fn etcd_18089_19179_a_watch_from_the_compacted_revision_gets_its_deletion() {
    block_on(async {
        let mut bench = CrashableStore::new();
        bench.run(vec![Op::put("a", "1"), Op::put("b", "2")]).await;
        let deleted = bench.run(vec![delete_all()]).await;
        bench.run(vec![Op::put("c", vec![0; 2_000])]).await;
        bench.store.compact(deleted).await.unwrap();
        for restarted in [false, true] {
            if restarted {
                bench.crash();
            }
            let mut watcher = bench.store.watch(all().from(deleted).with_prev_kv()).unwrap();
            let batch = watcher.try_next().unwrap().unwrap();
            let seen: Vec<_> = batch.events.iter().map(|event| (event.kind, event.key().to_vec())).collect();
            assert_eq!(batch.revision, deleted);
            assert_eq!(seen, [(EventKind::Delete, b"a".to_vec()), (EventKind::Delete, b"b".to_vec())]);
        }
        let gone = bench.store.range(&Range::key("a").at(deleted)).unwrap();
        assert_eq!((gone.kvs.len(), gone.revision), (0, deleted.next()));
    });
}

/// A transaction with a historical read returned the current state on some members.
#[test]
fn etcd_18667_a_historical_read_in_a_transaction_returns_the_old_state() {
    block_on(async {
        let bench = CrashableStore::new();
        let first = bench.run(vec![Op::put("k", "old")]).await;
        bench.run(vec![Op::put("k", vec![0; 3_000])]).await;
        let ops = vec![Op::put("k", "new"), Op::Range(Range::key("k").at(first)), Op::Range(Range::key("k"))];
        let result = bench.store.txn(Txn::of(ops)).await.unwrap();
        let read = |at: usize| result.responses[at].clone().into_range().unwrap().kvs[0].value().to_vec();
        assert_eq!((read(1), read(2)), (b"old".to_vec(), b"new".to_vec()));
        bench.store.compact(first.next()).await.unwrap();
        let late = Txn::of(vec![Op::put("k", "never"), Op::Range(Range::key("k").at(first))]);
        let error = RangeError::Compacted { requested: first, compacted: first.next() };
        assert_eq!(bench.store.txn(late).await, Err(crate::TxnError::Range(error)));
    });
}

/// A watch from a future revision got events and notifications from before it.
#[test]
fn etcd_20221_a_watch_from_a_future_revision_gets_nothing_before_it() {
    block_on(async {
        let bench = CrashableStore::new();
        let mut watcher = bench.store.watch(all().from(Revision(30))).unwrap();
        for n in 2..30 {
            watcher.handle().request_progress();
            assert_eq!((watcher.next().now_or_never(), watcher.progress()), (None, None), "at {n}");
            assert_eq!(bench.run(vec![Op::put("k", vec![0; 300])]).await, Revision(n));
        }
        assert_eq!(watcher.try_next(), None);
        bench.run(vec![Op::put("k", "now")]).await;
        assert_eq!(watcher.try_next().unwrap().unwrap().revision, Revision(30));
        assert_eq!(watcher.progress(), Some(Revision(30)));
    });
}

/// A stream that could not send fast enough lost events, or sent some twice.
#[test]
fn etcd_17247_17529_a_starved_watcher_gets_every_event_once() {
    block_on(async {
        let mut bench = CrashableStore::new();
        let mut watchers: Vec<_> =
            (0..5).map(|n| bench.store.watch(all().from(Revision(n * 9))).unwrap()).collect();
        for n in 0..60 {
            bench.run(vec![Op::put("k", vec![n; 200]), Op::put("l", "v")]).await;
            // One watcher reads now and then, the others nothing.
            if n % 7 == 0 {
                assert!(watchers[1].try_next().is_none_or(|batch| batch.is_ok()));
            }
        }
        for (n, watcher) in watchers.iter_mut().enumerate() {
            let mut last = None;
            while let Some(batch) = watcher.try_next() {
                let batch = batch.unwrap();
                assert!(last.is_none_or(|last: Revision| batch.revision == last.next()), "watcher {n}");
                assert_eq!(batch.events.len(), 2);
                last = Some(batch.revision);
            }
            assert_eq!(last, Some(Revision(61)), "watcher {n}");
        }
        drop(watchers);
        bench.crash();
        assert_eq!(bench.store.revision(), Revision(61));
    });
}

/// A single-member cluster acknowledged a write before it was durable.
#[test]
fn etcd_14370_a_write_is_synced_before_it_is_acknowledged() {
    block_on(async {
        let bench = CrashableStore::new();
        for n in 0..40 {
            let before = bench.disk.count(OperationKind::Sync);
            let revision = bench.run(vec![Op::put("k", vec![n; 700])]).await;
            assert!(bench.disk.count(OperationKind::Sync) > before);
            // No crash can lose this write.
            let disk = bench.disk.crash(CrashPolicy::Nothing, 1);
            let store = Store::open_stepped(Arc::new(disk), &bench.config, &Rng::seeded(2)).unwrap();
            assert_eq!(store.revision(), revision);
            assert_eq!(store.range(&Range::key("k")).unwrap().kvs[0].value()[0], n);
        }
    });
}

/// A large compaction held the lock and starved writers.
#[test]
fn etcd_19406_a_large_compaction_does_not_starve_writers() {
    block_on_real(async {
        let config = Config {
            limits: Limits { window_revisions: 16, ..Limits::default() },
            ..Config::durable("/data")
        };
        let store = Store::open_threads(Arc::new(SimDisk::default()), &config, &Rng::seeded(1)).unwrap();
        let write =
            |n: i64| store.txn(Txn::of((0..100).map(|k| Op::put(format!("{k}"), n.to_string())).collect()));
        for n in 0..60 {
            write(n).await.unwrap();
        }
        let mut watcher = store.watch(all()).unwrap();
        store.compact(Revision(60)).await.unwrap();
        for n in 62..100 {
            assert_eq!(write(n).await.unwrap().revision, Revision(n));
            assert_eq!(watcher.next().await.unwrap().unwrap().revision, Revision(n));
        }
        store.close().await;
    });
}
