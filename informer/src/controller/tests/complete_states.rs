//! Tests of own writes that a cache shows by a complete state and not by their events: C3.

use super::*;
use crate::limits::OWN_WRITE_DEADLINE;
use crate::testing::{Chaos, FakeSource};
use kstore_nondet::Rng;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// Owners that must each have a child of their name, which a controller creates.
struct Children {
    store: FakeStore,
    owners: FakeKind<Sample>,
    children: FakeKind<Sample>,
    /// The source of the controller's cache of children.
    source: FakeSource<Sample>,
    runs: Arc<AtomicU64>,
    stop: CancellationToken,
}

/// What happens in the run that creates the first child, after the creation.
type AfterFirst = fn(&FakeStore, &FakeSource<Sample>);

impl Children {
    /// Starts the controller. The first child that it creates is deleted at once, by another client. `pause` passes before that run
    /// records its write.
    fn start(after_first: Option<AfterFirst>, pause: Duration, chaos: Option<Chaos>) -> Self {
        let (store, stop) = (FakeStore::new(), CancellationToken::new());
        let (owners, children) = (store.kind::<Sample>("owners"), store.kind::<Sample>("children"));
        let source = match chaos {
            Some(chaos) => children.source().chaos(chaos),
            None => children.source(),
        };
        let runs = Arc::new(AtomicU64::new(0));
        let owner_cache = Builder::new(owners.source()).spawn(&stop);
        let cache = Builder::new(source.clone()).spawn(&stop);
        let controller = Controller::new("children", nondet())
            .watch(&owner_cache, |owner| Some(owner.key()))
            .watch(&cache, |child| Some(child.key()));
        let (creator, history, stream, counted) =
            (children.clone(), store.clone(), source.clone(), runs.clone());
        let left = Arc::new(AtomicU64::new(u64::from(after_first.is_some())));
        tokio::spawn(controller.run(stop.clone(), move |cx| {
            counted.fetch_add(1, Ordering::Relaxed);
            let needs_child = owner_cache.get(&cx.key).is_some() && cache.get(&cx.key).is_none();
            let (cache, children, left) = (cache.clone(), creator.clone(), left.clone());
            let (history, stream) = (history.clone(), stream.clone());
            async move {
                // A child that the cache does not show yet needs no other one.
                let created = needs_child.then(|| children.create(Sample::new("", cx.key.name())));
                let Some(Ok(created)) = created else { return Ok::<_, Infallible>(Action::Done) };
                if let Some(happens) = after_first.filter(|_| left.swap(0, Ordering::Relaxed) == 1) {
                    children.delete(&cx.key).unwrap();
                    happens(&history, &stream);
                    sleep(pause).await;
                }
                cx.wrote(&cache, created.revision());
                Ok(Action::Done)
            }
        }));
        Self { store, owners, children, source, runs, stop }
    }

    /// The owners without a child.
    fn missing(&self) -> Vec<Key> {
        let owners = self.owners.list().into_iter().map(|owner| owner.key());
        owners.filter(|key| self.children.get(key).is_none()).collect()
    }

    fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }
}

/// The next stream is a complete state that is newer than everything so far.
fn jump(store: &FakeStore, source: &FakeSource<Sample>) {
    store.compact(store.revision());
    source.disconnect();
}

/// Like [`jump`], when the key is not parked any more.
fn jump_after_the_deadline(store: &FakeStore, source: &FakeSource<Sample>) {
    jump(store, source);
    source.fail_next(SourceError::Throttled { retry_after: Some(OWN_WRITE_DEADLINE * 3) });
}

/// C3: the cache of children never sees the child that was created and deleted.
#[tokio::test(start_paused = true)]
async fn a_child_that_was_deleted_before_a_relist_is_created_again() {
    let cases: [(&str, AfterFirst, Duration); 3] = [
        ("the key is parked", jump, Duration::ZERO),
        ("the wait of the key has timed out", jump_after_the_deadline, Duration::ZERO),
        ("the run has not recorded its write", jump, Duration::from_secs(60)),
    ];
    for (case, after_first, pause) in cases {
        let children = Children::start(Some(after_first), pause, None);
        sleep(Duration::from_secs(1)).await;
        children.owners.put(Sample::new("", "a"));
        sleep(Duration::from_secs(200)).await;
        assert_eq!(children.missing(), [], "{case}");
        assert!(children.runs() <= 5, "{case}: {} runs", children.runs());
        children.stop.cancel();
    }
}

/// C3: with a source that breaks, relists, repeats, lags and is late, and with another client that deletes children.
#[tokio::test(start_paused = true)]
async fn every_owner_has_a_child_in_the_end_whatever_the_source_skips() {
    for seed in 0..60 {
        let rng = Rng::seeded(seed);
        let children = Children::start(None, Duration::ZERO, Some(Chaos::new(rng.fork("chaos"))));
        for n in 0..5 {
            children.owners.put(Sample::new("", &format!("owner-{n}")));
        }
        for _ in 0..60 {
            sleep(Duration::from_millis(rng.below(1_500))).await;
            let _ = children.children.delete(&Key::new("", &format!("owner-{}", rng.below(5))));
            if rng.below(3) == 0 {
                jump(&children.store, &children.source);
            }
        }
        sleep(Duration::from_secs(1_000)).await;
        assert_eq!(children.missing(), [], "seed {seed}");
        children.stop.cancel();
    }
}

/// C3: a run that records an old revision, as a write without effect returns it, does not run for ever after a relist.
#[tokio::test(start_paused = true)]
async fn a_write_without_effect_does_not_repeat_its_run_after_a_relist() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    let first = kind.put(Sample::new("", "a"));
    let source = kind.source();
    let cache = Builder::new(source.clone()).spawn(&stop);
    let runs = Arc::new(AtomicU64::new(0));
    let (counted, fence) = (runs.clone(), cache.clone());
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key()));
    let queue = controller.queue();
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        counted.fetch_add(1, Ordering::Relaxed);
        let fence = fence.clone();
        async move {
            // The relist comes meanwhile.
            sleep(Duration::from_secs(10)).await;
            cx.wrote(&fence, Revision(1));
            Ok::<_, Infallible>(Action::Done)
        }
    }));
    for _ in 0..10 {
        sleep(Duration::from_secs(100)).await;
        kind.put(Sample::new("", "b"));
        jump(&store, &source);
        queue.add(first.key(), Causes::none());
    }
    sleep(Duration::from_secs(100)).await;
    let runs = runs.load(Ordering::Relaxed);
    assert!((11..=50).contains(&runs), "{runs} runs");
}
