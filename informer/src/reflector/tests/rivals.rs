//! Regression tests named for defects of other informers.

use crate::limits::{LIST_PAGE, SOURCE_BACKOFF_BASE};
use crate::testing::{
    Call, FakeKind, FakeSource, FakeStore, Fault, FaultScript, Sample, Stored, assert_converges,
};
use crate::warnings::Warnings;
use crate::{
    Builder, Delta, Index, Informer, Key, ListRequest, Object, ReadAt, Revision, SourceError, Start, Status,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

fn samples() -> (FakeStore, FakeKind<Sample>) {
    let store = FakeStore::new();
    let kind = store.kind("samples");
    (store, kind)
}

fn sample(name: &str) -> Sample {
    Sample::new("", name)
}

fn key(name: &str) -> Key {
    Key::new("", name)
}

/// Waits until the source has received this many calls, calling `look` meanwhile.
async fn wait_for_calls<T: Stored>(source: &FakeSource<T>, calls: usize, mut look: impl FnMut()) {
    for _ in 0..100_000 {
        if source.calls().len() >= calls {
            return;
        }
        look();
        sleep(Duration::from_millis(10)).await;
    }
    panic!("the source was not asked {calls} times: {:?}", source.calls());
}

/// Breaks the informer's stream and compacts its revision, and waits for the relist.
async fn relist<T: Stored>(store: &FakeStore, source: &FakeSource<T>, informer: &Informer<T>) {
    store.kind::<Sample>("others").put(sample("other"));
    store.compact(store.revision());
    source.fail_next(SourceError::Expired);
    source.disconnect();
    informer.wait_for(store.revision()).await.unwrap();
    yield_now().await;
}

/// R5. In kube-rs 4.2.0 a streaming list that breaks before its end leaves its first half in the store, and
/// objects deleted before the next attempt stay in the cache.
#[tokio::test(start_paused = true)]
async fn a_broken_streaming_list_does_not_change_the_cache() {
    let (_, kind) = samples();
    for name in ["a-gone", "b-gone", "c-gone", "stays"] {
        kind.put(sample(name).tag("t"));
    }
    let script = FaultScript::new([Fault::cut_after(1), Fault::fail_after(1, SourceError::Expired)]);
    let source = kind.source().faults(&script);
    let tags = Index::new(|s: &Sample, emit: &mut dyn FnMut(String)| s.tags.iter().cloned().for_each(emit));
    let informer = Builder::new(source.clone()).index(&tags).spawn(&CancellationToken::new());
    let mut subscription = informer.subscribe();
    wait_for_calls(&source, 3, || {
        assert!(informer.is_empty() && informer.by(&tags, "t").is_empty() && !informer.is_synced());
        assert_eq!(subscription.pending(), 0);
        if source.calls().len() == 2 {
            ["a-gone", "b-gone", "c-gone"].iter().for_each(|name| {
                let _ = kind.delete(&key(name));
            });
        }
    })
    .await;
    assert_converges(&informer, &kind).await;
    assert_eq!(informer.by(&tags, "t").len(), 1);
    assert_eq!(subscription.try_next().len(), 1, "objects that never reached the cache are not delivered");
}

/// R5, with a full cache: a broken second streaming list does not touch it.
#[tokio::test(start_paused = true)]
async fn a_broken_second_streaming_list_keeps_the_cache() {
    let (store, kind) = samples();
    (0..9).for_each(|n| drop(kind.put(sample(&n.to_string()))));
    let script = FaultScript::default();
    let source = kind.source().faults(&script);
    let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
    informer.synced().await.unwrap();
    let (before, revision) = (informer.list(), informer.revision());
    store.kind::<Sample>("others").put(sample("other"));
    yield_now().await;
    source.fail_next(SourceError::Expired);
    script.push(Fault::cut_after(2));
    script.push(Fault::delay(Duration::from_secs(60)));
    source.disconnect();
    (0..9).for_each(|n| drop(kind.put(sample(&n.to_string()).value(1))));
    sleep(Duration::from_secs(30)).await;
    assert!(source.calls().len() >= 4, "one state broke and another is on its way: {:?}", source.calls());
    assert!(before.iter().zip(informer.list()).all(|(old, new)| Arc::ptr_eq(old, &new)));
    assert!(informer.revision() <= Revision(revision.0 + 1));
    assert_converges(&informer, &kind).await;
}

/// R3. kube-rs with its list semantic `Any` forgets its revision when its watch expires, and follows a
/// lagging replica into the past.
#[tokio::test(start_paused = true)]
async fn a_lagging_replica_cannot_move_the_cache_back() {
    for streaming in [true, false] {
        let (store, kind) = samples();
        (0..5).for_each(|n| drop(kind.put(sample(&n.to_string()))));
        let script = FaultScript::default();
        let mut source = kind.source().faults(&script);
        if !streaming {
            source = source.without_streaming();
        }
        let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
        informer.wait_for(store.revision()).await.unwrap();
        let (before, reached) = (informer.list(), informer.revision());
        source.fail_next(SourceError::Expired);
        for _ in 0..3 {
            script.push(Fault::lag(3));
        }
        source.disconnect();
        let calls = source.calls().len();
        wait_for_calls(&source, calls + 4, || {
            assert_eq!(informer.revision(), reached);
            assert_eq!(informer.list(), before);
        })
        .await;
        kind.put(sample("new"));
        assert_converges(&informer, &kind).await;
        let first = match &source.calls()[calls + 1] {
            Call::List(request) => request.at,
            Call::Watch(Start::Initial(at)) => *at,
            Call::Watch(Start::After(_)) => panic!("the whole state is asked for"),
        };
        assert_eq!(first, ReadAt::NotOlderThan(reached), "how far it had come is not forgotten");
    }
}

/// R7. client-go without resync calls every handler for every object at each relist.
#[tokio::test(start_paused = true)]
async fn a_relist_without_news_wakes_no_subscriber_and_keeps_every_object() {
    let kinds_of_server: [fn(FakeSource<Sample>) -> FakeSource<Sample>; 3] =
        [|source| source, FakeSource::without_streaming, |source| source.without_streaming().with_paging()];
    for able in kinds_of_server {
        let (store, kind) = samples();
        (0..1_200).for_each(|n| drop(kind.put(sample(&n.to_string()))));
        let source = able(kind.source());
        let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
        informer.synced().await.unwrap();
        let mut subscription = informer.subscribe();
        assert_eq!(subscription.try_next().len(), 1_200);
        let (before, calls_before) = (informer.list(), source.calls().len());
        let listener = tokio::spawn(async move { subscription.next().await.map(|deltas| deltas.len()) });
        relist(&store, &source, &informer).await;
        assert!(source.calls().len() > calls_before + 1, "it asked for everything: {:?}", source.calls());
        assert!(before.iter().zip(informer.list()).all(|(old, new)| Arc::ptr_eq(old, &new)));
        assert!(!listener.is_finished(), "no listener is woken");
        kind.put(sample("7").value(7));
        assert_eq!(listener.await.unwrap(), Some(1), "the next change is the first that is heard of");
    }
}

/// An object that counts its instances in memory.
struct Counted {
    sample: Sample,
    alive: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Counted {
    fn new(sample: Sample, alive: &Arc<AtomicUsize>, most: &Arc<AtomicUsize>) -> Self {
        most.fetch_max(alive.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Self { sample, alive: alive.clone(), most: most.clone() }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(self.sample.clone(), &self.alive, &self.most)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Object for Counted {
    fn key(&self) -> Key {
        self.sample.key()
    }
    fn uid(&self) -> &str {
        self.sample.uid()
    }
    fn revision(&self) -> Revision {
        self.sample.revision()
    }
}

/// R7. client-go and kube-rs hold the old and the new state during a relist, which doubles their memory. Here
/// a relist costs the changed objects and one message.
#[tokio::test(start_paused = true)]
async fn a_relist_needs_memory_for_changes_and_one_page() {
    const OBJECTS: usize = 5_000;
    const CHANGED: usize = 10;
    for streaming in [true, false] {
        let (store, kind) = samples();
        let (alive, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        (0..OBJECTS).for_each(|n| drop(kind.put(sample(&n.to_string()))));
        let mut source = kind.source().with_paging();
        if !streaming {
            source = source.without_streaming();
        }
        let (count, peak) = (alive.clone(), most.clone());
        let counted = Builder::new(source.clone()).map(move |sample| Counted::new(sample, &count, &peak));
        let informer = counted.spawn(&CancellationToken::new());
        informer.synced().await.unwrap();
        assert_eq!(alive.load(Ordering::Relaxed), OBJECTS);
        // The relist not older than the cache is refused, so the latest state is listed in pages.
        source.fail_next(SourceError::Expired);
        source.fail_next(SourceError::Expired);
        source.disconnect();
        (0..CHANGED).for_each(|n| drop(kind.put(sample(&n.to_string()).value(1))));
        store.compact(store.revision());
        most.store(0, Ordering::Relaxed);
        informer.wait_for(store.revision()).await.unwrap();
        let extra = most.load(Ordering::Relaxed) - OBJECTS;
        let page = if streaming { 3 } else { LIST_PAGE.get() as usize };
        assert!(extra <= page + CHANGED, "{extra} objects beside the cache, streaming: {streaming}");
        assert_eq!(alive.load(Ordering::Relaxed), OBJECTS);
    }
}

/// R8. client-go shows an object that was deleted and recreated while the watch was down as an update
/// (k/k#133565).
#[tokio::test(start_paused = true)]
async fn an_object_recreated_between_watches_is_deleted_then_added() {
    for unseen in [true, false] {
        let (store, kind) = samples();
        let first = kind.put(sample("a"));
        let source = kind.source();
        let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
        informer.synced().await.unwrap();
        let mut subscription = informer.subscribe();
        subscription.try_next();
        if unseen {
            source.fail_next(SourceError::Expired);
            source.disconnect();
        }
        kind.delete(&key("a")).unwrap();
        let second = kind.put(sample("a"));
        if unseen {
            store.compact(store.revision());
        }
        informer.wait_for(store.revision()).await.unwrap();
        match subscription.next().await.unwrap().as_slice() {
            [Delta::Deleted(old), Delta::Added(new)] => {
                assert_eq!((old.uid(), new.uid()), (first.uid(), second.uid()));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// R10: missing progress frames reveal a dead connection. client-go and kube-rs wait for the end of the
/// watch's timeout, minutes later.
#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_noticed_within_two_intervals() {
    let every = Duration::from_secs(5);
    for cut in [Fault::silence_after(0), Fault::silence_after(1), Fault::silence_after(2)] {
        let (_, kind) = samples();
        kind.put(sample("a"));
        let source = kind.source().with_progress(every).faults(&FaultScript::new([cut]));
        let (start, informer) =
            (Instant::now(), Builder::new(source.clone()).spawn(&CancellationToken::new()));
        wait_for_calls(&source, 2, || {}).await;
        let longest = every * 2 + 2 * SOURCE_BACKOFF_BASE + Duration::from_millis(10);
        assert!(start.elapsed() >= every * 2 && start.elapsed() <= longest, "{:?}", start.elapsed());
        assert_converges(&informer, &kind).await;
    }
}

/// R10: an unanswered call does not block an informer forever.
#[tokio::test(start_paused = true)]
async fn an_unanswered_call_times_out() {
    let (_, kind) = samples();
    let never = Duration::from_secs(365 * 86_400);
    for source in [kind.source(), kind.source().without_streaming()] {
        let script = FaultScript::new([Fault::delay(never), Fault::none(), Fault::delay(never)]);
        let source = source.faults(&script);
        let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
        assert_converges(&informer, &kind).await;
        source.disconnect();
        kind.put(sample("a"));
        assert_converges(&informer, &kind).await;
    }
}

/// R12: one list for an expired watch, and a second only if the first was refused. Paged only where that is
/// cheapest.
#[tokio::test(start_paused = true)]
async fn an_expired_watch_costs_one_list_plus_one_if_refused() {
    for refused in [false, true] {
        let (store, kind) = samples();
        let source = kind.source().without_streaming().with_paging();
        let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
        informer.synced().await.unwrap();
        yield_now().await;
        let (calls_before, reached) = (source.calls().len(), informer.revision());
        source.fail_next(SourceError::Expired);
        if refused {
            source.fail_next(SourceError::Expired);
        }
        source.disconnect();
        kind.put(sample("a"));
        store.compact(store.revision());
        informer.wait_for(store.revision()).await.unwrap();
        let lists = source.calls().into_iter().skip(calls_before).filter_map(|call| match call {
            Call::List(list) => Some(list),
            Call::Watch(_) => None,
        });
        let mut expected = vec![ListRequest::all(ReadAt::NotOlderThan(reached))];
        if refused {
            expected.push(ListRequest { at: ReadAt::Latest, limit: Some(LIST_PAGE), next: None });
        }
        assert_eq!(lists.collect::<Vec<_>>(), expected);
    }
}

/// The table of requests, with a server that pages its lists because it has no cache.
#[tokio::test(start_paused = true)]
async fn a_server_that_paged_its_first_list_is_paged_later_too() {
    let (store, kind) = samples();
    (0..1_300).for_each(|n| drop(kind.put(sample(&n.to_string()))));
    let source = kind.source().without_streaming().with_paging();
    let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
    informer.synced().await.unwrap();
    let pages = |calls: &[Call]| {
        let lists = calls.iter().filter_map(|call| match call {
            Call::List(list) => Some((list.at, list.limit, list.next.is_some())),
            Call::Watch(_) => None,
        });
        lists.collect::<Vec<_>>()
    };
    let limit = Some(LIST_PAGE);
    let any = ReadAt::Any;
    assert_eq!(pages(&source.calls()), [(any, limit, false), (any, limit, true), (any, limit, true)]);
    let calls_before = source.calls().len();
    relist(&store, &source, &informer).await;
    let again = pages(&source.calls().split_off(calls_before));
    assert_eq!(again.len(), 3);
    assert!(
        again.iter().all(|(at, limit, _)| matches!(at, ReadAt::NotOlderThan(_)) && *limit == Some(LIST_PAGE))
    );
}

/// A list whose second page expired is requested once more without paging, and shows one state.
#[tokio::test(start_paused = true)]
async fn an_expired_page_restarts_the_list_without_paging() {
    let (_, kind) = samples();
    (0..1_300).for_each(|n| drop(kind.put(sample(&n.to_string()))));
    let script = FaultScript::new([Fault::none(), Fault::none(), Fault::expired()]);
    let source = kind.source().without_streaming().with_paging().faults(&script);
    let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
    let start = Instant::now();
    assert_converges(&informer, &kind).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "at once");
    assert_eq!(source.calls()[3], Call::List(ListRequest::all(ReadAt::Any)));
}

/// R11. One undecodable object blocks client-go's list forever (a failing transform), but not this one.
#[tokio::test(start_paused = true)]
async fn an_undecodable_object_blocks_no_other_and_can_recover() {
    for streaming in [true, false] {
        let (_, kind) = samples();
        let mut source = kind.source().unreadable(|s: &Sample| s.tags == ["garbled"]);
        if !streaming {
            source = source.without_streaming();
        }
        kind.put(sample("bad").tag("garbled"));
        kind.put(sample("good"));
        let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
        assert_converges(&informer, &kind).await;
        assert_eq!((informer.len(), informer.undecodable()[0].key.clone()), (1, key("bad")));
        kind.put(sample("good").tag("garbled"));
        kind.put(sample("other"));
        assert_converges(&informer, &kind).await;
        assert_eq!(informer.undecodable().len(), 2);
        assert!(informer.get(&key("good")).is_some_and(|good| good.tags.is_empty()), "its last state stays");
        let last = kind.put(sample("good").value(2));
        kind.delete(&key("bad")).unwrap();
        assert_converges(&informer, &kind).await;
        assert_eq!(informer.undecodable(), []);
        assert_eq!(informer.get(&key("good")), Some(last));
    }
}

/// R11. An undecodable object that changes often does not flood the log.
#[tokio::test(start_paused = true)]
async fn an_undecodable_object_is_logged_once() {
    let warnings = Warnings::of("indexer");
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let (_, kind) = samples();
    let source = kind.source().unreadable(|s: &Sample| s.tags == ["garbled"]);
    let informer = Builder::new(source).spawn(&CancellationToken::new());
    for value in 0..5 {
        kind.put(sample("bad").tag("garbled").value(value));
        assert_converges(&informer, &kind).await;
    }
    assert_eq!((warnings.count(), informer.undecodable().len()), (1, 1));
    kind.put(sample("bad"));
    assert_converges(&informer, &kind).await;
    kind.put(sample("bad").tag("garbled"));
    assert_converges(&informer, &kind).await;
    assert_eq!(warnings.count(), 2, "it could be read meanwhile");
}

/// R14: dropping an informer ends its task, its stream and its waits, in every phase.
#[tokio::test(start_paused = true)]
async fn a_dropped_informer_leaves_no_task_and_no_stream() {
    let faults =
        [Fault::none(), Fault::delay(Duration::from_secs(60)), Fault::silence_after(1), Fault::expired()];
    for (n, fault) in faults.into_iter().enumerate() {
        for streaming in [true, false] {
            let (_, kind) = samples();
            kind.put(sample("a"));
            let mut source = kind.source().faults(&FaultScript::new([fault.clone()]));
            if !streaming {
                source = source.without_streaming();
            }
            let (informer, driver) = Builder::new(source.clone()).build(&CancellationToken::new());
            let driver = tokio::spawn(driver);
            sleep(Duration::from_millis(100)).await;
            drop(informer);
            timeout(Duration::from_millis(1), driver).await.expect("the driver ends at once").unwrap();
            assert_eq!(source.streams(), 0, "case {n}");
        }
    }
}

/// R14: cancelling the stop ends every subscription and every wait.
#[tokio::test(start_paused = true)]
async fn a_stopped_informer_ends_its_subscriptions_and_waits() {
    let (_, kind) = samples();
    kind.put(sample("a"));
    let (source, stop) = (kind.source(), CancellationToken::new());
    let informer = Builder::new(source.clone()).spawn(&stop);
    let mut subscription = informer.subscribe();
    assert_eq!(subscription.next().await.map(|deltas| deltas.len()), Some(1));
    let waiter = informer.clone();
    let waiting = tokio::spawn(async move { waiter.wait_for(Revision(1_000)).await });
    yield_now().await;
    stop.cancel();
    assert!(subscription.next().await.is_none());
    assert!(waiting.await.unwrap().is_err());
    assert_eq!((source.streams(), informer.status()), (0, Status::Stopped));
    assert_eq!(informer.len(), 1, "what was cached can still be read");
}

/// A store that was restored from a backup, or restarted empty, is followed once it insists. Objects of the
/// old history are not treated as unchanged because of equal name, uid and revision.
#[tokio::test(start_paused = true)]
async fn a_source_with_another_history_replaces_the_whole_cache() {
    for streaming in [true, false] {
        let (store, kind) = samples();
        (0..5).for_each(|n| drop(kind.put(sample(&n.to_string()).value(1))));
        let mut source = kind.source();
        if !streaming {
            source = source.without_streaming();
        }
        let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
        informer.wait_for(store.revision()).await.unwrap();
        store.wipe();
        (0..3).for_each(|n| drop(kind.put(sample(&n.to_string()).value(2))));
        source.disconnect();
        sleep(Duration::from_secs(60)).await;
        assert_converges(&informer, &kind).await;
        assert_eq!(informer.list(), kind.list());
        kind.put(sample("3"));
        assert_converges(&informer, &kind).await;
    }
}

/// kube-rs yields each error to a user that must not stop at it (kube#1615). Here the status contains the
/// error and its start.
#[tokio::test(start_paused = true)]
async fn source_errors_are_reported_as_status_without_ending_the_informer() {
    let (_, kind) = samples();
    let script = FaultScript::new((0..3).map(|_| Fault::refuse(SourceError::Fatal("forbidden".into()))));
    let informer = Builder::new(kind.source().faults(&script)).spawn(&CancellationToken::new());
    assert_eq!(informer.status(), Status::Starting);
    let begun = Instant::now();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(informer.status(), Status::Degraded { error: "refused: forbidden".into(), since: begun });
    informer.synced().await.unwrap();
    yield_now().await;
    assert_eq!(informer.status(), Status::Streaming);
}
