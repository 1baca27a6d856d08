//! Tests of informers against a model: for every source behaviour, the cache is a true past state and ends as
//! the store is.

use crate::limits::{UNDO_AGE, UNDO_CHANGES};
use crate::testing::{Call, Chaos, FakeKind, FakeSource, FakeStore, Sample};
use crate::{
    Builder, Capabilities, Delta, DynListerWatcher, Frames, Index, Informer, Key, ListRequest, ListerWatcher,
    Object, Page, ReadAt, Revision, SourceError, Start, Status, Subscription, ViewError,
};
use kstore_nondet::Rng;
use parking_lot::Mutex;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, advance, timeout};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u8),
    Delete(u8),
    Other,
    Compact,
    Join,
    Leave(usize),
    Read(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0u8..8, 0u8..4).prop_map(|(key, tag)| Op::Put(key, tag)),
        3 => (0u8..8).prop_map(Op::Delete),
        1 => Just(Op::Other),
        1 => Just(Op::Compact),
        1 => Just(Op::Join),
        1 => (0usize..3).prop_map(Op::Leave),
        3 => (0usize..3).prop_map(Op::Read),
        4 => (0u64..3_000).prop_map(Op::Pass),
    ]
}

fn key(n: u8) -> Key {
    Key::new(if n.is_multiple_of(2) { "even" } else { "odd" }, &n.to_string())
}

fn by_tag() -> Index<Sample, String> {
    Index::new(|sample: &Sample, emit: &mut dyn FnMut(String)| sample.tags.iter().cloned().for_each(emit))
}

/// The state of a kind at each revision that changed it.
#[derive(Default)]
struct StateHistory(BTreeMap<Revision, Vec<Arc<Sample>>>);

impl StateHistory {
    fn note(&mut self, kind: &FakeKind<Sample>) {
        let (objects, revision) = kind.list_at();
        self.0.insert(revision, objects);
    }

    fn at(&self, revision: Revision) -> Vec<Arc<Sample>> {
        self.0.range(..=revision).next_back().map(|(_, objects)| objects.clone()).unwrap_or_default()
    }
}

/// A subscriber that applies its deltas and checks their consistency.
struct Reader {
    subscription: Subscription<Sample>,
    believes: BTreeMap<Key, Arc<Sample>>,
}

impl Reader {
    fn read(&mut self) {
        let deltas = self.subscription.try_next();
        for delta in deltas {
            let key = delta.object().key();
            match delta {
                Delta::Added(new) => assert!(self.believes.insert(key, new).is_none(), "added twice"),
                Delta::Updated { old, new } => {
                    assert_eq!(old.uid(), new.uid());
                    assert!(old.revision() < new.revision());
                    let believed = self.believes.insert(key, new).expect("updated before added");
                    assert!(Arc::ptr_eq(&believed, &old), "the old state is the one delivered last");
                }
                Delta::Deleted(last) => {
                    let believed = self.believes.remove(&key).expect("deleted before added");
                    assert_eq!(believed.uid(), last.uid(), "the deleted object is the one believed in");
                }
                Delta::Resync(_) => panic!("no resync was requested"),
            }
        }
    }
}

fn check_indexes(informer: &Informer<Sample>, tags: &Index<Sample, String>) {
    let view = informer.view();
    let mut scan: BTreeMap<String, Vec<Key>> = BTreeMap::new();
    for object in view.iter() {
        for tag in &object.tags {
            scan.entry(tag.clone()).or_default().push(object.key());
        }
    }
    assert!(view.values(tags).eq(scan.keys()), "no value without objects, no object without its values");
    for (tag, keys) in &scan {
        assert!(view.by(tags, tag.as_str()).map(|o| o.key()).eq(keys.iter().cloned()));
        assert_eq!(informer.by(tags, tag).len(), keys.len());
    }
    for namespace in ["even", "odd"] {
        let scan = view.iter().filter(|o| o.key().namespace() == namespace).map(|o| o.key());
        assert!(view.namespace(namespace).map(|o| o.key()).eq(scan));
    }
}

