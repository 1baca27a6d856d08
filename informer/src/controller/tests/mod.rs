//! Tests of controllers over a fake store: guarantees to their reconcile functions.

mod complete_states;
mod metrics;
mod own_writes;
mod start;
mod stop;

use super::*;
use crate::testing::{FakeKind, FakeStore, Sample, Stored};
use crate::{Builder, Causes, Index, Revision, SourceError, Status};
use kstore_nondet::Nondet;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::convert::Infallible;
use tokio::time::Instant;

type Log<T> = Arc<Mutex<Vec<T>>>;

fn nondet() -> Nondet {
    Nondet::simulated(1)
}

#[tokio::test(start_paused = true)]
async fn failed_and_panicked_runs_are_retried_with_their_causes() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let cache = Builder::new(kind.source()).spawn(&stop);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let seen = runs.clone();
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key())).workers(1);
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
async fn both_owners_run_when_an_object_changes_owner() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (owners, pods) = (store.kind::<Sample>("owners"), store.kind::<Sample>("pods"));
    let (a, b) = (owners.put(Sample::new("", "a")), owners.put(Sample::new("", "b")));
    pods.put(Sample::new("", "pod").owned_by(&*a));
    let cache = Builder::new(pods.source()).spawn(&stop);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let seen = runs.clone();
    let controller = Controller::new("c", nondet()).watch(&cache, |o| o.controller().map(|(_, key)| key));
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

/// Q10, for controllers.
#[tokio::test(start_paused = true)]
async fn a_panic_before_the_future_keeps_the_worker_alive() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    for name in ["bad", "good"] {
        kind.put(Sample::new("", name));
    }
    let cache = Builder::new(kind.source()).spawn(&stop);
    let runs: Log<_> = Arc::default();
    let seen = runs.clone();
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key())).workers(1);
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        assert!(cx.key.name() != "bad" || cx.attempt == 3, "not yet");
        seen.lock().push(cx.key.to_string());
        async { Ok::<_, Infallible>(Action::Done) }
    }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*runs.lock(), ["good", "bad"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_decides_whether_and_when_the_key_retries() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let cache = Builder::new(kind.source()).spawn(&stop);
    let runs: Log<_> = Arc::default();
    let (seen, start) = (runs.clone(), Instant::now());
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key()));
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        let seen = seen.clone();
        async move {
            seen.lock().push((cx.attempt, start.elapsed().as_secs()));
            match cx.attempt {
                0 => Err(Failure::RetryIn("come back", Duration::from_secs(7))),
                1 => Err("any error")?,
                _ => Err(Failure::Terminal("never")),
            }
        }
    }));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(*runs.lock(), [(0, 0), (1, 7), (2, 7)]);
    kind.put(Sample::new("", "a").value(1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(runs.lock()[3], (0, 3_600), "a change begins anew");
}

/// H9: the feed reads the creation and the deletion of an object together. A run that saw the object in the
/// cache must run again, and so must the intermediate owner.
#[tokio::test(start_paused = true)]
async fn every_former_owner_runs_even_if_the_feed_is_late() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (owners, pods) = (store.kind::<Sample>("owners"), store.kind::<Sample>("pods"));
    let [a, b, c] = ["a", "b", "c"].map(|name| owners.put(Sample::new("", name)));
    pods.put(Sample::new("", "moves").owned_by(&*a));
    let cache = Builder::new(pods.source()).spawn(&stop);
    let runs: Log<_> = Arc::default();
    let seen = runs.clone();
    let controller = Controller::new("c", nondet()).watch(&cache, |o| o.controller().map(|(_, key)| key));
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        seen.lock().push(cx.key.name().to_owned());
        async { Ok::<_, Infallible>(Action::Done) }
    }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let reconciled = || std::mem::take(&mut *runs.lock()).into_iter().collect::<BTreeSet<_>>();
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(reconciled(), names(&["a"]));
    // All in one step: the feed reads the changes together.
    for owner in [&b, &c] {
        pods.put(Sample::new("", "moves").owned_by(&**owner));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(reconciled(), names(&["a", "b", "c"]), "b had it in between");
    pods.put(Sample::new("", "brief").owned_by(&*b));
    pods.delete(&Key::new("", "brief")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(reconciled(), names(&["b"]), "it came and went");
    pods.put(Sample::new("", "moves").owned_by(&*a));
    pods.delete(&Key::new("", "moves")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(reconciled(), names(&["a", "c"]));
}

/// H7: a panic while mapping one change to keys is counted; later changes are mapped as before.
#[tokio::test(start_paused = true)]
async fn a_panic_while_mapping_a_change_to_keys_is_counted_and_contained() {
    let (store, stop, registry) = (FakeStore::new(), CancellationToken::new(), Registry::new());
    let kind = store.kind::<Sample>("samples");
    let cache = Builder::new(kind.source()).spawn(&stop);
    let runs: Log<_> = Arc::default();
    let seen = runs.clone();
    let controller = Controller::new("c", nondet()).metrics(&registry).watch(&cache, |o| {
        assert_ne!(o.value, 13, "unlucky");
        Some(o.key())
    });
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        seen.lock().push(cx.key.name().to_owned());
        async { Ok::<_, Infallible>(Action::Done) }
    }));
    for (name, value) in [("a", 1), ("b", 13), ("c", 3)] {
        kind.put(Sample::new("", name).value(value));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(*runs.lock(), ["a", "c"]);
    let mut page = String::new();
    registry.render(&mut page);
    assert!(page.contains("informer_feed_panics_total{controller=\"c\"} 1"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_run_is_dropped_and_retried() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let cache = Builder::new(kind.source()).spawn(&stop);
    let runs: Log<_> = Arc::default();
    let (seen, start) = (runs.clone(), Instant::now());
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key()));
    let controller = controller.workers(1).timeout(Duration::from_secs(5));
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        seen.lock().push((cx.attempt, start.elapsed().as_secs()));
        async move {
            if cx.attempt == 0 {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Action::Done)
        }
    }));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*runs.lock(), [(0, 0), (1, 5)]);
}

