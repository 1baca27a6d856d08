//! Random histories through randomly failing sources: at every moment the cache equals the store at the
//! cache's revision, and finally the current store.

use super::paused;
use crate::any_object::typed;
use crate::cache::indexer::Indexer;
use crate::lister_watcher::erased::erased_frames;
use crate::testing::{Call, Chaos, FakeKind, FakeSource, FakeStore, FaultScript, Sample, assert_converges};
use crate::{Builder, CacheSet, Frame, Informer, Key, ListRequest, Object, ReadAt, Revision};
use kstore_nondet::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::advance;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u64),
    /// Stores a state that the source cannot decode.
    Garble(u8),
    Delete(u8),
    /// Deletes the object and creates it again under the same name.
    Renew(u8),
    Elsewhere,
    Compact,
    Disconnect,
    Pass(u64),
    /// A copy of the informer takes over its cache.
    Copy,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0u8..8, 0u64..4).prop_map(|(key, value)| Op::Put(key, value)),
        2 => (0u8..8).prop_map(Op::Garble),
        3 => (0u8..8).prop_map(Op::Delete),
        2 => (0u8..8).prop_map(Op::Renew),
        1 => Just(Op::Elsewhere),
        1 => Just(Op::Compact),
        1 => Just(Op::Disconnect),
        5 => (0u64..4_000).prop_map(Op::Pass),
        1 => Just(Op::Copy),
    ]
}

/// Capabilities of the server.
#[derive(Clone, Copy, Debug)]
enum Server {
    Streams,
    Lists,
    Pages,
}

fn server() -> impl Strategy<Value = Server> {
    prop_oneof![Just(Server::Streams), Just(Server::Lists), Just(Server::Pages)]
}

fn is_garbled(sample: &Sample) -> bool {
    !sample.tags.is_empty()
}

fn source(kind: &FakeKind<Sample>, server: Server, seed: u64) -> FakeSource<Sample> {
    let chaos = Chaos { silence: 5, ..Chaos::seeded(seed) };
    let source = kind.source().unreadable(is_garbled).faults(&FaultScript::chance(chaos));
    let source = source.with_progress(Duration::from_secs(3));
    match server {
        Server::Streams => source,
        Server::Lists => source.without_streaming(),
        Server::Pages => source.without_streaming().with_paging(),
    }
}

fn key(n: u8) -> Key {
    Key::new("", &n.to_string())
}

fn act(op: &Op, kind: &FakeKind<Sample>, store: &FakeStore, source: &FakeSource<Sample>) {
    match *op {
        Op::Put(n, value) => drop(kind.put(Sample::new("", key(n).name()).value(value))),
        Op::Garble(n) => drop(kind.put(Sample::new("", key(n).name()).tag("garbled"))),
        Op::Delete(n) => drop(kind.delete(&key(n))),
        Op::Renew(n) => {
            let _ = kind.delete(&key(n));
            kind.put(Sample::new("", key(n).name()));
        }
        Op::Elsewhere => drop(store.kind::<Sample>("others").put(Sample::new("", "other"))),
        Op::Compact => store.compact(store.revision()),
        Op::Disconnect => source.disconnect(),
        Op::Pass(_) | Op::Copy => {}
    }
}

/// Observations of the cache so far.
#[derive(Default)]
struct ObservedStates {
    reached: Revision,
    states: BTreeMap<Key, Revision>,
}

impl ObservedStates {
    /// R2, R3, R4 and R11 at one moment.
    fn look(&mut self, informer: &Informer<Sample>, kind: &FakeKind<Sample>) {
        let view = informer.view();
        assert!(view.revision() >= self.reached, "R3: {} after {}", view.revision(), self.reached);
        self.reached = view.revision();
        let truth = kind.list_past(self.reached);
        let readable = |sample: &&Arc<Sample>| !is_garbled(sample);
        let garbled: Vec<Key> = truth.iter().filter(|s| is_garbled(s)).map(|s| s.key()).collect();
        let shown = view.iter().filter(|sample| !garbled.contains(&sample.key()));
        assert!(shown.eq(truth.iter().filter(readable)), "R2: the cache is the state at {}", self.reached);
        let aside: Vec<Key> = informer.undecodable().into_iter().map(|what| what.key).collect();
        assert_eq!(aside, garbled, "R11: what cannot be read is set aside, and nothing else");
        for object in view.iter() {
            let newest = self.states.entry(object.key()).or_default();
            assert!(object.revision() >= *newest, "R4: states of one key come in order");
            *newest = object.revision();
        }
    }
}