async fn story(ops: &[Op], seed: u64, streaming: bool) {
    let (store, stop, tags) = (FakeStore::new(), CancellationToken::new(), by_tag());
    let (kind, other) = (store.kind::<Sample>("samples"), store.kind::<Sample>("others"));
    let mut source = kind.source().chaos(Chaos::new(Rng::seeded(seed)));
    if !streaming {
        source = source.without_streaming();
    }
    let informer = Builder::new(source).index(&tags).rng(Rng::seeded(seed)).spawn(&stop);
    let (mut past, mut readers, mut reached) = (StateHistory::default(), Vec::new(), Revision(0));
    past.note(&kind);
    for op in ops {
        match *op {
            Op::Put(n, tag) => {
                let mut sample = Sample::new(key(n).namespace(), key(n).name()).value(u64::from(tag));
                sample.tags = (0..tag).map(|t| format!("t{t}")).collect();
                kind.put(sample);
            }
            Op::Delete(n) => drop(kind.delete(&key(n))),
            Op::Other => drop(other.put(Sample::new("", "other"))),
            Op::Compact => store.compact(store.revision()),
            Op::Join => {
                readers.push(Reader { subscription: informer.subscribe(), believes: BTreeMap::new() });
            }
            Op::Leave(n) if n < readers.len() => drop(readers.remove(n)),
            Op::Read(n) if n < readers.len() => readers[n].read(),
            Op::Leave(_) | Op::Read(_) => {}
            Op::Pass(ms) => advance(Duration::from_millis(ms)).await,
        }
        past.note(&kind);
        tokio::task::yield_now().await;
        let view = informer.view();
        assert!(view.revision() >= reached, "time never runs backwards");
        reached = view.revision();
        assert!(view.iter().eq(past.at(reached).iter()), "the cache is the store as it was at {reached}");
        check_indexes(&informer, &tags);
    }
    let patience = Duration::from_secs(24 * 3600);
    timeout(patience, informer.wait_for(store.revision())).await.expect("the cache converges").unwrap();
    assert!(informer.list().iter().eq(kind.list().iter()), "the cache ends as the store is");
    check_indexes(&informer, &tags);
    for mut reader in readers {
        reader.read();
        assert!(reader.believes.values().eq(informer.list().iter()), "every subscriber knows the cache");
    }
}

fn paused<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(future)
}

proptest! {
    #[test]
    fn the_cache_is_a_true_past_and_converges_for_every_source_behaviour(
        ops in prop::collection::vec(op(), 1..120), seed in any::<u64>(), streaming in any::<bool>()
    ) {
        paused(story(&ops, seed, streaming));
    }
}

async fn synced(kind: &FakeKind<Sample>) -> (Informer<Sample>, CancellationToken) {
    let stop = CancellationToken::new();
    let informer = Builder::new(kind.source()).spawn(&stop);
    informer.synced().await.unwrap();
    (informer, stop)
}