/// An object with a generation.
#[derive(Clone)]
struct SpecObject(Sample, i64);

impl Object for SpecObject {
    fn key(&self) -> Key {
        self.0.key()
    }
    fn uid(&self) -> &str {
        self.0.uid()
    }
    fn revision(&self) -> Revision {
        self.0.revision()
    }
    fn generation(&self) -> Option<i64> {
        Some(self.1)
    }
}

impl Stored for SpecObject {
    fn stamp(&mut self, uid: &str, revision: Revision) {
        self.0.stamp(uid, revision);
    }
}

/// Q9: a change of a child, the status or the spec runs a failing object at once, although its back-off lasts
/// for minutes. None of these runs lengthens the back-off.
#[tokio::test(start_paused = true)]
async fn a_failing_key_runs_at_once_after_a_change() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let (kind, others) = (store.kind::<SpecObject>("wanted"), store.kind::<Sample>("others"));
    let put = |generation| kind.put(SpecObject(Sample::new("", "a"), generation));
    let owner = put(1);
    let cache = Builder::new(kind.source()).spawn(&stop);
    let other_cache = Builder::new(others.source()).spawn(&stop);
    let runs: Log<_> = Arc::default();
    let (seen, start, fails) = (runs.clone(), Instant::now(), cache.clone());
    let controller = Controller::new("c", nondet())
        .watch(&cache, |o| Some(o.key()))
        .watch(&other_cache, |o| o.controller().map(|(_, key)| key));
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        seen.lock().push((start.elapsed(), cx.attempt));
        let fails = fails.get(&cx.key).is_some_and(|o| o.1 == 1);
        async move { if fails { Err("as it is, it cannot be") } else { Ok(Action::Done) } }
    }));
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    let before = runs.lock().len();
    let attempt = runs.lock().last().unwrap().1 + 1;
    let mut expected = Vec::new();
    for _ in 0..10 {
        expected.push((start.elapsed(), attempt));
        put(1);
        tokio::time::sleep(Duration::from_millis(10)).await;
        expected.push((start.elapsed(), attempt));
        others.put(Sample::new("", "other").owned_by(&*owner));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    expected.push((start.elapsed(), attempt));
    put(2);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(runs.lock()[before..], expected);
}

#[tokio::test(start_paused = true)]
async fn changes_run_before_initial_keys_without_starving_them() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    for n in 0..50 {
        kind.put(Sample::new("", &format!("old-{n}")));
    }
    let cache = Builder::new(kind.source()).spawn(&stop);
    let runs: Log<_> = Arc::default();
    let seen = runs.clone();
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key())).workers(1);
    tokio::spawn(controller.run(stop.clone(), move |cx| {
        seen.lock().push(cx.key.to_string());
        async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<_, Infallible>(Action::Done)
        }
    }));
    tokio::time::sleep(Duration::from_millis(15)).await;
    // One change per run: there is always a pending change.
    for n in 0..100 {
        kind.put(Sample::new("", &format!("new-{n}")));
        if n >= 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let runs = runs.lock();
    let first = runs.iter().position(|key| key == "new-0").unwrap();
    assert!(first <= 3, "{runs:?}");
    assert!(runs[first..].iter().any(|key| key.starts_with("old")), "{runs:?}");
    let new = runs.iter().filter(|key| key.starts_with("new")).count();
    assert!(new * 2 > runs.len(), "{runs:?}");
}
