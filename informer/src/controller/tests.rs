//! Controllers over a fake store: what they guarantee to their reconcile functions.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use kstore_nondet::{Nondet, Rng};
use tokio::time::Instant;

use super::*;
use crate::{
    Builder, Index,
    testing::{Chaos, FakeStore, Sample},
};

fn nondet() -> Nondet {
    Nondet::simulated(1)
}

#[tokio::test(start_paused = true)]
async fn children_are_never_created_twice_however_late_the_watch_is() {
    for seed in 0..20 {
        let (store, stop) = (FakeStore::new(), CancellationToken::new());
        let (sets, pods) = (store.kind::<Sample>("sets"), store.kind::<Sample>("pods"));
        let by_owner = Index::by_controller();
        let chaos = Chaos { delay: 60, ..Chaos::new(Rng::seeded(seed)) };
        let set_cache = Builder::new(sets.source()).spawn(&stop);
        let pod_cache = Builder::new(pods.source().chaos(chaos)).index(&by_owner).spawn(&stop);
        let controller = Controller::new("sets", &nondet())
            .watch(&set_cache, |set| Some(set.key()))
            .watch(&pod_cache, |pod| pod.controller().map(|(_, owner)| owner));
        let (queue, made) = (controller.queue(), Arc::new(AtomicU64::new(0)));
        let (creator, counter) = (pods.clone(), made.clone());
        tokio::spawn(controller.run(stop.clone(), move |cx| {
            let (sets, cache, by_owner) = (set_cache.clone(), pod_cache.clone(), by_owner.clone());
            let (pods, made) = (creator.clone(), counter.clone());
            async move {
                let Some(set) = sets.get(&cx.key) else { return Ok(Action::Done) };
                for _ in cache.by(&by_owner, set.uid()).len() as u64..set.value {
                    let n = made.fetch_add(1, Ordering::Relaxed);
                    let pod = pods.put(Sample::new("default", &format!("pod-{n}")).owned_by(&*set));
                    cx.wrote(&cache, pod.revision());
                }
                Ok::<_, Infallible>(Action::Done)
            }
        }));
        sets.put(Sample::new("default", "web").value(5));
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(97)).await;
            queue.add(Key::new("default", "web"), Causes::none());
        }
        assert_eq!(made.load(Ordering::Relaxed), 5, "seed {seed}");
        stop.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn no_run_begins_before_every_cache_has_its_first_state() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (fast, slow) = (store.kind::<Sample>("fast"), store.kind::<Sample>("slow"));
    fast.put(Sample::new("", "a"));
    slow.put(Sample::new("", "b"));
    let slow_source = slow.source();
    for _ in 0..4 {
        slow_source.fail_next(crate::SourceError::Unreachable("starting".into()));
    }
    let fast_cache = Builder::new(fast.source()).spawn(&stop);
    let slow_cache = Builder::new(slow_source).spawn(&stop);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let (seen, cache) = (runs.clone(), slow_cache.clone());
    let controller = Controller::new("both", &nondet())
        .watch(&fast_cache, |o| Some(o.key()))
        .watch(&slow_cache, |o| Some(o.key()));
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        assert!(cache.is_synced());
        seen.lock().push((cx.key.to_string(), cx.causes.to_string()));
        async { Ok::<_, Infallible>(Action::Done) }
    }));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(runs.lock().is_empty());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let runs: BTreeSet<_> = runs.lock().drain(..).collect();
    assert_eq!(runs, BTreeSet::from([("a".into(), "1".into()), ("b".into(), "2".into())]));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_or_panics_is_repeated_with_its_causes() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let cache = Builder::new(kind.source()).spawn(&stop);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let seen = runs.clone();
    let controller = Controller::new("c", &nondet()).watch(&cache, |o| Some(o.key())).workers(1);
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        let seen = seen.clone();
        async move {
            seen.lock().push((cx.attempt, cx.causes.to_string()));
            match cx.attempt {
                0 => Err("not yet"),
                1 => panic!("worse"),
                _ => Ok(Action::Done),
            }
        }
    }));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*runs.lock(), [(0, "1".into()), (1, "1".into()), (2, "1".into())]);
}

#[tokio::test(start_paused = true)]
async fn both_owners_are_told_when_an_object_moves_from_one_to_the_other() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (owners, pods) = (store.kind::<Sample>("owners"), store.kind::<Sample>("pods"));
    let (a, b) = (owners.put(Sample::new("", "a")), owners.put(Sample::new("", "b")));
    pods.put(Sample::new("", "pod").owned_by(&*a));
    let cache = Builder::new(pods.source()).spawn(&stop);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let seen = runs.clone();
    let controller = Controller::new("c", &nondet()).watch(&cache, |o| o.controller().map(|(_, key)| key));
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        seen.lock().push(cx.key.to_string());
        async { Ok::<_, Infallible>(Action::Done) }
    }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(std::mem::take(&mut *runs.lock()), ["a"]);
    pods.put(Sample::new("", "pod").owned_by(&*b));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*runs.lock(), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_no_cache_shows_delays_the_next_run_but_not_for_ever() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let cache = Builder::new(kind.source()).spawn(&stop);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let (seen, start, fence) = (runs.clone(), Instant::now(), cache.clone());
    let controller = Controller::new("c", &nondet()).watch(&cache, |o| Some(o.key())).workers(1);
    let queue = controller.queue();
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        seen.lock().push(start.elapsed().as_secs());
        cx.wrote(&fence, Revision(99));
        async { Ok::<_, Infallible>(Action::Done) }
    }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add(Key::new("", "a"), Causes::none());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*runs.lock(), [0]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(*runs.lock(), [0, 10]);
}

#[tokio::test(start_paused = true)]
async fn stopping_drops_runs_under_way_and_leaves_no_task() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    for n in 0..3 {
        kind.put(Sample::new("", &n.to_string()));
    }
    let cache = Builder::new(kind.source()).spawn(&stop);
    let alive = Arc::new(AtomicUsize::new(0));
    let counter = alive.clone();
    let controller = Controller::new("c", &nondet()).watch(&cache, |o| Some(o.key())).workers(2);
    let running = tokio::spawn(controller.run(stop.clone(), move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        let guard = Guard(counter.clone());
        async move {
            let _guard = guard;
            std::future::pending::<Result<Action, Infallible>>().await
        }
    }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(alive.load(Ordering::Relaxed), 2, "as many runs as workers");
    stop.cancel();
    running.await.unwrap();
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}
