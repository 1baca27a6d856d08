//! Tests of watches: which events arrive, and when.

use super::conformance::block_on;
use crate::{
    Batch, Config, EventKind, KeyRange, Limits, Op, Revision, Stopped, Store, Txn, WatchError, WatchRequest,
    Watcher,
};
use futures::FutureExt;
use futures::task::ArcWake;
use kstore_nondet::Nondet;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::task::Context;

async fn store_with(limits: Limits) -> Store {
    Store::open(Config { limits, ..Config::memory() }, Nondet::simulated(1)).await.unwrap()
}

async fn store() -> Store {
    store_with(Limits::default()).await
}

async fn put(store: &Store, key: &'static str) -> Revision {
    store.txn(Txn::of(vec![Op::put(key, "v")])).await.unwrap().revision
}

fn all() -> WatchRequest {
    WatchRequest::new(KeyRange::all())
}

fn now(watcher: &mut Watcher) -> Option<Result<Batch, WatchError>> {
    watcher.next().now_or_never().flatten()
}

#[test]
fn a_watch_gets_later_events_and_one_from_an_old_revision_the_history() {
    block_on(async {
        let store = store().await;
        put(&store, "a").await;
        let mut live = store.watch(all()).unwrap();
        let mut past = store.watch(all().from(Revision(2))).unwrap();
        assert_eq!(live.created_at(), Revision(2));
        put(&store, "b").await;
        assert_eq!(now(&mut live).unwrap().unwrap().revision, Revision(3));
        for revision in [2, 3] {
            assert_eq!(now(&mut past).unwrap().unwrap().revision, Revision(revision));
        }
        assert!(now(&mut live).is_none() && past.try_next().is_none());
    });
}

#[test]
fn a_watch_from_a_future_revision_waits_for_it() {
    block_on(async {
        let store = store().await;
        let mut watcher = store.watch(all().from(Revision(4))).unwrap();
        assert_eq!(watcher.progress(), None);
        for key in ["a", "b"] {
            put(&store, key).await;
        }
        assert!(now(&mut watcher).is_none());
        put(&store, "c").await;
        assert_eq!(now(&mut watcher).unwrap().unwrap().revision, Revision(4));
        assert_eq!(watcher.progress(), Some(Revision(4)));
    });
}

#[test]
fn watchers_share_events_and_get_whole_revisions() {
    block_on(async {
        let store = store().await;
        let mut everything = store.watch(all()).unwrap();
        let mut prefix = store.watch(WatchRequest::new(KeyRange::prefix("a/"))).unwrap();
        let mut single = store.watch(WatchRequest::new(KeyRange::single("b"))).unwrap();
        let mut interval = store.watch(WatchRequest::new(KeyRange::between("a/2", "b"))).unwrap();
        let mut deletions = store.watch(WatchRequest { no_put: true, ..all() }).unwrap();
        let ops = vec![Op::put("a/1", "1"), Op::put("a/2", "2"), Op::put("b", "3")];
        store.txn(Txn::of(ops)).await.unwrap();
        let whole = now(&mut everything).unwrap().unwrap();
        let keys = |batch: &Batch| batch.events.iter().map(|event| event.kv.key_bytes()).collect::<Vec<_>>();
        assert_eq!(keys(&whole), ["a/1", "a/2", "b"]);
        assert_eq!(keys(&now(&mut prefix).unwrap().unwrap()), ["a/1", "a/2"]);
        assert_eq!(keys(&now(&mut interval).unwrap().unwrap()), ["a/2"]);
        let one = now(&mut single).unwrap().unwrap();
        assert!(Arc::ptr_eq(&one.events[0], &whole.events[2]), "an event exists once");
        assert!(now(&mut deletions).is_none());
        store.txn(Txn::of(vec![Op::delete("b")])).await.unwrap();
        let gone = now(&mut deletions).unwrap().unwrap();
        assert_eq!((gone.events[0].kind, gone.events[0].revision()), (EventKind::Delete, Revision(3)));
        assert_eq!(gone.events[0].prev_kv.as_ref().unwrap().value(), b"3");
    });
}