async fn story(ops: &[Op], seed: u64, server: Server) {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    let source = source(&kind, server, seed);
    let build =
        |caches: &CacheSet| Builder::new(source.clone()).rng(Rng::seeded(seed)).caches(caches).spawn(&stop);
    let mut caches = CacheSet::default();
    let mut informer = build(&caches);
    let mut witness = ObservedStates::default();
    for op in ops {
        act(op, &kind, &store, &source);
        if let Op::Pass(ms) = *op {
            advance(Duration::from_millis(ms)).await;
        }
        if let Op::Copy = op {
            caches = CacheSet::from_image(&caches.image(), store.revision());
            informer = build(&caches);
            assert!(!informer.is_synced() || informer.revision() == store.revision(), "R18");
        }
        tokio::task::yield_now().await;
        witness.look(&informer, &kind);
    }
    assert_converges(&informer, &kind).await;
    witness.look(&informer, &kind);
    check_lists(&source.calls());
}

/// R12: the most expensive list only after a cheaper one was refused, and no paging when a server's cache can
/// answer at once.
fn check_lists(calls: &[Call]) {
    let lists: Vec<&ListRequest> = calls
        .iter()
        .filter_map(|call| match call {
            Call::List(request) if request.next.is_none() => Some(request),
            _ => None,
        })
        .collect();
    let asked_more = |at: ReadAt| matches!(at, ReadAt::NotOlderThan(_) | ReadAt::Latest);
    let streamed = calls.iter().any(|call| matches!(call, Call::Watch(crate::Start::Initial(_))));
    for (n, list) in lists.iter().enumerate() {
        let before = n.checked_sub(1).map(|before| lists[before].at);
        let numbered = matches!(list.at, ReadAt::NotOlderThan(_));
        assert!(!numbered || list.limit.is_none(), "list {n} asks for pages of what a cache could answer");
        if list.at == ReadAt::Latest && !streamed {
            assert!(
                before.is_some_and(asked_more),
                "list {n} is the first with a revision and asks for the latest"
            );
        }
    }
}

proptest! {
    /// R1, R2, R3, R4, R11, R12, R18, for every source behaviour.
    #[test]
    fn the_cache_equals_its_revision_and_converges_for_every_source_behaviour(
        ops in prop::collection::vec(op(), 1..120), seed in any::<u64>(), server in server()
    ) {
        paused(story(&ops, seed, server));
    }

    /// R6: a repeated batch, whole or from its middle, changes nothing.
    #[test]
    fn repeated_frames_change_nothing(
        ops in prop::collection::vec(op(), 1..60), sizes in prop::collection::vec(1usize..6, 1..30), seed in any::<u64>()
    ) {
        let store = FakeStore::new();
        let kind = store.kind::<Sample>("samples");
        let source = kind.source();
        let mut frames = Vec::new();
        for op in &ops {
            let before = kind.list();
            act(op, &kind, &store, &source);
            frames.extend(changes(&before, &kind.list(), store.revision()));
        }
        let (mut once, mut often) = (Indexer::of::<Sample>(), Indexer::of::<Sample>());
        let rng = Rng::seeded(seed);
        let (mut from, mut sizes) = (0, sizes.iter().cycle());
        while from < frames.len() {
            let to = (from + sizes.next().unwrap()).min(frames.len());
            once.apply(erased_frames(copies(&frames[from..to])));
            often.apply(erased_frames(copies(&frames[from..to])));
            let again = usize::try_from(rng.below(to as u64 + 1)).unwrap();
            let repeated = often.apply(erased_frames(copies(&frames[again..to])));
            prop_assert!(repeated.changes.is_empty(), "frames up to the cache's revision are no changes");
            prop_assert_eq!(once.revision(), often.revision());
            prop_assert!(objects(&once) == objects(&often));
            from = to;
        }
        prop_assert!(objects(&once) == kind.list(), "and the cache is the store");
    }
}

fn objects(cache: &Indexer) -> Vec<Arc<Sample>> {
    cache.iter().map(typed).collect()
}

/// Frames of one write; a recreation is two changes.
fn changes(before: &[Arc<Sample>], after: &[Arc<Sample>], revision: Revision) -> Vec<Frame<Sample>> {
    let mut frames = Vec::new();
    for old in before.iter().filter(|old| after.iter().all(|new| new.uid() != old.uid())) {
        let renewed = after.iter().any(|new| new.key() == old.key());
        let revision = Revision(revision.0 - u64::from(renewed));
        frames.push(Frame::Gone { key: old.key(), revision, last: None });
    }
    let changed = after.iter().filter(|new| new.revision() == revision);
    frames.extend(changed.map(|new| Frame::Put((**new).clone())));
    frames.retain(|frame| matches!(frame, Frame::Gone { .. }) || frame.revision() == revision);
    frames
}

fn copies(frames: &[Frame<Sample>]) -> Vec<Frame<Sample>> {
    let copy = |frame: &Frame<Sample>| match frame {
        Frame::Put(object) => Frame::Put(object.clone()),
        Frame::Gone { key, revision, .. } => {
            Frame::Gone { key: key.clone(), revision: *revision, last: None }
        }
        Frame::Undecodable(what) => Frame::Undecodable(what.clone()),
        Frame::Progress { revision, initial_done } => {
            Frame::Progress { revision: *revision, initial_done: *initial_done }
        }
    };
    frames.iter().map(copy).collect()
}
