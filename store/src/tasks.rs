//! The store's tasks, which live as long as it does although the runtime that had them may end before: whoever uses the store
//! next brings another. Not what the tasks do (see `lease::expire` and `release`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;

/// The tasks of one store.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// Ends leases.
    pub(crate) expiry: Task,
    /// Takes memory back.
    pub(crate) release: Task,
}

/// A task that is started again when its runtime is gone.
#[derive(Debug, Default)]
pub(crate) struct Task {
    running: Arc<AtomicBool>,
}

impl Task {
    /// Starts the task unless it runs or there is no runtime here. Costs one look at a flag if it runs.
    pub(crate) fn keep<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce() -> F) {
        if self.running.load(Ordering::Acquire) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let running = Running(self.running.clone());
        let task = task();
        runtime.spawn(async move {
            let _running = running;
            task.await;
        });
    }
}

/// Runs, until it is dropped: with its runtime, if that ends first.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
