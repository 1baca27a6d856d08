//! Tests of subscriptions: merging, overflow, resync and the sync signal.

use crate::limits::{MAX_PASSED, UNMERGED_CHANGES};
use crate::testing::{Chaos, FakeKind, FakeStore, Sample};
use crate::{Builder, Delivery, Delta, Informer, Key, Object, Overflow, Revision, Subscription};
use kstore_nondet::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{advance, sleep, timeout};
use tokio_util::sync::CancellationToken;

fn lossless(capacity: usize, overflow: Overflow) -> Delivery {
    Delivery::Lossless { capacity: NonZeroUsize::new(capacity).unwrap(), overflow }
}

async fn synced(kind: &FakeKind<Sample>) -> (Informer<Sample>, CancellationToken) {
    let stop = CancellationToken::new();
    let informer = Builder::new(kind.source()).name("samples").spawn(&stop);
    informer.synced().await.unwrap();
    (informer, stop)
}

async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn numbers(deltas: &[Delta<Sample>]) -> Vec<u64> {
    deltas.iter().map(|delta| delta.object().value).collect()
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_dropped_when_the_cache_shows_its_revision() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, stop) = synced(&kind).await;
    let held: Vec<Arc<()>> = (0..4).map(|_| Arc::new(())).collect();
    let is_held = |n: usize| Arc::strong_count(&held[n]) > 1;
    informer.hold_until(Revision(0), held[0].clone());
    assert!(!is_held(0), "what the cache shows already is not waited for");
    informer.hold_until(Revision(1), held[1].clone());
    informer.hold_until(Revision(2), held[2].clone());
    informer.hold_until(Revision(99), held[3].clone());
    kind.put(Sample::new("", "a"));
    informer.wait_for(Revision(1)).await.unwrap();
    assert_eq!((is_held(1), is_held(2), is_held(3)), (false, true, true));
    stop.cancel();
    settle().await;
    assert!(!is_held(2) && !is_held(3), "an ended informer holds nothing");
    informer.hold_until(Revision(99), held[3].clone());
    assert!(!is_held(3));
}

/// A guard whose drop uses the informer.
struct ReentrantHandler(Informer<Sample>, Arc<AtomicUsize>);

impl Drop for ReentrantHandler {
    fn drop(&mut self) {
        self.0.hold_until(Revision(0), ());
        self.1.fetch_add(self.0.len(), Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn guards_are_dropped_without_a_lock() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, _stop) = synced(&kind).await;
    let seen = Arc::new(AtomicUsize::new(0));
    informer.hold_until(Revision(1), ReentrantHandler(informer.clone(), seen.clone()));
    kind.put(Sample::new("", "a"));
    informer.wait_for(Revision(1)).await.unwrap();
    settle().await;
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

/// H4; regression: client-go reported "synced" when the objects were in the cache, before a handler had them
/// (k/k#113763).
#[tokio::test(start_paused = true)]
async fn synced_resolves_when_the_initial_state_was_handled_not_when_cached() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let (informer, _stop) = synced(&kind).await;
    let mut early = informer.subscribe();
    let handle = early.synced();
    assert!(!handle.is_synced(), "nothing is taken");
    assert_eq!(early.next().await.unwrap().len(), 1);
    assert!(!handle.is_synced(), "taken, but not handled");
    assert!(early.try_next().is_empty());
    assert!(handle.is_synced() && handle.clone().wait().await.is_ok());
    drop(early);
    assert!(handle.wait().await.is_ok(), "what was reached stays reached");
}

/// H4: also for an empty state and for a reader that already waits, and never after a drop.
#[tokio::test(start_paused = true)]
async fn synced_resolves_for_an_empty_state_and_fails_for_a_dropped_subscription() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let stop = CancellationToken::new();
    let (informer, driver) = Builder::new(kind.source()).build(&stop);
    let mut subscription = informer.subscribe();
    let (handle, gone) = (subscription.synced(), informer.subscribe().synced());
    let reader = tokio::spawn(async move { subscription.next().await });
    settle().await;
    assert!(!handle.is_synced());
    assert!(gone.wait().await.is_err(), "its subscription was dropped");
    tokio::spawn(driver);
    timeout(Duration::from_secs(1), handle.wait()).await.expect("an empty state is complete").unwrap();
    stop.cancel();
    assert!(reader.await.unwrap().is_none());
}

