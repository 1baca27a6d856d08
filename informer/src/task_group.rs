//! [`TaskGroup`]: tasks that end together, also when one of them panics. It restarts nothing: the supervisor
//! does.

use futures::FutureExt;
use parking_lot::Mutex;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Tasks that end together. A panic of one task cancels [`TaskGroup::stop`], so that no task continues
/// without the failed one. Clones are the same group.
#[derive(Clone)]
pub struct TaskGroup {
    stop: CancellationToken,
    /// Drops tasks that do not end by themselves.
    dropped: CancellationToken,
    tasks: TaskTracker,
    /// The payload of the first panic.
    panic: Arc<Mutex<Option<Payload>>>,
}

impl TaskGroup {
    /// An empty group, which stops when `stop` is cancelled or a task panics.
    pub fn new(stop: &CancellationToken) -> Self {
        Self {
            stop: stop.child_token(),
            dropped: CancellationToken::new(),
            tasks: TaskTracker::new(),
            panic: Arc::default(),
        }
    }

    /// The stop signal that each task of the group must watch.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Spawns a task of the group on the current runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Boxed: each of the layers below reserves space for the future that it wraps, often twice, so an
        // unboxed task would take some eight times its own size for as long as it runs.
        self.spawn_boxed(Box::pin(task));
    }

    fn spawn_boxed(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let group = self.clone();
        self.tasks.spawn(async move {
            let task = AssertUnwindSafe(task).catch_unwind();
            if let Some(Err(payload)) = group.dropped.run_until_cancelled(task).await {
                group.panicked(payload);
            }
        });
    }

    /// Stops the group after a panic. The first panic is kept as the cause; later ones may be its
    /// consequences.
    pub(crate) fn panicked(&self, payload: Payload) {
        self.panic.lock().get_or_insert(payload);
        self.stop.cancel();
    }

    /// Takes the payload of the first panic, if a task panicked.
    pub(crate) fn take_panic(&self) -> Option<Payload> {
        self.panic.lock().take()
    }

    /// Resumes the first panic of a task in the caller.
    pub(crate) fn resume_panic(&self) {
        if let Some(payload) = self.take_panic() {
            resume_unwind(payload);
        }
    }

    /// Waits until all tasks have ended, without stopping them.
    pub(crate) async fn wait(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Drops the tasks that have not ended, and waits until they are gone.
    pub(crate) async fn drop_tasks(&self) {
        self.dropped.cancel();
        self.wait().await;
    }
}

/// The text of a panic payload.
pub(crate) fn message(payload: &Payload) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}