#[test]
fn a_progress_request_is_answered_after_all_events() {
    block_on(async {
        let store = store().await;
        let mut watcher = store.watch(WatchRequest::new(KeyRange::prefix("a"))).unwrap();
        let handle = watcher.handle();
        put(&store, "other").await;
        put(&store, "a").await;
        handle.request_progress();
        handle.request_progress();
        assert_eq!(watcher.progress(), None, "an event is outstanding");
        assert_eq!(now(&mut watcher).unwrap().unwrap().events.len(), 1);
        let progress = now(&mut watcher).unwrap().unwrap();
        assert_eq!((progress.revision, progress.events.len()), (Revision(3), 0));
        assert!(now(&mut watcher).is_none());
    });
}

#[test]
fn a_watch_from_a_future_revision_reports_progress_when_its_start_is_reached() {
    block_on(async {
        let store = store().await;
        let mut watcher = store.watch(all().from(Revision(4))).unwrap();
        let elsewhere = WatchRequest { keys: KeyRange::single("other"), ..all().from(Revision(4)) };
        let mut elsewhere = store.watch(elsewhere).unwrap();
        for handle in [watcher.handle(), elsewhere.handle()] {
            handle.request_progress();
        }
        let waiting = tokio::spawn(async move { elsewhere.next().await });
        for key in ["a", "b"] {
            put(&store, key).await;
            tokio::task::yield_now().await;
            assert!(now(&mut watcher).is_none() && !waiting.is_finished(), "not before its start");
        }
        put(&store, "c").await;
        assert_eq!(now(&mut watcher).unwrap().unwrap().events.len(), 1);
        let shown = |batch: Batch| (batch.revision, batch.events.len());
        assert_eq!(shown(now(&mut watcher).unwrap().unwrap()), (Revision(4), 0), "behind the event");
        assert_eq!(shown(waiting.await.unwrap().unwrap().unwrap()), (Revision(4), 0), "it was woken for it");
    });
}

#[test]
fn a_watcher_that_joined_before_the_delivery_reports_progress() {
    block_on(async {
        let store = store_with(Limits { watcher_events: 1, ..Limits::default() }).await;
        let mut watcher = store.watch(all()).unwrap();
        for _ in 0..5 {
            put(&store, "k").await;
        }
        watcher.handle().request_progress();
        for revision in 2..=6 {
            assert_eq!(now(&mut watcher).unwrap().unwrap().revision, Revision(revision));
        }
        let progress = now(&mut watcher).unwrap().unwrap();
        assert_eq!((progress.revision, progress.events.len()), (Revision(6), 0));
        assert_eq!(watcher.progress(), Some(Revision(6)));
    });
}

#[test]
fn each_watcher_of_one_key_gets_its_own_event_of_a_large_revision() {
    block_on(async {
        let store = store().await;
        let name = |n: usize| format!("k{n:02}");
        let one = |n: usize| store.watch(WatchRequest::new(KeyRange::single(name(n)))).unwrap();
        let mut watchers: Vec<_> = (0..100).map(one).collect();
        let ops = (0..100).map(|n| Op::put(name(n), "v")).collect();
        store.txn(Txn::of(ops)).await.unwrap();
        for (n, watcher) in watchers.iter_mut().enumerate() {
            let batch = now(watcher).unwrap().unwrap();
            let keys: Vec<_> = batch.events.iter().map(|event| event.kv.key_bytes()).collect();
            assert_eq!(keys, [name(n)]);
        }
    });
}

#[test]
fn a_slow_watcher_misses_nothing_and_is_bounded() {
    block_on(async {
        let limits =
            Limits { watcher_events: 4, window_revisions: 8, history_revisions: 3, ..Limits::default() };
        let store = store_with(limits).await;
        let mut watcher = store.watch(all()).unwrap();
        for _ in 0..100 {
            put(&store, "k").await;
        }
        assert_eq!(store.metrics().watchers_lagged, 1);
        assert_eq!(store.metrics().events_delivered, 4);
        for revision in 2..=101 {
            assert_eq!(now(&mut watcher).unwrap().unwrap().revision, Revision(revision));
        }
        put(&store, "k").await;
        assert_eq!(now(&mut watcher).unwrap().unwrap().revision, Revision(102));
        assert_eq!(store.metrics().events_delivered, 5, "it is live again");
    });
}