/// H6: every change in order, also those of one key.
#[tokio::test(start_paused = true)]
async fn a_lossless_subscription_gets_every_change_in_order() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a").value(1));
    let (informer, _stop) = synced(&kind).await;
    let mut all = informer.subscribe_with(lossless(1_000, Overflow::SlowSource));
    let mut merged = informer.subscribe();
    assert_eq!(merged.try_next().len(), 1);
    for value in 2..=5 {
        kind.put(Sample::new("", "a").value(value));
    }
    kind.delete(&Key::new("", "a")).unwrap();
    kind.put(Sample::new("", "a").value(6));
    informer.wait_for(store.revision()).await.unwrap();
    let deltas = all.next().await.unwrap();
    assert_eq!(numbers(&deltas), [1, 2, 3, 4, 5, 5, 6]);
    assert!(matches!(deltas[5], Delta::Deleted(_)) && matches!(deltas[6], Delta::Added(_)));
    let kinds = merged.next().await.unwrap();
    assert!(matches!(kinds.as_slice(), [Delta::Updated { .. }, Delta::Deleted(_), Delta::Added(_)]));
}

/// H9: an update that is merged with the following deletion is delivered before it, from the last delivered
/// state.
#[tokio::test(start_paused = true)]
async fn an_update_before_a_deletion_is_delivered_to_the_earlier_owner() {
    let store = FakeStore::new();
    let (owners, kind) = (store.kind::<Sample>("owners"), store.kind::<Sample>("samples"));
    let (a, b) = (owners.put(Sample::new("", "a")), owners.put(Sample::new("", "b")));
    kind.put(Sample::new("", "moves").owned_by(&*a));
    kind.put(Sample::new("", "stays").owned_by(&*a));
    let (informer, _stop) = synced(&kind).await;
    let mut merged = informer.subscribe();
    assert_eq!(merged.try_next().len(), 2);
    kind.put(Sample::new("", "moves").owned_by(&*b));
    // In a batch of its own: the backlog merges the two.
    informer.wait_for(store.revision()).await.unwrap();
    kind.delete(&Key::new("", "moves")).unwrap();
    kind.delete(&Key::new("", "stays")).unwrap();
    informer.wait_for(store.revision()).await.unwrap();
    let owner = |object: &Arc<Sample>| object.controller().map(|(_, key)| key.name().to_owned()).unwrap();
    match merged.next().await.unwrap().as_slice() {
        [Delta::Updated { old, new }, Delta::Deleted(last), Delta::Deleted(other)] => {
            assert_eq!([owner(old), owner(new), owner(last), owner(other)], ["a", "b", "b", "a"]);
        }
        other => panic!("{other:?}"),
    }
}

/// H6: a full subscription stops the source, and no change is lost.
#[tokio::test(start_paused = true)]
async fn a_full_lossless_subscription_stops_the_source_until_it_reads_or_is_dropped() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, _stop) = synced(&kind).await;
    let mut slow = informer.subscribe_with(lossless(3, Overflow::SlowSource));
    for value in 1..=10 {
        kind.put(Sample::new("", "a").value(value));
        settle().await;
    }
    assert_eq!((slow.pending(), informer.revision()), (3, Revision(3)), "the source is not read any further");
    assert_eq!(numbers(&slow.next().await.unwrap()), [1, 2, 3]);
    settle().await;
    assert_eq!(informer.revision(), Revision(10));
    assert_eq!(numbers(&slow.next().await.unwrap()), [4, 5, 6, 7, 8, 9, 10], "one message is taken whole");
    for value in 11..=20 {
        kind.put(Sample::new("", "a").value(value));
        settle().await;
    }
    assert_eq!(informer.revision(), Revision(13));
    drop(slow);
    timeout(Duration::from_secs(1), informer.wait_for(Revision(20)))
        .await
        .expect("no subscriber stops the source")
        .unwrap();
}

