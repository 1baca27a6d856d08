//! Concurrency tests on real threads: the clients' observations must fit one order.

use super::conformance::tiny;
use crate::disk::sim::SimDisk;
use crate::{
    Batch, Config, EngineKind, KeyRange, Limits, Op, Range, Revision, Store, Txn, TxnError, WatchRequest,
};
use kstore_nondet::{Nondet, Rng};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs a future on several threads, in real time.
fn block_on_threads<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(600), future).await.expect("nothing waits for ever")
    })
}

/// Opens a store with threads on a simulated disk, with tiny limits.
fn open(seed: u64) -> Store {
    let config = tiny(Config::durable("/data"), seed as u8);
    Store::open_threads(Arc::new(SimDisk::default()), &config, &Rng::seeded(seed)).unwrap()
}

async fn put(store: &Store, key: String) -> Revision {
    loop {
        match store.txn(Txn::of(vec![Op::put(key.clone(), "v"), Op::put("all", "v")])).await {
            Ok(result) => return result.revision,
            Err(TxnError::Busy) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Starts `writers` writers that write `each` keys each; the handle completes when all are done.
fn write(store: &Store, writers: usize, each: usize) -> tokio::task::JoinHandle<()> {
    let store = store.clone();
    tokio::spawn(async move {
        let writer = |writer: usize| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..each {
                    put(&store, format!("{writer}/{n}")).await;
                }
            })
        };
        for task in (0..writers).map(writer).collect::<Vec<_>>() {
            task.await.unwrap();
        }
    })
}

fn all() -> WatchRequest {
    WatchRequest::new(KeyRange::all())
}

/// W6, and etcd's 15220 and 15271: a watch's progress fits between its events, and never decreases.
#[test]
fn progress_never_decreases_and_is_never_ahead_of_an_event() {
    block_on_threads(async {
        for seed in 0..4 {
            let store = open(seed);
            let mut watcher = store.watch(all().from(Revision(1))).unwrap();
            let writers = write(&store, 8, 60);
            let (mut last, mut events) = (1, 0);
            while events < 8 * 60 {
                watcher.handle().request_progress();
                let batch = watcher.next().await.unwrap().unwrap();
                if batch.events.is_empty() {
                    assert!(batch.revision.0 >= last, "progress {} behind {last}", batch.revision);
                } else {
                    assert_eq!(batch.revision.0, events + 2, "every event once, in order");
                    assert!(batch.revision.0 > last, "an event of {} behind progress {last}", batch.revision);
                    events += 1;
                }
                last = batch.revision.0;
                assert!(watcher.progress().is_none_or(|progress| progress.0 >= last));
            }
            writers.await.unwrap();
            store.close().await;
        }
    });
}

/// W3, W5, W20 and W23: watchers that start, stop, lag and resume during writes get every event once.
#[test]
fn watchers_that_start_and_stop_during_writes_miss_no_event() {
    block_on_threads(async {
        let (store, total) = (open(5), 6 * 80 + 1);
        let watcher = |seed: u64| {
            let store = store.clone();
            tokio::spawn(async move {
                let (rng, mut next) = (Rng::seeded(seed), 2);
                while next <= total {
                    let mut watcher = store.watch(all().from(Revision(next))).unwrap();
                    // Some watchers stop soon, some later, some with many events queued.
                    for _ in 0..rng.below(40) {
                        if next > total {
                            break;
                        }
                        if rng.below(4) == 0 {
                            tokio::time::sleep(Duration::from_micros(rng.below(300))).await;
                        }
                        let Batch { revision, events } = watcher.next().await.unwrap().unwrap();
                        assert_eq!(
                            (revision.0, events.len()),
                            (next, 2),
                            "whole revisions, each once, in order"
                        );
                        next += 1;
                    }
                }
            })
        };
        let watchers: Vec<_> = (0..6).map(watcher).collect();
        let writers = write(&store, 6, 80);
        writers.await.unwrap();
        for watcher in watchers {
            watcher.await.unwrap();
        }
        assert_eq!(store.revision(), Revision(total));
        let mut late = store.watch(all()).unwrap();
        store.close().await;
        assert_eq!(late.next().await, None);
    });
}

