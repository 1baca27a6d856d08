//! [`Supervisor`]: restarts a component after a panic of one of its tasks. Each run is a generation: its
//! tasks end together, and the next one starts without any of them. Panics of a reconcile function are not
//! its concern: [`Controller`](crate::Controller) contains them.

#[cfg(test)]
mod tests;

use crate::limits::{GENERATION_GRACE, RESTART_BACKOFF_BASE, RESTART_BACKOFF_CAP, RESTART_BACKOFF_RESET};
use crate::metrics::{Collect, Metric, Page, Registry};
use crate::{TaskGroup, task_group};
use futures::FutureExt;
use kstore_nondet::{Backoff, Waits};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

static RESTARTS: Metric = Metric::counter(
    "kstore_component_restarts_total",
    "Total number of restarts of a component after a failure",
);

/// Runs a component and restarts it after failures.
///
/// A generation is over when one of its tasks panics, or when its future returns before the stop. Its
/// remaining tasks are cancelled, and dropped after [`GENERATION_GRACE`]. The next generation starts after a
/// wait: [`RESTART_BACKOFF_BASE`], doubled each time up to [`RESTART_BACKOFF_CAP`].
pub struct Supervisor {
    restarts: Arc<Restarts>,
}

impl Supervisor {
    /// A supervisor of the component of this name, which counts restarts in `metrics` as
    /// `kstore_component_restarts_total`.
    pub fn new(component: &str, metrics: &Registry) -> Self {
        let restarts = Arc::new(Restarts { component: component.to_owned(), count: AtomicU64::new(0) });
        let collect = Arc::downgrade(&restarts);
        metrics.add(collect);
        Self { restarts }
    }

    /// Runs generations until `stop` is cancelled. All their tasks have ended when this returns. If the
    /// future is dropped, the tasks are cancelled.
    ///
    /// `start` creates the future of a generation. It must end soon after the stop of its group is cancelled,
    /// and not before. Everything that it spawns must be a task of the group.
    pub async fn run<F, Fut>(self, stop: CancellationToken, mut start: F)
    where
        F: FnMut(TaskGroup) -> Fut,
        Fut: Future<Output = ()>,
    {
        let component = &*self.restarts.component;
        let mut backoff = RestartBackoff::new();
        while !stop.is_cancelled() {
            let began = Instant::now();
            let Some(reason) = generation(&stop, &mut start).await else { return };
            let wait = backoff.next(began.elapsed());
            self.restarts.count.fetch_add(1, Ordering::Relaxed);
            tracing::error!(component, reason, restart_in = ?wait, "component failed; restarting after back-off");
            stop.run_until_cancelled(sleep(wait)).await;
        }
    }
}

/// Runs one generation until its last task has ended. Returns why it failed, or `None` if it was stopped.
async fn generation<F, Fut>(stop: &CancellationToken, start: &mut F) -> Option<String>
where
    F: FnMut(TaskGroup) -> Fut,
    Fut: Future<Output = ()>,
{
    let tasks = TaskGroup::new(stop);
    // Cancels the tasks also when this future is dropped.
    let _guard = tasks.stop().clone().drop_guard();
    let whole = async {
        // Calls the function inside the future: it may panic before it returns one.
        let main = AssertUnwindSafe(async { start(tasks.clone()).await }).catch_unwind();
        if let Err(payload) = main.await {
            tasks.panicked(payload);
        }
        let is_unasked = !stop.is_cancelled();
        tasks.stop().cancel();
        tasks.wait().await;
        is_unasked
    };
    let is_unasked = tokio::select! {
        biased;
        is_unasked = whole => is_unasked,
        () = overdue(&tasks, stop) => {
            tasks.drop_tasks().await;
            true
        }
    };
    match tasks.take_panic() {
        Some(payload) => Some(format!("panicked: {}", task_group::message(&payload))),
        None => is_unasked.then(|| "ended without being asked to".to_owned()),
    }
}

/// Resolves when a failed group has exceeded its grace. A stopped group has no time limit.
async fn overdue(tasks: &TaskGroup, stop: &CancellationToken) {
    tasks.stop().cancelled().await;
    if stop.is_cancelled() {
        std::future::pending::<()>().await;
    }
    sleep(GENERATION_GRACE).await;
}

/// Back-off between generations.
struct RestartBackoff(Waits);

impl RestartBackoff {
    fn new() -> Self {
        Self(Backoff::doubling(RESTART_BACKOFF_BASE, RESTART_BACKOFF_CAP).waits())
    }

    /// The wait after a generation that ran for `lived`.
    fn next(&mut self, lived: Duration) -> Duration {
        if lived >= RESTART_BACKOFF_RESET {
            self.0.reset();
        }
        self.0.advance()
    }
}

/// Number of restarts of a component.
struct Restarts {
    component: String,
    count: AtomicU64,
}

impl Collect for Restarts {
    fn collect(&self, into: &mut Page) {
        let count = self.count.load(Ordering::Relaxed);
        into.add(&RESTARTS, &[("component", &self.component)], count as f64);
    }
}