/// H6: with replay a stuck subscriber delays no other. It gets the changes that lead to the cache, and then
/// every change again.
#[tokio::test(start_paused = true)]
async fn a_full_lossless_subscription_with_replay_gets_merged_changes() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a").value(1));
    kind.put(Sample::new("", "b").value(1));
    let (informer, _stop) = synced(&kind).await;
    let mut subscription = informer.subscribe_with(lossless(3, Overflow::Replay));
    assert_eq!(subscription.next().await.unwrap().len(), 2);
    for value in 2..=10 {
        kind.put(Sample::new("", "a").value(value));
        settle().await;
    }
    kind.delete(&Key::new("", "b")).unwrap();
    informer.wait_for(store.revision()).await.unwrap();
    assert_eq!((subscription.pending(), subscription.replays()), (2, 0), "two keys differ");
    match subscription.next().await.unwrap().as_slice() {
        [Delta::Updated { old, new }, Delta::Deleted(last)] => {
            assert_eq!((old.value, new.value, last.key().name()), (1, 10, "b"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(subscription.replays(), 1);
    for value in 11..=12 {
        kind.put(Sample::new("", "a").value(value));
    }
    informer.wait_for(store.revision()).await.unwrap();
    assert_eq!(numbers(&subscription.next().await.unwrap()), [11, 12], "each change again");
}

/// H6: also if the queue overflowed before the first read.
#[tokio::test(start_paused = true)]
async fn an_overflow_before_the_first_read_replays_the_whole_cache() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a").value(1));
    let (informer, _stop) = synced(&kind).await;
    let mut subscription = informer.subscribe_with(lossless(1, Overflow::Replay));
    for value in 2..=5 {
        kind.put(Sample::new("", "a").value(value));
        settle().await;
    }
    assert_eq!(subscription.pending(), 1);
    assert!(matches!(subscription.next().await.unwrap().as_slice(), [Delta::Added(new)] if new.value == 5));
    assert!(subscription.try_next().is_empty());
}

/// H7; regression: client-go's panicking handler crashes the process, or skips the change and continues.
#[tokio::test(start_paused = true)]
async fn a_panicking_handler_ends_only_its_own_subscription() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, _stop) = synced(&kind).await;
    let mut other = informer.subscribe();
    let handled = Arc::new(AtomicUsize::new(0));
    let count = handled.clone();
    let bad = informer.subscribe_with(lossless(1, Overflow::SlowSource)).for_each(move |delta| {
        count.fetch_add(1, Ordering::Relaxed);
        assert!(delta.object().value != 2, "two is too much");
        std::future::ready(())
    });
    let bad = tokio::spawn(bad);
    for value in 1..=3 {
        kind.put(Sample::new("", "a").value(value));
        settle().await;
    }
    let error = bad.await.unwrap().unwrap_err();
    assert_eq!((error.informer.as_str(), error.message.as_str()), ("samples", "two is too much"));
    assert_eq!(handled.load(Ordering::Relaxed), 2);
    informer.wait_for(Revision(3)).await.unwrap();
    assert_eq!(numbers(&other.next().await.unwrap()), [3]);
    assert_eq!(informer.shared().hub().queues(), 0, "nothing is kept for it");
}

/// H8: once per period, for subscribers that requested it, without the objects that have pending changes.
#[tokio::test(start_paused = true)]
async fn a_resync_delivers_each_object_once_per_period_to_its_subscriber() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    for (name, value) in [("a", 1), ("b", 2)] {
        kind.put(Sample::new("", name).value(value));
    }
    let (informer, _stop) = synced(&kind).await;
    let mut resyncing = informer.subscribe().resync_every(Duration::from_secs(10));
    let mut other = informer.subscribe();
    let start = tokio::time::Instant::now();
    assert_eq!(resyncing.next().await.unwrap().len() + other.next().await.unwrap().len(), 4);
    for period in 1..=3 {
        let deltas = resyncing.next().await.unwrap();
        assert!(deltas.iter().all(|delta| matches!(delta, Delta::Resync(_))));
        assert_eq!(numbers(&deltas), [1, 2]);
        assert_eq!(start.elapsed().as_secs(), period * 10);
    }
    advance(Duration::from_secs(10)).await;
    kind.put(Sample::new("", "a").value(3));
    informer.wait_for(store.revision()).await.unwrap();
    match resyncing.next().await.unwrap().as_slice() {
        [Delta::Updated { new, .. }, Delta::Resync(same)] => assert_eq!((new.value, same.value), (3, 2)),
        other => panic!("{other:?}"),
    }
    assert_eq!(numbers(&other.try_next()), [3], "never to others");
    advance(Duration::from_secs(1_000)).await;
    assert_eq!(
        (resyncing.try_next().len(), resyncing.try_next().len()),
        (2, 0),
        "missed periods do not add up"
    );
}

/// Regression: a kube-rs subscriber slept forever if its object was already gone from the store.
#[tokio::test(start_paused = true)]
async fn a_subscriber_whose_object_is_gone_gets_the_next_change() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, _stop) = synced(&kind).await;
    let mut subscription = informer.subscribe();
    let reader = tokio::spawn(async move {
        let mut heard = Vec::new();
        while heard.len() < 5 {
            heard.extend(subscription.next().await.unwrap().iter().map(|delta| delta.object().value));
            sleep(Duration::from_millis(10)).await;
        }
        heard
    });
    settle().await;
    kind.put(Sample::new("", "gone").value(9));
    kind.delete(&Key::new("", "gone")).unwrap();
    for value in 1..=3 {
        sleep(Duration::from_secs(1)).await;
        kind.put(Sample::new("", &value.to_string()).value(value));
    }
    let heard = timeout(Duration::from_secs(60), reader).await.expect("it is woken").unwrap();
    assert_eq!(heard, [9, 9, 1, 2, 3]);
}