#[test]
fn a_watcher_overtaken_by_compaction_fails_and_ends() {
    block_on(async {
        let limits = Limits { watcher_events: 1, window_revisions: 2, ..Limits::default() };
        let store = store_with(limits).await;
        let mut slow = store.watch(all()).unwrap();
        for _ in 0..10 {
            put(&store, "k").await;
        }
        store.compact(Revision(8)).await.unwrap();
        let mut late = store.watch(all().from(Revision(7))).unwrap();
        let mut exact = store.watch(all().from(Revision(8)).with_prev_kv()).unwrap();
        assert_eq!(now(&mut slow).unwrap().unwrap().revision, Revision(2), "what was queued still comes");
        let compacted = Some(Err(WatchError::Compacted { compacted: Revision(8) }));
        for watcher in [&mut slow, &mut late] {
            assert_eq!(now(watcher), compacted);
            assert_eq!(watcher.next().await, None);
        }
        let first = now(&mut exact).unwrap().unwrap();
        assert_eq!(first.revision, Revision(8));
        assert!(first.events[0].prev_kv.is_some(), "even here it is known what was before");
    });
}

#[test]
fn an_idle_store_releases_old_commits_and_watchers_read_them_from_the_engine() {
    block_on(async {
        let limits = Limits { window_calm_bytes: 0, ..Limits::default() };
        let store = store_with(limits.clone()).await;
        let in_window = || store.driver().core().visible().window.len();
        for _ in 0..2_000 {
            put(&store, "k").await;
        }
        tokio::time::sleep(limits.window_age + limits.window_age / 2).await;
        assert_eq!(in_window(), 2_000, "old is what was there an age before the last look");
        put(&store, "k").await;
        tokio::time::sleep(limits.window_age).await;
        assert_eq!(in_window(), 1, "what is younger is left");
        tokio::time::sleep(limits.window_age).await;
        assert_eq!(in_window(), 0);
        let mut late = store.watch(all().from(Revision(2))).unwrap();
        for revision in 2..=2_002 {
            assert_eq!(now(&mut late).unwrap().unwrap().revision, Revision(revision));
        }
        put(&store, "k").await;
        assert_eq!(now(&mut late).unwrap().unwrap().revision, Revision(2_003));
    });
}

#[test]
fn an_idle_store_keeps_a_few_commits_in_memory() {
    block_on(async {
        let limits = Limits { window_calm_bytes: 4_096, ..Limits::default() };
        let store = store_with(limits.clone()).await;
        for _ in 0..2_000 {
            put(&store, "k").await;
        }
        tokio::time::sleep(3 * limits.window_age).await;
        let left = store.driver().core().visible().window.len();
        assert!((10..100).contains(&left), "{left} commits");
    });
}

#[test]
fn watches_end_when_the_store_closes_and_empty_ranges_are_refused() {
    block_on(async {
        let store = store().await;
        let empty = store.watch(WatchRequest::new(KeyRange::between("b", "a")));
        assert_eq!(empty.err(), Some(WatchError::EmptyRange));
        let mut watcher = store.watch(all()).unwrap();
        put(&store, "k").await;
        let waiting = tokio::spawn(async move {
            let first = watcher.next().await;
            (first, watcher.next().await)
        });
        tokio::task::yield_now().await;
        store.close().await;
        let (first, second) = waiting.await.unwrap();
        assert!(first.is_none_or(|batch| batch.is_ok()) && second.is_none());
        assert_eq!(store.watch(all()).err(), Some(WatchError::Stopped(Stopped)));
    });
}

/// A waker may run anything at once, including calls of the hub.
#[test]
fn watchers_are_woken_when_the_hub_is_unlocked() {
    struct ProgressAskingWaker(Store, Mutex<Vec<bool>>);
    impl ArcWake for ProgressAskingWaker {
        fn wake_by_ref(woken: &Arc<Self>) {
            woken.1.lock().push(woken.0.driver().core().hub.is_locked());
        }
    }
    block_on(async {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let woken = Arc::new(ProgressAskingWaker(store.clone(), Mutex::default()));
        let mut watcher = store.watch(WatchRequest::new(KeyRange::all())).unwrap();
        let mut wait = || {
            let waker = futures::task::waker(woken.clone());
            let mut next = pin!(watcher.next());
            next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
        };
        assert!(wait());
        store.put("k", "v").await.unwrap();
        assert!(!wait() && wait());
        store.close().await;
        assert_eq!(*woken.1.lock(), [false, false]);
    });
}
