//! [`Phase`]: tasks that stop together. A control plane ends in three [`Phases`]: listeners, loops, core.

use kstore_informer::metrics::Registry;
use kstore_informer::{Supervisor, TaskGroup};
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

/// The phases in which a control plane ends. Clones share the tasks.
#[derive(Clone, Debug)]
pub struct Phases {
    /// What accepts requests; ends first. Its stop signal also ends the watches of the API server.
    pub listeners: Phase,
    /// Controllers, scheduler, nodes, and other clients of the API; they finish their current work.
    pub loops: Phase,
    /// The watch cache and the storage, which closes.
    pub core: Phase,
    failed: CancellationToken,
}

impl Default for Phases {
    /// Phases without tasks.
    fn default() -> Self {
        let failed = CancellationToken::new();
        Self {
            listeners: Phase::new("listeners", &failed),
            loops: Phase::new("loops", &failed),
            core: Phase::new("core", &failed),
            failed,
        }
    }
}

impl Phases {
    /// Cancelled when a task of a phase ends although that phase was not stopped.
    pub fn failed(&self) -> &CancellationToken {
        &self.failed
    }

    /// Tells all tasks to stop, without an order and without waiting.
    pub fn cancel(&self) {
        for phase in [&self.listeners, &self.loops, &self.core] {
            phase.stop.cancel();
        }
    }

    /// Ends the phases in order. The tasks that still run at `deadline` are left behind; without a deadline, this waits for all.
    pub async fn end(&self, deadline: Option<Instant>) {
        for phase in [&self.listeners, &self.loops, &self.core] {
            phase.end(deadline).await;
        }
    }

    /// A guard that cancels all phases when it is dropped, unless it is disarmed.
    pub(crate) fn drop_guard(&self) -> PhasesGuard {
        PhasesGuard { phases: self.clone(), is_armed: true }
    }
}

/// See [`Phases::drop_guard`].
pub(crate) struct PhasesGuard {
    phases: Phases,
    is_armed: bool,
}

impl PhasesGuard {
    pub(crate) fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for PhasesGuard {
    fn drop(&mut self) {
        if self.is_armed {
            self.phases.cancel();
        }
    }
}

/// A group of tasks with one stop signal. Clones share the tasks.
#[derive(Clone, Debug)]
pub struct Phase {
    name: &'static str,
    stop: CancellationToken,
    tasks: TaskTracker,
    failed: CancellationToken,
    /// Names of the running tasks.
    running: Arc<Mutex<Vec<&'static str>>>,
}

impl Phase {
    /// An empty phase. `failed` is cancelled when a task of the phase ends although the phase was not
    /// stopped.
    pub fn new(name: &'static str, failed: &CancellationToken) -> Self {
        let (stop, tasks, running) = (CancellationToken::new(), TaskTracker::new(), Arc::default());
        Self { name, stop, tasks, failed: failed.clone(), running }
    }

    /// The stop signal, which every task of this phase must watch.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs a task. It must end soon after [`Phase::stop`] is cancelled, and not before.
    pub fn spawn(&self, task: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        let (stop, failed) = (self.stop.clone(), self.failed.clone());
        self.running.lock().push(task);
        let running = self.running.clone();
        let guard = self.tasks.track_future(async move {
            // A panic drops this guard as well, so that it counts as an end.
            let _end = TaskEndGuard { task, stop, failed, running };
            future.await;
        });
        tokio::spawn(guard);
    }

    /// Runs a task that `start` starts again if it panics or ends early. Restarts are counted in `metrics`.
    pub fn supervise<F>(
        &self,
        task: &'static str,
        metrics: &Registry,
        start: impl FnMut(TaskGroup) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn(task, Supervisor::new(task, metrics).run(self.stop(), start));
    }

    /// Stops all tasks and waits for their end: until `deadline` if there is one.
    pub async fn end(&self, deadline: Option<Instant>) {
        let began = Instant::now();
        self.stop.cancel();
        self.tasks.close();
        let ended = self.tasks.wait();
        let is_late = match deadline {
            Some(deadline) => timeout_at(deadline, ended).await.is_err(),
            None => {
                ended.await;
                false
            }
        };
        if is_late {
            let tasks = self.running.lock().join(",");
            warn!(phase = self.name, tasks, "tasks did not stop in time and are dropped");
        }
        let ms = began.elapsed().as_micros() as f64 / 1000.0;
        info!(phase = self.name, ms, "phase ended");
    }
}

/// Drop guard of a task: records its end, and reports a failure if the phase was not stopped.
struct TaskEndGuard {
    task: &'static str,
    stop: CancellationToken,
    failed: CancellationToken,
    running: Arc<Mutex<Vec<&'static str>>>,
}

impl Drop for TaskEndGuard {
    fn drop(&mut self) {
        debug!(task = self.task, "task ended");
        self.running.lock().retain(|task| *task != self.task);
        if !self.stop.is_cancelled() {
            error!(task = self.task, "task ended unexpectedly");
            self.failed.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn tasks_stop_on_request_and_are_abandoned_at_the_deadline() {
        let failed = CancellationToken::new();
        let phase = Phase::new("loops", &failed);
        let stop = phase.stop();
        phase.spawn("polite", async move { stop.cancelled().await });
        phase.spawn("stubborn", std::future::pending());
        let before = Instant::now();
        phase.end(Some(before + Duration::from_secs(2))).await;
        assert_eq!(before.elapsed(), Duration::from_secs(2));
        assert!(!failed.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_supervised_task_that_panics_is_no_failure() {
        let (failed, metrics) = (CancellationToken::new(), Registry::new());
        let phase = Phase::new("listeners", &failed);
        let (started, mut generations) = tokio::sync::mpsc::channel(2);
        let mut generation = 0;
        phase.supervise("clumsy", &metrics, move |tasks| {
            generation += 1;
            let (started, generation) = (started.clone(), generation);
            async move {
                started.send(generation).await.unwrap();
                assert_ne!(generation, 1, "the first one meets a bug");
                tasks.stop().cancelled().await;
            }
        });
        assert_eq!((generations.recv().await, generations.recv().await), (Some(1), Some(2)));
        let mut page = String::new();
        metrics.render(&mut page);
        assert!(page.contains("kstore_component_restarts_total{component=\"clumsy\"} 1\n"), "{page}");
        assert!(!failed.is_cancelled());
        phase.end(Some(Instant::now() + Duration::from_secs(2))).await;
        assert!(generations.recv().await.is_none(), "the task is gone");
    }

    #[tokio::test]
    async fn a_task_that_ends_before_the_stop_signal_is_a_failure() {
        let failed = CancellationToken::new();
        let phase = Phase::new("loops", &failed);
        phase.spawn("brief", async {});
        failed.cancelled().await;
    }
}
