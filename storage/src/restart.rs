//! Restarts of the server's tasks after panics. A panic is caught and counted ([`TaskRestarts`]), and the
//! task starts again after a pause that doubles with each panic. Only for tasks that start from stored state:
//! a panic may leave other state half changed.

use crate::limits::{RESTART_BACKOFF_BASE, RESTART_BACKOFF_CAP, RESTART_BACKOFF_RESET};
use crate::series::{Counter, Family};
use futures::FutureExt as _;
use kstore_nondet::{Backoff, Waits};
use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Counters of restarts after panics, by task. Clones share the counters.
#[derive(Clone)]
pub struct TaskRestarts(Arc<Family<&'static str, Counter>>);

impl Default for TaskRestarts {
    fn default() -> Self {
        Self(Arc::new(Family::new(Counter::default)))
    }
}

impl fmt::Debug for TaskRestarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.counts()).finish()
    }
}

impl TaskRestarts {
    fn count(&self, task: &'static str) {
        self.0.get(&task).add(1);
    }

    /// The number of restarts of each task that panicked, ordered by task.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.sorted().into_iter().map(|(task, counter)| (task, counter.get()))
    }
}

const RESTART_BACKOFF: Backoff = Backoff::doubling(RESTART_BACKOFF_BASE, RESTART_BACKOFF_CAP);

/// The panics of one task: the number of consecutive ones, and the next pause.
#[derive(Debug)]
pub struct Panics {
    task: &'static str,
    restarts: TaskRestarts,
    /// Waits of the panics without a long run between them.
    waits: Waits,
    began: Instant,
}

impl Panics {
    /// No panics so far; the first attempt begins now. Panics are counted in `restarts`.
    pub fn none(task: &'static str, restarts: TaskRestarts) -> Self {
        Self { task, restarts, waits: RESTART_BACKOFF.waits(), began: Instant::now() }
    }

    /// Runs an attempt; `Err` if it panicked.
    pub async fn contain<T>(&mut self, attempt: impl Future<Output = T>) -> Result<T, Panicked> {
        self.began = Instant::now();
        AssertUnwindSafe(attempt).catch_unwind().await.map_err(|payload| self.panicked(&*payload))
    }

    fn panicked(&mut self, payload: &(dyn Any + Send)) -> Panicked {
        if self.began.elapsed() >= RESTART_BACKOFF_RESET {
            self.waits.reset();
        }
        self.restarts.count(self.task);
        let wait = self.waits.advance();
        let reason = message(payload);
        tracing::error!(task = self.task, reason, restart_in = ?wait, "a task of the server panicked; restarting it");
        Panicked { in_a_row: self.waits.failures(), wait }
    }
}

/// A caught panic.
#[derive(Clone, Copy, Debug)]
pub struct Panicked {
    /// The number of consecutive panics, including this one.
    pub in_a_row: u32,
    /// The pause before the next attempt.
    pub wait: Duration,
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Runs a task until an attempt ends without a panic. Each panic is counted in `restarts`.
pub async fn until_done<F: Future<Output = ()>>(
    task: &'static str,
    restarts: TaskRestarts,
    mut start: impl FnMut() -> F,
) {
    let mut panics = Panics::none(task, restarts);
    // Boxed: the futures around an attempt would otherwise reserve several times its size.
    while let Err(panicked) = panics.contain(Box::pin(async { start().await })).await {
        tokio::time::sleep(panicked.wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use kstore_api::version::Minor;

    #[tokio::test(start_paused = true)]
    async fn panicked_tasks_restart_after_doubling_pauses_and_are_counted() {
        let (metrics, began) = (Metrics::default(), Instant::now());
        let mut attempts = 0;
        until_done("clumsy", metrics.restarts().clone(), || {
            attempts += 1;
            let attempt = attempts;
            async move { assert!(attempt > 3, "attempt {attempt}") }
        })
        .await;
        assert_eq!((attempts, began.elapsed()), (4, 7 * RESTART_BACKOFF_BASE));
        let page = metrics.render(Minor::DEFAULT, std::iter::empty());
        assert!(page.contains("kstore_apiserver_task_restarts_total{task=\"clumsy\"} 3\n"), "{page}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_run_resets_the_count_of_panics() {
        let mut panics = Panics::none("clumsy", TaskRestarts::default());
        for _ in 0..3 {
            let late = panics.contain(async {
                tokio::time::sleep(RESTART_BACKOFF_RESET).await;
                panic!("late");
            });
            let late: Result<(), Panicked> = late.await;
            let late = late.unwrap_err();
            assert_eq!((late.in_a_row, late.wait), (1, RESTART_BACKOFF_BASE));
        }
    }
}
