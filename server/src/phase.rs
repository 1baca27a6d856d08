//! Tasks that end together. A cluster is a few phases, ended one after the other: doors, loops, core. Not what the tasks do.

use std::future::Future;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

/// A group of tasks with one signal to end.
#[derive(Debug)]
pub(crate) struct Phase {
    name: &'static str,
    stop: CancellationToken,
    tasks: TaskTracker,
    failed: CancellationToken,
}

impl Phase {
    /// An empty phase. `failed` is cancelled when one of its tasks ends without having been asked to.
    pub(crate) fn new(name: &'static str, failed: &CancellationToken) -> Self {
        Self { name, stop: CancellationToken::new(), tasks: TaskTracker::new(), failed: failed.clone() }
    }

    /// The signal that a task of this phase must watch.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs a task. It must end soon after [`Phase::stop`] is cancelled, and not before.
    pub(crate) fn spawn(&self, task: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        let (stop, failed) = (self.stop.clone(), self.failed.clone());
        let guard = self.tasks.track_future(async move {
            // A panic drops this guard on the way out, so that it counts as an end, too.
            let _early = EarlyEnd { task, stop, failed };
            future.await;
        });
        tokio::spawn(guard);
    }

    /// Asks all tasks to end and waits for them, until `deadline` at most.
    pub(crate) async fn end(&self, deadline: Instant) {
        self.stop.cancel();
        self.tasks.close();
        if timeout_at(deadline, self.tasks.wait()).await.is_err() {
            warn!(phase = self.name, left = self.tasks.len(), "tasks did not end in time and are dropped");
        }
    }
}

/// Notices on drop that nobody asked for this end.
struct EarlyEnd {
    task: &'static str,
    stop: CancellationToken,
    failed: CancellationToken,
}

impl Drop for EarlyEnd {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            error!(task = self.task, "ended unexpectedly");
            self.failed.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn tasks_end_when_asked_and_a_stubborn_one_is_left_at_the_deadline() {
        let failed = CancellationToken::new();
        let phase = Phase::new("loops", &failed);
        let stop = phase.stop();
        phase.spawn("polite", async move { stop.cancelled().await });
        phase.spawn("stubborn", std::future::pending());
        let before = Instant::now();
        phase.end(before + Duration::from_secs(2)).await;
        assert_eq!(before.elapsed(), Duration::from_secs(2));
        assert!(!failed.is_cancelled());
    }

    #[tokio::test]
    async fn a_task_that_ends_by_itself_is_a_failure() {
        let failed = CancellationToken::new();
        let phase = Phase::new("loops", &failed);
        phase.spawn("brief", async {});
        failed.cancelled().await;
    }
}
