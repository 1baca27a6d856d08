//! [`Controller`]: informers, a work queue and workers around one reconcile function. This file has the
//! builder methods, the start and the shutdown. `feed` turns changes into keys, `worker` runs the function.

mod context;
mod failure;
mod feed;
mod metrics;
mod own_writes;
#[cfg(test)]
mod tests;
mod worker;

use crate::limits::{DEFAULT_WORKERS, STOP_GRACE, SYNC_TIMEOUT};
use crate::metrics::Registry;
use crate::{Delta, Environment, Informer, Key, NotSynced, Object, Queue, QueueOptions, TaskGroup};
pub use context::Context;
pub use failure::{Failure, IntoFailure};
use feed::Feed;
use metrics::ControllerMetrics;
use own_writes::PendingWrites;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use worker::{Reconcile, Worker};

/// When a successful run wants to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run again only after a change.
    Done,
    /// Run again after this time, or earlier after a change.
    Again(Duration),
}

/// Runs a reconcile function for every changed key, at most one run per key at a time.
///
/// Workers start when every watched cache has synced and all its objects are queued. A run that fails,
/// panics, times out or is cancelled is repeated after the back-off of its key, or at once when a change
/// queues the key. Keys of the initial state have a lower priority than keys of later changes; the queue ages
/// them, so that later changes cannot starve them.
///
/// Each run has a tracing span `run` with the controller, key, attempt, causes and the newest causing
/// revision. Its end records the result and the duration.
///
/// # Standby
/// Informers and controllers have separate lifetimes. A candidate for leadership starts its informers at once
/// and runs its controllers only while it leads. It then takes over with warm caches and empty queues:
///
/// ```
/// # use kstore_informer::{Action, Controller, Elector, Environment, Informer, Key, LeaseStore, Object};
/// # use tokio_util::sync::CancellationToken;
/// async fn candidate<S: LeaseStore, T: Object>(store: S, cache: Informer<T>, stop: CancellationToken) {
///     let elector = Elector::new(store, "me", Environment::real());
///     let work = |leadership: kstore_informer::Leadership| {
///         let controller = Controller::new("widgets", Environment::real()).watch(&cache, |one| [one.key()]);
///         async move {
///             let reconcile = |_| async { Ok::<_, std::io::Error>(Action::Done) };
///             let _ = controller.run(leadership.lost().clone(), reconcile).await;
///         }
///     };
///     elector.run(stop, work).await;
/// }
/// ```
pub struct Controller {
    name: Arc<str>,
    queue: Queue<Key>,
    feeds: Vec<Feed>,
    workers: usize,
    timeout: Option<Duration>,
    sync_timeout: Option<Duration>,
    grace: Duration,
    drain: Option<Duration>,
    metrics: Arc<ControllerMetrics>,
    pending_writes: PendingWrites,
}

impl Controller {
    /// A controller that watches nothing yet.
    pub fn new(name: &str, environment: impl Into<Environment>) -> Self {
        Self::with(name, QueueOptions::default(), environment)
    }

    /// A controller with these queue options. The queue gets the controller's name if the options name none.
    pub fn with(name: &str, mut options: QueueOptions<Key>, environment: impl Into<Environment>) -> Self {
        let name: Arc<str> = name.into();
        if options.name.is_empty() {
            options.name = name.clone();
        }
        let queue = Queue::with(options, environment.into().into_nondet().rng.fork(&name));
        Self {
            pending_writes: PendingWrites::new(&queue),
            queue,
            feeds: Vec::new(),
            workers: DEFAULT_WORKERS,
            timeout: None,
            sync_timeout: Some(SYNC_TIMEOUT),
            grace: STOP_GRACE,
            drain: None,
            metrics: Arc::new(ControllerMetrics::new(name.clone())),
            name,
        }
    }

