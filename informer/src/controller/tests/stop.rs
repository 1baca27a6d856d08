//! Tests of the shutdown of a controller.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Guard(Arc<AtomicUsize>);

impl Guard {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive.clone())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A controller with two workers and three queued keys.
fn three_keys(stop: &CancellationToken) -> Controller {
    let kind: FakeKind<Sample> = FakeStore::new().kind("samples");
    for n in 0..3 {
        kind.put(Sample::new("", &n.to_string()));
    }
    let cache = Builder::new(kind.source()).spawn(stop);
    Controller::new("c", nondet()).watch(&cache, |o| Some(o.key())).workers(2)
}

#[tokio::test(start_paused = true)]
async fn a_stop_drops_unfinished_runs_and_leaves_no_task() {
    let (stop, alive) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let counter = alive.clone();
    let running = tokio::spawn(three_keys(&stop).run(stop.clone(), move |_| {
        let guard = Guard::new(&counter);
        async move {
            let _guard = guard;
            std::future::pending::<Result<Action, Infallible>>().await
        }
    }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(alive.load(Ordering::Relaxed), 2, "as many runs as workers");
    let stopped = Instant::now();
    stop.cancel();
    assert_eq!(running.await.unwrap(), Ok(()));
    assert_eq!((alive.load(Ordering::Relaxed), stopped.elapsed()), (0, STOP_GRACE));
}

/// Stops a controller after one second of two-second runs; returns the number of finished runs and the time
/// of the end.
async fn ended(change: impl Fn(Controller) -> Controller) -> (usize, Duration) {
    let (stop, done) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let counter = done.clone();
    let controller = change(three_keys(&stop));
    let running = tokio::spawn(controller.run(stop.clone(), move |_| {
        let counter = counter.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Action::Done)
        }
    }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stopped = Instant::now();
    stop.cancel();
    assert_eq!(running.await.unwrap(), Ok(()));
    (done.load(Ordering::Relaxed), stopped.elapsed())
}

#[tokio::test(start_paused = true)]
async fn active_runs_get_a_grace_and_queued_keys_are_dropped() {
    let seconds = Duration::from_secs;
    assert_eq!(ended(|c| c.grace(seconds(5))).await, (2, seconds(1)));
    assert_eq!(ended(|c| c.grace(Duration::ZERO)).await, (0, seconds(0)));
}

/// Q11, for controllers.
#[tokio::test(start_paused = true)]
async fn draining_processes_queued_keys_until_its_deadline() {
    let seconds = Duration::from_secs;
    assert_eq!(ended(|c| c.drain(seconds(60))).await, (3, seconds(3)));
    assert_eq!(ended(|c| c.drain(seconds(2)).grace(Duration::ZERO)).await, (2, seconds(2)));
    assert_eq!(ended(|c| c.drain(seconds(2)).grace(seconds(5))).await, (3, seconds(3)));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_controller_ends_all_its_tasks() {
    let (stop, alive) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let counter = alive.clone();
    let run = three_keys(&stop).run(stop.clone(), move |_| {
        let guard = Guard::new(&counter);
        async move {
            let _guard = guard;
            std::future::pending::<Result<Action, Infallible>>().await
        }
    });
    let dropped = tokio::time::timeout(Duration::from_secs(1), run).await.is_err();
    assert!(dropped && alive.load(Ordering::Relaxed) == 2);
    tokio::task::yield_now().await;
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}
