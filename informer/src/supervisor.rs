//! [`Supervisor`]: runs a component again after a panic of one of its tasks. Each run is a generation: its tasks end together, and
//! the next one begins with nothing of it. It contains no panic of a reconcile: [`Controller`](crate::Controller) does that.

#[cfg(test)]
mod tests;

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    TaskGroup,
    limits::{GENERATION_GRACE, RESTART_BACKOFF_BASE, RESTART_BACKOFF_CAP, RESTART_BACKOFF_RESET},
    metrics::{Collect, Metric, Page, Registry},
    task_group,
};

static RESTARTS: Metric = Metric::counter(
    "kstore_component_restarts_total",
    "Ends of a component that nobody asked for, each followed by a restart",
);

/// Runs a component in generations. See the module.
///
/// A generation is over when one of its tasks panics, or when its future returns before the stop. What is left of it is asked to
/// end, and dropped after [`GENERATION_GRACE`]. The next generation starts after a wait: [`RESTART_BACKOFF_BASE`], doubled each
/// time up to [`RESTART_BACKOFF_CAP`].
pub struct Supervisor {
    restarts: Arc<Restarts>,
}

impl Supervisor {
    /// A supervisor of the component of this name, whose restarts are counted in `metrics` as
    /// `kstore_component_restarts_total`.
    pub fn new(component: &str, metrics: &Registry) -> Self {
        let restarts = Arc::new(Restarts { component: component.to_owned(), count: AtomicU64::new(0) });
        let collect = Arc::downgrade(&restarts);
        metrics.add(collect);
        Self { restarts }
    }

    /// Runs generations until `stop` is cancelled. All their tasks have ended when this returns. If it is dropped, they are asked
    /// to end.
    ///
    /// `start` makes the future of a generation. It must end soon after the stop of its group is cancelled, and not before, and
    /// everything that it starts must be a task of the group.
    pub async fn run<F, Fut>(self, stop: CancellationToken, mut start: F)
    where
        F: FnMut(TaskGroup) -> Fut,
        Fut: Future<Output = ()>,
    {
        let component = &*self.restarts.component;
        let mut backoff = Backoff::new();
        while !stop.is_cancelled() {
            let began = Instant::now();
            let Some(reason) = generation(&stop, &mut start).await else { return };
            let wait = backoff.next(began.elapsed());
            self.restarts.count.fetch_add(1, Ordering::Relaxed);
            tracing::error!(component, reason, restart_in = ?wait, "a component failed and will be restarted");
            stop.run_until_cancelled(sleep(wait)).await;
        }
    }
}

/// One generation, to the end of its last task. Returns why it failed, or nothing if it was asked to end.
async fn generation<F, Fut>(stop: &CancellationToken, start: &mut F) -> Option<String>
where
    F: FnMut(TaskGroup) -> Fut,
    Fut: Future<Output = ()>,
{
    let tasks = TaskGroup::new(stop);
    // Also when this future is dropped, no task goes on.
    let _guard = tasks.stop().clone().drop_guard();
    let whole = async {
        // The function is called inside, since it may panic before it gives a future.
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

/// Resolves when a group that failed has had its time. One that was asked to end may take as long as it needs.
async fn overdue(tasks: &TaskGroup, stop: &CancellationToken) {
    tasks.stop().cancelled().await;
    if stop.is_cancelled() {
        std::future::pending::<()>().await;
    }
    sleep(GENERATION_GRACE).await;
}

/// The wait before the next generation.
struct Backoff {
    next: Duration,
}

impl Backoff {
    fn new() -> Self {
        Self { next: RESTART_BACKOFF_BASE }
    }

    /// The wait after a generation that lived this long.
    fn next(&mut self, lived: Duration) -> Duration {
        if lived >= RESTART_BACKOFF_RESET {
            self.next = RESTART_BACKOFF_BASE;
        }
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(RESTART_BACKOFF_CAP);
        wait
    }
}

/// How often a component was restarted.
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