    /// Queues the keys that `keys` returns for each added, changed or deleted object. For a change, `keys`
    /// maps both the old and the new state, so that both owners of a moved object run.
    #[must_use]
    pub fn watch<T, I>(self, informer: &Informer<T>, keys: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        T: Object,
        I: IntoIterator<Item = Key> + 'static,
    {
        self.watch_deltas(informer, move |delta| {
            let mut all: Vec<Key> = keys(delta.object()).into_iter().collect();
            if let Delta::Updated { old, .. } = delta {
                let before = keys(old).into_iter().filter(|key| !all.contains(key)).collect::<Vec<_>>();
                all.extend(before);
            }
            all
        })
    }

    /// Like [`Controller::watch`], but maps the whole delta, so that `keys` can ignore changes by returning
    /// no key.
    #[must_use]
    pub fn watch_deltas<T, I>(
        mut self,
        informer: &Informer<T>,
        keys: impl Fn(&Delta<T>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        I: IntoIterator<Item = Key> + 'static,
    {
        self.feeds.push(Feed::new(informer, keys));
        self
    }

    /// Number of keys that may run at once; the default is [`DEFAULT_WORKERS`].
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Time limit of a run: a longer run is dropped and counts as failed. By default there is no limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Time limit for the initial sync of the watched caches, after which [`Controller::run`] fails. The
    /// default is [`SYNC_TIMEOUT`]. With `None` the controller waits without limit and logs a warning from
    /// time to time.
    #[must_use]
    pub fn sync_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// Time that active runs have to finish after the stop before they are dropped; the default is
    /// [`STOP_GRACE`].
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Processes the queued keys after the stop, for at most `deadline`; the grace for active runs starts
    /// afterwards. By default queued keys are dropped, which loses nothing: the next start lists all objects.
    #[must_use]
    pub fn drain(mut self, deadline: Duration) -> Self {
        self.drain = Some(deadline);
        self
    }

    /// Exposes the metrics of this controller and its queue in `registry`, until the controller ends.
    #[must_use]
    pub fn metrics(self, registry: &Registry) -> Self {
        let metrics = Arc::downgrade(&self.metrics);
        registry.add(metrics);
        self.queue.show_in(registry);
        self
    }

    /// The work queue, for triggers that come from no informer.
    pub fn queue(&self) -> Queue<Key> {
        self.queue.clone()
    }

    /// Runs the controller until `stop` is cancelled. All its tasks have ended when this future returns. If
    /// the future is dropped, the tasks end by themselves and active runs are dropped.
    ///
    /// After an error of `reconcile` the key runs again with back-off; a [`Failure`] can choose another delay
    /// or no retry.
    ///
    /// # Errors
    /// When a watched cache does not sync in time or its informer ends. No run has started then.
    ///
    /// # Panics
    /// When a task of the controller itself panics, after the others have ended. A panic of `reconcile` only
    /// repeats its run.
    pub fn run<F, Fut, E>(
        self,
        stop: CancellationToken,
        reconcile: F,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSynced>> + Send>>
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: IntoFailure<Error: Send + 'static> + Send + 'static,
    {
        self.run_boxed(stop, Reconcile::new(reconcile))
    }

    // Boxed, so that the future's code is generated in this crate, once, and not in every crate with controllers.
    fn run_boxed(
        self,
        stop: CancellationToken,
        reconcile: Reconcile,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSynced>> + Send>> {
        Box::pin(self.work(stop, reconcile))
    }

    async fn work(mut self, stop: CancellationToken, reconcile: Reconcile) -> Result<(), NotSynced> {
        let tasks = TaskGroup::new(&stop);
        let end = ShutdownGuard {
            queue: self.queue.clone(),
            dropped: CancellationToken::new(),
            fed: stop.child_token(),
        };
        let comparable = feed::are_comparable(&self.feeds);
        let feeds = std::mem::take(&mut self.feeds);
        let gates: Vec<_> = feeds.into_iter().map(|feed| feed.start(&self, &end.fed, &tasks)).collect();
        self.metrics.workers(self.workers);
        let started =
            tasks.stop().run_until_cancelled(feed::pass(&self.name, gates, self.sync_timeout)).await;
        if let Some(Ok(())) = started {
            let worker = Arc::new(Worker::new(&self, end.dropped.clone(), comparable, reconcile));
            for _ in 0..self.workers {
                tasks.spawn(worker.clone().work());
            }
            tasks.stop().cancelled().await;
        }
        self.finish(end, &tasks).await;
        tasks.resume_panic();
        // A stop at the same time as the end of an informer counts as a stop.
        if stop.is_cancelled() { Ok(()) } else { started.unwrap_or(Ok(())) }
    }

    async fn finish(&self, end: ShutdownGuard, tasks: &TaskGroup) {
        end.fed.cancel();
        if let Some(deadline) = self.drain {
            let left = self.queue.drain(deadline).await;
            if !left.is_empty() {
                tracing::info!(controller = %self.name, left = left.len(), "stopped with keys in the queue");
            }
        }
        self.queue.close();
        if timeout(self.grace, tasks.wait()).await.is_err() {
            end.dropped.cancel();
            tasks.wait().await;
        }
    }
}

/// Drop guard that closes the queue, ends the feeds and drops active runs.
struct ShutdownGuard {
    queue: Queue<Key>,
    /// Cancels active runs.
    dropped: CancellationToken,
    /// Cancels the feeds.
    fed: CancellationToken,
}

impl Drop for ShutdownGuard {
    fn drop(&mut self) {
        self.queue.close();
        self.fed.cancel();
        self.dropped.cancel();
    }
}
