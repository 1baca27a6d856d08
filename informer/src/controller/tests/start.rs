//! Tests of when the workers start, and of a failed initial sync.

use super::*;
use futures::FutureExt;

#[tokio::test(start_paused = true)]
async fn no_run_starts_before_all_caches_have_synced() {
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
    let runs = Log::<_>::default();
    let (seen, cache) = (runs.clone(), slow_cache.clone());
    let controller = Controller::new("both", nondet())
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

/// Runs a controller whose source is unreachable; returns the elapsed time and the result.
async fn unreachable(limit: Option<Duration>) -> (Duration, Result<(), NotSynced>) {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let source = store.kind::<Sample>("samples").source();
    for _ in 0..1_000 {
        source.fail_next(SourceError::Unreachable("no route".into()));
    }
    let fine = Builder::new(store.kind::<Sample>("fine").source()).name("fine").spawn(&stop);
    let cache = Builder::new(source).name("pods").spawn(&stop);
    let controller = Controller::new("c", nondet())
        .watch(&fine, |o| Some(o.key()))
        .watch(&cache, |o| Some(o.key()))
        .sync_timeout(limit);
    let start = Instant::now();
    let (request, ended) = (stop.clone(), controller.run(stop, |_| async { Err("no run may begin") }));
    let ended = ended.map(|ended| (start.elapsed(), ended));
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        request.cancel();
    };
    futures::join!(ended, stopping).0
}

#[tokio::test(start_paused = true)]
async fn a_sync_timeout_names_the_informer_that_has_not_synced() {
    let (after, ended) = unreachable(Some(SYNC_TIMEOUT)).await;
    let error = ended.unwrap_err();
    assert_eq!((after, error.informer.as_str()), (SYNC_TIMEOUT, "pods"));
    assert_eq!(error.to_string(), "informer pods has not synced: unreachable: no route");
}

#[tokio::test(start_paused = true)]
async fn a_controller_without_sync_timeout_stops_cleanly() {
    assert_eq!(unreachable(None).await, (Duration::from_secs(1_000), Ok(())));
}

#[tokio::test(start_paused = true)]
async fn a_controller_does_not_start_on_a_stopped_informer() {
    let (ended, stop) = (CancellationToken::new(), CancellationToken::new());
    let cache = Builder::new(FakeStore::new().kind::<Sample>("samples").source()).name("pods").spawn(&ended);
    ended.cancel();
    let controller = Controller::new("c", nondet()).watch(&cache, |o| Some(o.key()));
    let result = controller.run(stop, |_| async { Ok::<_, Infallible>(Action::Done) }).await;
    assert_eq!(result, Err(NotSynced { informer: "pods".into(), status: Status::Stopped }));
}