/// Regression: kube-rs did not deliver deletions to shared subscribers.
#[tokio::test(start_paused = true)]
async fn every_subscriber_gets_a_deletion() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let (informer, _stop) = synced(&kind).await;
    let ways = [Delivery::Coalesce, lossless(9, Overflow::SlowSource), lossless(9, Overflow::Replay)];
    let mut subscriptions = ways.map(|way| informer.subscribe_with(way));
    for subscription in &mut subscriptions {
        assert_eq!(subscription.next().await.unwrap().len(), 1);
    }
    kind.delete(&Key::new("", "a")).unwrap();
    for subscription in &mut subscriptions {
        assert!(matches!(subscription.next().await.unwrap().as_slice(), [Delta::Deleted(_)]));
    }
}

/// H10; regression: the creator of an object that was deleted before its cache showed it never heard of the deletion.
#[tokio::test(start_paused = true)]
async fn an_object_that_came_and_went_is_delivered() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a").value(1));
    let (informer, _stop) = synced(&kind).await;
    let (mut subscription, mut later) = (informer.subscribe(), informer.subscribe());
    assert_eq!((subscription.try_next().len(), later.try_next().len()), (1, 1));
    let passes = |name: &str, value| {
        kind.put(Sample::new("", name).value(value));
        kind.delete(&Key::new("", name)).unwrap();
    };
    passes("b", 2);
    informer.wait_for(store.revision()).await.unwrap();
    // A position in between, so that the second reader merges two segments.
    assert_eq!(numbers(&subscription.try_next()), [2, 2]);
    kind.delete(&Key::new("", "a")).unwrap();
    passes("a", 3);
    passes("a", 4);
    kind.put(Sample::new("", "a").value(5));
    informer.wait_for(store.revision()).await.unwrap();
    assert_eq!(numbers(&subscription.try_next()), [1, 4, 4, 5]);
    let deltas = later.try_next();
    assert_eq!(numbers(&deltas), [2, 2, 1, 4, 4, 5]);
    use Delta::{Added, Deleted};
    assert!(
        matches!(deltas[..], [Added(_), Deleted(_), Deleted(_), Added(_), Deleted(_), Added(_)]),
        "{deltas:?}"
    );
}

/// H5: objects that come and go wait for a reader that stands still up to a bound.
#[tokio::test(start_paused = true)]
async fn objects_that_came_and_went_are_bounded() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, _stop) = synced(&kind).await;
    let mut stuck = informer.subscribe();
    assert!(stuck.try_next().is_empty(), "it has read the state from which it falls behind");
    for n in 0..MAX_PASSED + 100 {
        kind.put(Sample::new("", &n.to_string()));
        kind.delete(&Key::new("", &n.to_string())).unwrap();
        informer.wait_for(store.revision()).await.unwrap();
    }
    kind.put(Sample::new("", "0"));
    informer.wait_for(store.revision()).await.unwrap();
    assert_eq!(stuck.pending(), MAX_PASSED);
    let deltas = stuck.try_next();
    assert_eq!(deltas.len(), 2 * MAX_PASSED + 1, "each passed object, and the one that is there");
    assert_eq!(stuck.pending(), 0);
}

/// H5; regression: client-go's handlers have unbounded buffers (k/k#137314).
#[tokio::test(start_paused = true)]
async fn the_backlog_of_stuck_subscribers_is_bounded_by_the_keys() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, _stop) = synced(&kind).await;
    let stuck: Vec<_> = (0..100).map(|_| informer.subscribe()).collect();
    let mut stuck: Vec<_> = stuck.into_iter().map(|mut s| (s.try_next(), s).1).collect();
    let mut fast = informer.subscribe();
    for value in 0..3_000 {
        kind.put(Sample::new("", &(value % 10).to_string()).value(value));
        informer.wait_for(store.revision()).await.unwrap();
        assert!(!fast.try_next().is_empty());
    }
    let (stretches, entries) = informer.shared().hub().backlog.size();
    assert!(stretches <= 2 && entries <= UNMERGED_CHANGES + 10, "{stretches} stretches, {entries} entries");
    assert!(stuck.iter().all(|subscription| subscription.pending() == 10));
    for subscription in &mut stuck {
        assert_eq!(numbers(&subscription.try_next()).iter().sum::<u64>(), (2_990..3_000).sum::<u64>());
    }
    drop((stuck, fast));
    assert_eq!(informer.shared().hub().backlog.size(), (0, 0), "the backlog is empty without subscribers");
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8),
    Delete(u8),
    Compact,
    Join(u8),
    Leave(usize),
    Read(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0u8..6).prop_map(Op::Put),
        4 => (0u8..6).prop_map(Op::Delete),
        1 => Just(Op::Compact),
        2 => (0u8..3).prop_map(Op::Join),
        1 => (0usize..6).prop_map(Op::Leave),
        5 => (0usize..6).prop_map(Op::Read),
        6 => (0u64..2_000).prop_map(Op::Pass),
    ]
}

