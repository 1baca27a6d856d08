//! The store's background tasks in tokio. If the runtime that runs them ends before the store, the next operation
//! starts them in its own runtime. `expire` and `release` have the tasks' work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;

/// The tokio tasks of one store.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// Revokes expired leases.
    pub(crate) expiry: Task,
    /// Releases memory after a burst of writes.
    pub(crate) release: Task,
}

/// A task that is started again when its runtime is gone.
#[derive(Debug, Default)]
pub(crate) struct Task {
    running: Arc<AtomicBool>,
}

impl Task {
    /// Starts the task unless it runs, or the caller is outside a runtime. If it runs, the cost is one atomic load.
    pub(crate) fn keep<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce() -> F) {
        if self.running.load(Ordering::Acquire) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let running = RunningGuard(self.running.clone());
        let task = task();
        runtime.spawn(async move {
            let _running = running;
            task.await;
        });
    }
}

/// Guard that marks a task as running. The runtime drops it when it ends.
struct RunningGuard(Arc<AtomicBool>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
