//! Tests of views, past views and snapshots against the history of the store.

use super::{CutError, snapshot};
use crate::testing::{Chaos, FakeKind, FakeStore, Sample};
use crate::{Builder, Index, Informer, Key, Object, Revision, View, ViewError};
use kstore_nondet::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{advance, timeout};
use tokio_util::sync::CancellationToken;

fn by_tag() -> Index<Sample, String> {
    Index::new(|sample: &Sample, emit: &mut dyn FnMut(String)| sample.tags.iter().cloned().for_each(emit))
}

fn key(n: u8) -> Key {
    Key::new(if n.is_multiple_of(2) { "even" } else { "odd" }, &n.to_string())
}

fn sample(n: u8, tags: u8) -> Sample {
    let mut sample = Sample::new(key(n).namespace(), key(n).name());
    sample.tags = (0..tags).map(|tag| format!("t{tag}")).collect();
    sample
}

#[derive(Clone, Debug)]
enum Op {
    Put(bool, u8, u8),
    Delete(bool, u8),
    Compact,
    View,
    Forget,
    StateHistory(u64),
    Cut(u64),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (any::<bool>(), 0u8..8, 0u8..4).prop_map(|(kind, n, tags)| Op::Put(kind, n, tags)),
        4 => (any::<bool>(), 0u8..8).prop_map(|(kind, n)| Op::Delete(kind, n)),
        1 => Just(Op::Compact),
        2 => Just(Op::View),
        1 => Just(Op::Forget),
        3 => (0u64..12).prop_map(Op::StateHistory),
        2 => (0u64..3).prop_map(Op::Cut),
        6 => (0u64..2_000).prop_map(Op::Pass),
    ]
}

/// The state of one kind at each revision that changed it.
struct StateHistory(FakeKind<Sample>, BTreeMap<Revision, Vec<Arc<Sample>>>);

impl StateHistory {
    fn note(&mut self) {
        let (objects, revision) = self.0.list_at();
        self.1.insert(revision, objects);
    }

    fn at(&self, revision: Revision) -> &[Arc<Sample>] {
        self.1.range(..=revision).next_back().map_or(&[], |(_, objects)| objects)
    }

    fn check(&self, view: &View<Sample>, tags: &Index<Sample, String>) {
        let truth = self.at(view.revision());
        assert!(view.iter().eq(truth.iter()), "the view is the history at {}", view.revision());
        assert_eq!(view.len(), truth.len());
        let mut by_tag: BTreeMap<&str, Vec<&Arc<Sample>>> = BTreeMap::new();
        for object in truth {
            assert!(view.get(&object.key()).is_some_and(|found| found == object));
            object.tags.iter().for_each(|tag| by_tag.entry(tag).or_default().push(object));
        }
        assert!(view.values(tags).eq(by_tag.keys().copied()));
        assert!(by_tag.iter().all(|(tag, objects)| view.by(tags, *tag).eq(objects.iter().copied())));
        for namespace in ["even", "odd", "", "e"] {
            let scan = truth.iter().filter(|object| object.key().namespace() == namespace);
            assert!(view.namespace(namespace).eq(scan));
        }
        assert!((0..8).map(key).all(|key| view.get(&key).is_some() == truth.iter().any(|o| o.key() == key)));
    }
}

async fn story(ops: &[Op], seed: u64) {
    let (store, stop, tags, rng) = (FakeStore::new(), CancellationToken::new(), by_tag(), Rng::seeded(seed));
    let make = |name: &str| {
        let kind = store.kind::<Sample>(name);
        let source = kind.source().chaos(Chaos::new(rng.fork(name)));
        let informer = Builder::new(source).index(&tags).rng(&rng).spawn(&stop);
        (informer, StateHistory(kind, BTreeMap::new()))
    };
    let (mut a, mut b) = (make("a"), make("b"));
    let mut views: Vec<View<Sample>> = Vec::new();
    for op in ops {
        match *op {
            Op::Put(kind, n, tag) => drop(if kind { &a } else { &b }.1.0.put(sample(n, tag))),
            Op::Delete(kind, n) => drop(if kind { &a } else { &b }.1.0.delete(&key(n))),
            Op::Compact => store.compact(store.revision()),
            Op::View => views.push(a.0.view()),
            Op::Forget => views.clear(),
            Op::StateHistory(ago) => past(&a.0, ago).into_iter().for_each(|view| views.push(view)),
            Op::Cut(ago) => {
                let at = Revision(store.revision().0.saturating_sub(ago));
                let cut = timeout(Duration::from_secs(24 * 3600), snapshot(Some(at), (&a.0, &b.0))).await;
                let (x, y) = cut.expect("it ends").expect("there is a common revision");
                assert!(x.revision() == y.revision() && x.revision() >= at);
                a.1.note();
                b.1.note();
                a.1.check(&x, &tags);
                b.1.check(&y, &tags);
                views.push(x);
            }
            Op::Pass(ms) => advance(Duration::from_millis(ms)).await,
        }
        a.1.note();
        b.1.note();
        tokio::task::yield_now().await;
        views.iter().for_each(|view| a.1.check(view, &tags));
    }
}

