//! Tests of read-your-own-writes: C1, C2.

use super::*;
use crate::limits::OWN_WRITE_DEADLINE;
use crate::testing::{Chaos, FakeSource};
use crate::{Capabilities, CutError, Frames, ListRequest, ListerWatcher, Page, Revisions, Start};
use futures::StreamExt;
use kstore_nondet::Rng;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A source that delivers batches late but in order.
struct LateSource {
    source: FakeSource<Sample>,
    rng: Rng,
    /// Largest delay of a batch.
    by: Duration,
}

impl ListerWatcher for LateSource {
    type Obj = Sample;

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Sample>, SourceError> {
        self.source.list(request).await
    }

    async fn watch(&self, start: Start) -> Result<Frames<Sample>, SourceError> {
        let (rng, by) = (self.rng.clone(), self.by);
        let late = self.source.watch(start).await?.then(move |batch| {
            let wait = by.mul_f64(rng.unit());
            async move {
                tokio::time::sleep(wait).await;
                batch
            }
        });
        Ok(late.boxed())
    }
}

/// Writes of a controller that keeps a set at its number of pods.
#[derive(Default)]
struct ObservedWrites {
    made: AtomicU64,
    stale: AtomicU64,
    /// Whether a run saw less than earlier runs wrote without being marked stale.
    missed_unmarked: AtomicBool,
}

/// Runs a controller for a set of five pods under a watch that is late by up to `by`, with one second of
/// events per round.
async fn five_pods(seed: u64, by: Duration, rounds: usize) -> (usize, Arc<ObservedWrites>) {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (sets, pods) = (store.kind::<Sample>("sets"), store.kind::<Sample>("pods"));
    let by_owner = Index::by_controller();
    let rng = Rng::seeded(seed);
    let source = pods.source().chaos(Chaos { delay: 60, ..Chaos::new(rng.fork("chaos")) });
    let set_cache = Builder::new(sets.source()).spawn(&stop);
    let pod_cache = Builder::new(LateSource { source, rng, by }).index(&by_owner).spawn(&stop);
    let controller = Controller::new("sets", nondet())
        .watch(&set_cache, |set| Some(set.key()))
        .watch(&pod_cache, |pod| pod.controller().map(|(_, owner)| owner));
    let (queue, pending_writes) = (controller.queue(), controller.pending_writes.clone());
    let (observed, written) = (Arc::new(ObservedWrites::default()), Arc::new(AtomicU64::new(0)));
    let (creator, did) = (pods.clone(), observed.clone());
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        let (sets, cache, by_owner) = (set_cache.clone(), pod_cache.clone(), by_owner.clone());
        let (pods, did, written) = (creator.clone(), did.clone(), written.clone());
        async move {
            let Some(set) = sets.get(&cx.key) else { return Ok(Action::Done) };
            if cx.stale {
                did.stale.fetch_add(1, Ordering::Relaxed);
                return Ok(Action::Done);
            }
            if cache.revision() < Revision(written.load(Ordering::Relaxed)) {
                did.missed_unmarked.store(true, Ordering::Relaxed);
            }
            for _ in cache.by(&by_owner, set.uid()).len() as u64..set.value {
                let n = did.made.fetch_add(1, Ordering::Relaxed);
                let pod = pods.put(Sample::new("default", &format!("pod-{n}")).owned_by(&*set));
                cx.wrote(&cache, pod.revision());
                written.store(pod.revision().0, Ordering::Relaxed);
            }
            Ok::<_, Infallible>(Action::Done)
        }
    }));
    sets.put(Sample::new("default", "web").value(5));
    for _ in 0..rounds {
        tokio::time::sleep(Duration::from_millis(970)).await;
        queue.add(Key::new("default", "web"), Causes::none());
    }
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    stop.cancel();
    assert_eq!(pending_writes.len(), 0, "seed {seed}: writes that every cache shows are forgotten");
    (pods.list().len(), observed)
}