/// A subscriber that applies its deltas.
struct Reader {
    subscription: Subscription<Sample>,
    believes: BTreeMap<Key, Arc<Sample>>,
    merges: bool,
}

impl Reader {
    fn read(&mut self, true_states: &BTreeMap<Revision, Key>) {
        for delta in self.subscription.try_next() {
            let key = delta.object().key();
            match delta {
                Delta::Added(new) => assert!(self.believes.insert(key, new).is_none()),
                Delta::Updated { old, new } => {
                    assert!(old.uid() == new.uid() && old.revision() < new.revision());
                    assert_eq!(true_states.get(&new.revision()), Some(&key));
                    let believed = self.believes.insert(key, new).expect("updated before added");
                    assert!(Arc::ptr_eq(&believed, &old), "the old state is the one delivered last");
                }
                Delta::Deleted(last) => {
                    assert_eq!(self.believes.remove(&key).expect("unknown").uid(), last.uid());
                }
                Delta::Resync(_) => panic!("no resync was requested"),
            }
        }
        let cache = self.subscription.informer().list();
        assert!(
            self.believes.values().eq(cache.iter()),
            "a subscriber that reads everything equals the cache"
        );
    }
}

async fn story(ops: &[Op], seed: u64) {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    let source = kind.source().chaos(Chaos::new(Rng::seeded(seed)));
    let informer = Builder::new(source).rng(Rng::seeded(seed)).spawn(&stop);
    let (mut readers, mut states): (Vec<Reader>, _) = (Vec::new(), BTreeMap::new());
    for op in ops {
        match *op {
            Op::Put(n) => {
                let object = kind.put(Sample::new("", &n.to_string()));
                states.insert(object.revision(), object.key());
            }
            Op::Delete(n) => drop(kind.delete(&Key::new("", &n.to_string()))),
            Op::Compact => store.compact(store.revision()),
            Op::Join(way) => {
                let way = match way {
                    0 => Delivery::Coalesce,
                    1 => lossless(4, Overflow::SlowSource),
                    _ => lossless(4, Overflow::Replay),
                };
                let subscription = informer.subscribe_with(way);
                let merges = way == Delivery::Coalesce;
                readers.push(Reader { subscription, believes: BTreeMap::new(), merges });
            }
            Op::Leave(n) if n < readers.len() => drop(readers.remove(n)),
            Op::Read(n) if n < readers.len() => readers[n].read(&states),
            Op::Leave(_) | Op::Read(_) => {}
            Op::Pass(ms) => advance(Duration::from_millis(ms)).await,
        }
        tokio::task::yield_now().await;
        let (stretches, _) = informer.shared().hub().backlog.size();
        assert!(stretches <= readers.len(), "no more stretches than positions");
        let keys = states.len().min(6);
        for reader in &readers {
            assert!(!reader.merges || reader.subscription.pending() <= keys, "pending entries are keys");
        }
    }
    let reached = informer.wait_for(store.revision());
    let mut reached = std::pin::pin!(timeout(Duration::from_secs(24 * 3600), reached));
    loop {
        readers.iter_mut().for_each(|reader| reader.read(&states));
        tokio::select! {
            biased;
            done = &mut reached => break done.expect("the cache converges").unwrap(),
            () = sleep(Duration::from_millis(100)) => {}
        }
    }
    readers.iter_mut().for_each(|reader| reader.read(&states));
}

proptest! {
    /// H1, H2, H3, H5, H6: subscribers with every delivery that join, read and leave at any moment equal the
    /// cache after a read, by consistent deltas.
    #[test]
    fn subscribers_that_read_everything_equal_the_cache(
        ops in prop::collection::vec(op(), 1..150), seed in any::<u64>()
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(story(&ops, seed));
    }
}