/// W9, W10: a watcher overtaken by a compaction gets a prefix of the events, then an error, then the end.
#[test]
fn watchers_overtaken_by_compaction_get_a_prefix_and_then_an_error() {
    block_on_threads(async {
        let store = open(6);
        let watcher = |seed: u64| {
            let store = store.clone();
            tokio::spawn(async move {
                let (rng, mut next) = (Rng::seeded(seed), 1 + store.compacted().0.max(1));
                let mut watcher = store.watch(all().from(Revision(next))).unwrap();
                while next < 300 {
                    if rng.below(3) == 0 {
                        tokio::time::sleep(Duration::from_micros(rng.below(2_000))).await;
                    }
                    match watcher.next().await.unwrap() {
                        Ok(batch) => {
                            assert_eq!(batch.revision.0, next, "no gap");
                            next += 1;
                        }
                        Err(crate::WatchError::Compacted { compacted }) => {
                            assert!(compacted.0 > next);
                            assert_eq!(watcher.next().await, None);
                            next = compacted.0;
                            watcher = store.watch(all().from(compacted)).unwrap();
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        };
        let watchers: Vec<_> = (0..4).map(watcher).collect();
        let writers = write(&store, 4, 75);
        while !writers.is_finished() {
            let _ = store.compact(Revision(store.revision().0 - 1)).await;
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        for watcher in watchers {
            watcher.await.unwrap();
        }
        store.close().await;
    });
}

/// K9, and etcd's 18667: pages at one revision add up to the list at that revision during writes. A historical read in
/// a transaction does too.
#[test]
fn pages_and_reads_at_a_revision_do_not_see_later_writes() {
    block_on_threads(async {
        let store = open(7);
        let writers = write(&store, 4, 80);
        while !writers.is_finished() {
            let at = store.revision();
            let whole = store.range(&Range::new(KeyRange::all()).at(at)).unwrap().kvs;
            let mut paged = Vec::new();
            let mut from = vec![0];
            loop {
                let page = Range::new(KeyRange::from_key(from.clone())).at(at).limit(7);
                let page = store.range(&page).unwrap();
                assert_eq!(page.count as usize, whole.len() - paged.len(), "the count is of what is left");
                paged.extend(page.kvs);
                if !page.more {
                    break;
                }
                from = paged.last().unwrap().key().to_vec();
                from.push(0);
                tokio::task::yield_now().await;
            }
            assert_eq!(paged, whole);
            assert!(whole.iter().all(|kv| kv.mod_revision() <= at));
            let past = Txn::of(vec![Op::Range(Range::new(KeyRange::all()).at(at)), Op::put("txn", "v")]);
            let past = store.txn(past).await.unwrap();
            let read = past.responses.into_iter().next().unwrap().into_range().unwrap();
            assert_eq!(read.kvs, whole);
        }
        writers.await.unwrap();
        store.close().await;
    });
}

/// A4: a call whose future is dropped is done completely or not at all.
#[test]
fn a_cancelled_call_is_done_completely_or_not_at_all() {
    block_on_threads(async {
        let store = open(8);
        let rng = Rng::seeded(1);
        for n in 0..300 {
            let ops = vec![Op::put(format!("{n}/a"), "v"), Op::put(format!("{n}/b"), "v")];
            let call = store.txn(Txn::of(ops));
            let _ = tokio::time::timeout(Duration::from_micros(rng.below(200)), call).await;
        }
        let mut watcher = store.watch(all().from(Revision(2))).unwrap();
        let last = put(&store, "last".to_owned()).await;
        let mut seen = 2;
        while seen <= last.0 {
            let batch = watcher.next().await.unwrap().unwrap();
            assert_eq!((batch.revision.0, batch.events.len()), (seen, 2));
            seen += 1;
        }
        store.close().await;
    });
}

/// W18, W19 and P3: watchers that do not read cost a writer only their bounded queues.
#[test]
fn idle_watchers_block_no_writer() {
    block_on_threads(async {
        let limits = Limits { watcher_events: 8, watcher_bytes: 1 << 10, ..Limits::default() };
        let config = Config { engine: EngineKind::Memory, limits, ..Config::memory() };
        let store = Store::open(config, Nondet::real()).await.unwrap();
        let idle: Vec<_> = (0..200).map(|_| store.watch(all()).unwrap()).collect();
        let taken = Arc::new(AtomicBool::new(false));
        let mut awake = store.watch(all()).unwrap();
        let reader = {
            let taken = taken.clone();
            tokio::spawn(async move {
                for revision in 2..102 {
                    assert_eq!(awake.next().await.unwrap().unwrap().revision, Revision(revision));
                }
                taken.store(true, Ordering::Release);
            })
        };
        for n in 0..100 {
            put(&store, format!("k{n}")).await;
        }
        reader.await.unwrap();
        assert!(taken.load(Ordering::Acquire));
        let queued = store.metrics().events_delivered;
        assert!(queued <= 2 * 100 + 200 * 8, "{queued} events are held for those who sleep");
        drop(idle);
    });
}