#[tokio::test(start_paused = true)]
async fn a_relist_without_changes_keeps_objects_and_wakes_no_subscriber() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (kind, other) = (store.kind::<Sample>("samples"), store.kind::<Sample>("others"));
    for n in 0..10 {
        kind.put(Sample::new("", &n.to_string()));
    }
    let source = kind.source();
    let informer = Builder::new(source.clone()).spawn(&stop);
    informer.synced().await.unwrap();
    let mut subscription = informer.subscribe();
    assert_eq!(subscription.try_next().len(), 10);
    let before = informer.list();
    // The next watch finds its revision compacted and requests the complete state again.
    other.put(Sample::new("", "other"));
    store.compact(store.revision());
    source.fail_next(SourceError::Expired);
    informer.wait_for(store.revision()).await.unwrap();
    let after = informer.list();
    assert!(before.iter().zip(&after).all(|(a, b)| Arc::ptr_eq(a, b)));
    assert_eq!(subscription.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_replaced_by_another_of_its_name_is_deleted_then_added() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let first = kind.put(Sample::new("", "a"));
    let (informer, _stop) = synced(&kind).await;
    let mut subscription = informer.subscribe();
    subscription.try_next();
    let deleted_at = kind.delete(&first.key()).unwrap();
    let second = kind.put(Sample::new("", "a").value(2));
    kind.put(Sample::new("", "a").value(3));
    informer.wait_for(store.revision()).await.unwrap();
    match subscription.next().await.unwrap().as_slice() {
        [Delta::Deleted(last), Delta::Added(new)] => {
            assert_eq!((last.uid(), last.revision()), (first.uid(), deleted_at));
            assert_eq!((new.uid(), new.value), (second.uid(), 3));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_unread_short_lived_object_is_not_delivered() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, _stop) = synced(&kind).await;
    let subscription = informer.subscribe();
    for _ in 0..1_000 {
        kind.put(Sample::new("", "a"));
        kind.delete(&Key::new("", "a")).unwrap();
        informer.wait_for(store.revision()).await.unwrap();
    }
    assert_eq!(subscription.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_is_resumed_and_an_expired_one_relists() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let source = kind.source();
    source.fail_next(SourceError::Unreachable("still starting".into()));
    let (start, stop) = (Instant::now(), CancellationToken::new());
    let informer = Builder::new(source.clone()).name("samples").spawn(&stop);
    informer.synced().await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(200) && start.elapsed() < Duration::from_millis(401));
    assert_eq!(
        source.calls(),
        [Call::Watch(Start::Initial(ReadAt::Latest)), Call::Watch(Start::Initial(ReadAt::Latest))]
    );
    tokio::task::yield_now().await;
    assert_eq!(informer.status(), Status::Streaming);
    stop.cancel();
    assert!(informer.wait_for(Revision(1)).await.is_err(), "a stopped informer says so");
    assert_eq!(informer.status(), Status::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_source_is_followed_after_repeated_old_states() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    for n in 0..5 {
        kind.put(Sample::new("", &n.to_string()));
    }
    let (informer, _stop) = synced(&kind).await;
    store.wipe();
    kind.put(Sample::new("", "new"));
    let is_new = |object: Option<&Sample>| object.is_some();
    timeout(Duration::from_secs(60), async {
        while informer.get(&Key::new("", "new")).is_none() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .expect("the cache follows");
    assert_eq!(informer.len(), 1);
    assert_eq!(informer.revision(), Revision(1));
    assert!(informer.until(&Key::new("", "new"), is_new).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_informer_ends_with_its_last_handle() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, driver) = Builder::new(kind.source()).build(&CancellationToken::new());
    let driver = tokio::spawn(driver);
    let mut subscription = informer.subscribe();
    drop(informer);
    kind.put(Sample::new("", "a"));
    assert_eq!(subscription.next().await.map(|deltas| deltas.len()), Some(1), "a subscription is a handle");
    drop(subscription);
    driver.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_leaves_no_entry() {
    let (informer, _stop) = synced(&FakeStore::new().kind("samples")).await;
    for _ in 0..10 {
        assert!(timeout(Duration::from_secs(1), informer.wait_for(Revision(99))).await.is_err());
    }
    assert_eq!(informer.shared().waiting(), 0);
}

/// X4: the undo log is bounded by number and by age.
#[tokio::test(start_paused = true)]
async fn the_undo_log_is_bounded_by_changes_and_by_age() {
    let store = FakeStore::new();
    let kind = store.kind::<Sample>("samples");
    let (informer, _stop) = synced(&kind).await;
    for value in 0..UNDO_CHANGES as u64 + 10 {
        kind.put(Sample::new("", &(value % 7).to_string()).value(value));
        informer.wait_for(store.revision()).await.unwrap();
    }
    assert_eq!(informer.shared().remembered(), UNDO_CHANGES);
    assert_eq!(informer.view_at(Revision(9)).err(), Some(ViewError::TooOld(Revision(10))));
    assert_eq!(informer.view_at(Revision(10)).unwrap().revision(), Revision(10));
    let next = store.revision().0 + 1;
    assert_eq!(informer.view_at(Revision(next)).err(), Some(ViewError::NotYet(store.revision())));
    advance(UNDO_AGE * 2).await;
    kind.put(Sample::new("", "new"));
    informer.wait_for(store.revision()).await.unwrap();
    assert_eq!(informer.shared().remembered(), 1);
}

/// Regression: readers of an informer whose driver never ran would wait forever.
#[tokio::test(start_paused = true)]
async fn an_informer_ends_with_a_driver_that_never_ran() {
    let kind = FakeStore::new().kind::<Sample>("samples");
    let (informer, driver) = Builder::new(kind.source()).build(&CancellationToken::new());
    drop(driver);
    assert_eq!(informer.status(), Status::Stopped);
    assert!(informer.synced().await.is_err() && informer.wait_for(Revision(1)).await.is_err());
}

/// A source that records what its informer demands.
struct Recording(FakeSource<Sample>, Arc<Mutex<Vec<u64>>>);

impl ListerWatcher for Recording {
    type Obj = Sample;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Sample>, SourceError> {
        self.0.list(request).await
    }

    async fn watch(&self, start: Start) -> Result<Frames<Sample>, SourceError> {
        self.0.watch(start).await
    }

    fn demand(&self, revision: Revision) {
        self.1.lock().push(revision.0);
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_revisions_reach_the_source_through_every_wrapper_and_waits_for_changes_do_not() {
    let (stop, demands) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
    let kind = FakeStore::new().kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let source = DynListerWatcher::new(Recording(kind.source(), demands.clone()));
    let informer = Builder::new(source).map(|object| object).spawn(&stop);
    informer.synced().await.unwrap();
    informer.wait_for(Revision(1)).await.unwrap();
    assert!(demands.lock().is_empty(), "the cache shows the revision");
    let (reached, ()) = tokio::join!(informer.wait_for(Revision(2)), async {
        tokio::task::yield_now().await;
        kind.put(Sample::new("", "b"));
    });
    reached.unwrap();
    informer.hold_until(Revision(3), ());
    assert_eq!(*demands.lock(), [2, 3]);
    let key = Key::new("", "c");
    let (found, ()) = tokio::join!(informer.until(&key, |object| object.is_some()), async {
        tokio::task::yield_now().await;
        kind.put(Sample::new("", "c"));
    });
    assert!(found.unwrap().is_some());
    assert_eq!(*demands.lock(), [2, 3]);
    stop.cancel();
    assert!(informer.wait_for(Revision(9)).await.is_err(), "a wait ends with the informer");
}