/// A view of some revisions ago, if the undo log reaches it.
fn past(informer: &Informer<Sample>, ago: u64) -> Option<View<Sample>> {
    let now = informer.revision().0;
    let revision = Revision(now.checked_sub(ago)?);
    match informer.view_at(revision) {
        Ok(view) => {
            assert_eq!(view.revision(), revision);
            Some(view)
        }
        Err(error) => {
            assert!(matches!(error, ViewError::TooOld(floor) if floor > revision));
            None
        }
    }
}

proptest! {
    /// X1, X2, X3: views, past views and snapshots equal the history at their revision, in objects and in
    /// every index, for their whole lifetime.
    #[test]
    fn every_view_stays_equal_to_the_history_at_its_revision(
        ops in prop::collection::vec(op(), 1..150), seed in any::<u64>()
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(story(&ops, seed));
    }
}

/// X3: a kind without changes advances, and the snapshot waits for the requested revision.
#[tokio::test(start_paused = true)]
async fn a_snapshot_waits_for_the_requested_revision() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (busy, quiet) = (store.kind::<Sample>("busy"), store.kind::<Sample>("quiet"));
    let informers = (Builder::new(busy.source()).spawn(&stop), Builder::new(quiet.source()).spawn(&stop));
    let readers = (informers.0.clone(), informers.1.clone());
    let cut = tokio::spawn(async move { snapshot(Some(Revision(3)), (&readers.0, &readers.1)).await });
    for n in 0..2 {
        busy.put(sample(n, 0));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(!cut.is_finished());
    busy.put(sample(2, 0));
    let (busy, quiet) = cut.await.unwrap().unwrap();
    assert_eq!((busy.revision(), quiet.revision()), (Revision(3), Revision(3)));
    assert_eq!((busy.len(), quiet.len()), (3, 0));
    stop.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ended = snapshot(Some(Revision(9)), (&informers.0, &informers.1)).await;
    assert_eq!(ended.err(), Some(CutError::Stopped));
}

#[tokio::test(start_paused = true)]
async fn snapshots_refuse_caches_of_different_domains() {
    let stop = CancellationToken::new();
    let make = || Builder::new(FakeStore::new().kind::<Sample>("samples").source()).spawn(&stop);
    let cut = snapshot(None, (&make(), &make())).await;
    assert_eq!(cut.err(), Some(CutError::DifferentDomains));
}

/// X4: past views release their objects when dropped; the undo log keeps its own bound.
#[tokio::test(start_paused = true)]
async fn old_states_are_released_with_their_views_and_the_undo_log() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(sample(1, 0));
    let informer = Builder::new(kind.source()).spawn(&stop);
    informer.synced().await.unwrap();
    let view = informer.view();
    let old = Arc::downgrade(view.get(&key(1)).unwrap());
    kind.put(sample(1, 1));
    informer.wait_for(store.revision()).await.unwrap();
    drop(view);
    assert!(old.upgrade().is_some(), "it can still be gone back to");
    assert!(informer.view_at(Revision(1)).unwrap().get(&key(1)).is_some_and(|o| o.tags.is_empty()));
    advance(crate::limits::UNDO_AGE * 2).await;
    kind.put(sample(2, 0));
    informer.wait_for(store.revision()).await.unwrap();
    assert!(old.upgrade().is_none(), "no view holds the state");
}