/// C1, C2: with watches that break, repeat, lag, and are late by less than the deadline.
#[tokio::test(start_paused = true)]
async fn a_late_watch_never_causes_duplicate_children() {
    for seed in 0..40 {
        let (pods, observed) = five_pods(seed, Duration::from_secs(3), 60).await;
        assert_eq!((pods, observed.made.load(Ordering::Relaxed)), (5, 5), "seed {seed}");
        assert!(!observed.missed_unmarked.load(Ordering::Relaxed), "seed {seed}");
    }
}

/// C1, C2: with watches that are late by more than the deadline. Every run until the caches have caught up is
/// marked stale, not only the first.
#[tokio::test(start_paused = true)]
async fn runs_are_marked_stale_while_the_watch_is_too_late() {
    let mut stale = 0;
    for seed in 0..40 {
        let (pods, observed) = five_pods(seed, OWN_WRITE_DEADLINE * 5, 120).await;
        assert_eq!((pods, observed.made.load(Ordering::Relaxed)), (5, 5), "seed {seed}");
        assert!(!observed.missed_unmarked.load(Ordering::Relaxed), "seed {seed}");
        stale += observed.stale.load(Ordering::Relaxed);
    }
    assert!(stale > 100, "the watch was too late: {stale}");
}

#[tokio::test(start_paused = true)]
async fn an_invisible_write_delays_the_next_run_until_the_deadline() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let cache = Builder::new(kind.source()).spawn(&stop);
    let runs = Log::<_>::default();
    let (seen, start, fence) = (runs.clone(), Instant::now(), cache.clone());
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key())).workers(1);
    let queue = controller.queue();
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        seen.lock().push((start.elapsed().as_secs(), cx.stale));
        cx.wrote(&fence, Revision(99));
        async { Ok::<_, Infallible>(Action::Done) }
    }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add(Key::new("", "a"), Causes::none());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*runs.lock(), [(0, false)]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(*runs.lock(), [(0, false), (10, true)]);
}

/// Q16, for controllers: events that arrive while the key is parked lead to one run, when the cache shows the
/// write.
#[tokio::test(start_paused = true)]
async fn a_parked_key_runs_once_when_the_cache_shows_its_write() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    let first = kind.put(Sample::new("", "a"));
    let source = LateSource { source: kind.source(), rng: Rng::seeded(1), by: Duration::from_secs(4) };
    let cache = Builder::new(source).spawn(&stop);
    let runs: Log<_> = Log::default();
    let (seen, fence, writer) = (runs.clone(), cache.clone(), kind.clone());
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key()));
    let queue = controller.queue();
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        seen.lock().push((fence.revision(), cx.stale));
        if fence.revision() == Revision(1) {
            cx.wrote(&fence, writer.put(Sample::new("", "a").value(1)).revision());
            cx.wrote(&fence, writer.put(Sample::new("", "a").value(2)).revision());
            cx.wrote(&fence, Revision(1));
        }
        async { Ok::<_, Infallible>(Action::Done) }
    }));
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        queue.add(first.key(), Causes::none());
        if runs.lock().len() == 2 {
            break;
        }
    }
    assert_eq!(*runs.lock(), [(Revision(1), false), (Revision(3), false)]);
}

/// X3, C1: a snapshot within a run contains its causes and its own writes, in both kinds at once.
#[tokio::test(start_paused = true)]
async fn a_snapshot_in_a_run_contains_its_causes_and_its_own_writes() {
    for seed in 0..10 {
        let (store, stop) = (FakeStore::new(), CancellationToken::new());
        let (sets, pods) = (store.kind::<Sample>("sets"), store.kind::<Sample>("pods"));
        let late = LateSource { source: pods.source(), rng: Rng::seeded(seed), by: Duration::from_secs(2) };
        let set_cache = Builder::new(sets.source()).spawn(&stop);
        let pod_cache = Builder::new(late).spawn(&stop);
        let controller = Controller::new("sets", nondet())
            .watch(&set_cache, |set| Some(set.key()))
            .watch(&pod_cache, |_| None);
        let (cuts, api) = (Log::default(), pods.clone());
        let seen: Log<(Revision, Revision, bool)> = cuts.clone();
        tokio::spawn(controller.run(stop.clone(), move |cx| {
            let (sets, pods, seen, api) = (set_cache.clone(), pod_cache.clone(), seen.clone(), api.clone());
            async move {
                let cause = *cx.causes.revisions().last().unwrap();
                let (set_view, pod_view) = cx.cut((&sets, &pods)).await?;
                assert_eq!(set_view.revision(), pod_view.revision());
                let pod = api.put(Sample::new("", &format!("pod-{cause}")));
                cx.wrote(&pods, pod.revision());
                let (_, after) = cx.cut((&sets, &pods)).await?;
                seen.lock().push((cause, set_view.revision(), after.get(&pod.key()).is_some()));
                Ok::<_, CutError>(Action::Done)
            }
        }));
        for value in 0..10 {
            sets.put(Sample::new("", "web").value(value));
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let cuts = cuts.lock();
        assert!(cuts.len() >= 5, "seed {seed}: {cuts:?}");
        assert!(cuts.iter().all(|(cause, at, own)| at >= cause && *own), "seed {seed}: {cuts:?}");
        stop.cancel();
    }
}

/// C1, X3: a run whose cause is older than a write of the previous run reads no common revision before that
/// write, although one cache is behind. (Regression: a DaemonSet created a second pod on a node.)
#[tokio::test(start_paused = true)]
async fn a_snapshot_contains_writes_of_earlier_runs_when_another_cache_lags() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (pods, nodes) = (store.kind::<Sample>("pods"), store.kind::<Sample>("nodes"));
    let cause = nodes.put(Sample::new("", "node")).revision();
    let pod_cache = Builder::new(pods.source()).spawn(&stop);
    let late = LateSource { source: nodes.source(), rng: Rng::seeded(1), by: Duration::from_secs(4) };
    let node_cache = Builder::new(late).spawn(&stop);
    let controller =
        Controller::new("sets", nondet()).watch(&pod_cache, |_| None).watch(&node_cache, |_| None);
    let (queue, api) = (controller.queue(), pods.clone());
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        let (pods, nodes, api) = (pod_cache.clone(), node_cache.clone(), api.clone());
        async move {
            let (seen, _) = cx.cut((&pods, &nodes)).await?;
            if seen.iter().count() == 0 {
                let pod = api.put(Sample::new("", &format!("pod-{}", api.list().len())));
                cx.wrote(&pods, pod.revision());
                // The cache of pods is fast: it shows the write when the run ends.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok::<_, CutError>(Action::Done)
        }
    }));
    for _ in 0..1_000 {
        queue.add(Key::new("", "set"), Causes::one(cause));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(pods.list().len(), 1);
}

/// A source that assigns its own revisions.
struct SourceWithoutRevisions(FakeSource<Sample>);

impl ListerWatcher for SourceWithoutRevisions {
    type Obj = Sample;

    fn capabilities(&self) -> Capabilities {
        Capabilities { revisions: Revisions::Opaque, ..self.0.capabilities() }
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Sample>, SourceError> {
        self.0.list(request).await
    }

    async fn watch(&self, start: Start) -> Result<Frames<Sample>, SourceError> {
        self.0.watch(start).await
    }
}

#[tokio::test(start_paused = true)]
async fn own_writes_of_opaque_sources_do_not_delay_runs() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let cache = Builder::new(SourceWithoutRevisions(kind.source())).spawn(&stop);
    let runs: Log<_> = Log::default();
    let (seen, fence) = (runs.clone(), cache.clone());
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key()));
    let queue = controller.queue();
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        cx.wrote(&fence, Revision(99));
        seen.lock().push(cx.stale);
        async { Ok::<_, Infallible>(Action::Done) }
    }));
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.add(Key::new("", "a"), Causes::none());
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(*runs.lock(), [false, false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_at_an_unreachable_revision_times_out() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (a, b) = (store.kind::<Sample>("a"), store.kind::<Sample>("b"));
    let (a, b) = (Builder::new(a.source()).spawn(&stop), Builder::new(b.source()).spawn(&stop));
    let cx = Context::detached(Key::new("", "a"), Causes::one(Revision(99)));
    let start = Instant::now();
    assert_eq!(cx.cut((&a, &b)).await.err(), Some(CutError::Late));
    assert_eq!(start.elapsed(), OWN_WRITE_DEADLINE);
}
