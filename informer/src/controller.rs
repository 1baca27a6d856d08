//! [`Controller`]: informers, a queue and workers around one function that brings one key's world into its wanted state. This file
//! is what its users choose and how it starts and ends; `feed` turns changes into keys, `worker` runs the function.

mod context;
mod failure;
mod feed;
mod fence;
mod figures;
#[cfg(test)]
mod tests;
mod worker;
mod written;

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    Delta, Environment, Informer, Key, NotSynced, Object, Queue, QueueOptions, TaskGroup,
    limits::{DEFAULT_WORKERS, STOP_GRACE, SYNC_TIMEOUT},
    metrics::Registry,
};
pub use context::Context;
pub use failure::{Failure, IntoFailure};
use feed::Feed;
use fence::Unseen;
use figures::Figures;
use worker::Worker;

/// What a successful run wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing until something changes.
    Done,
    /// Another run after this time, or when something changes.
    Again(Duration),
}

/// Runs a function for every key that something happened to, one run per key at a time.
///
/// Workers start when every watched cache has its first state and all of it is queued. A run that fails, panics, takes too
/// long or is cancelled is repeated after a back-off of its key, or at once when something that concerns the key changes.
/// What the caches show at the start is worked off after what changes, but not only when nothing changes any more.
///
/// Each run is in a tracing span `run` with controller, key, attempt, causes, the newest revision among them, and at its
/// end the result and how long it took.
///
/// # Standby
/// Informers and controllers have separate lives. A candidate for leadership starts its informers at once, and makes and runs
/// its controllers while it leads; so it takes over with warm caches, and its queues hold nothing from before:
/// ```
/// # use kstore_informer::{Action, Controller, Elector, Informer, LeaseStore, Object};
/// # async fn standby<S: LeaseStore, T: Object>(
/// #     elector: Elector<S>, pods: Informer<T>, nondet: kstore_nondet::Nondet,
/// #     stop: tokio_util::sync::CancellationToken,
/// # ) {
/// elector
///     .run(stop, |leadership| {
///         let controller = Controller::new("pods", &nondet).watch(&pods, |pod| Some(pod.key()));
///         async move {
///             let result = controller.run(leadership.lost().clone(), |cx| async move {
///                 println!("{}", cx.key);
///                 Ok::<_, std::io::Error>(Action::Done)
///             });
///             if let Err(error) = result.await {
///                 eprintln!("gives up the lease: {error}");
///             }
///         }
///     })
///     .await;
/// # }
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
    figures: Arc<Figures>,
    unseen: Unseen,
}

impl Controller {
    /// A controller that watches nothing yet.
    pub fn new(name: &str, environment: impl Into<Environment>) -> Self {
        Self::with(name, QueueOptions::default(), environment)
    }

    /// A controller whose queue has these options. The queue's name is the controller's if the options give none.
    pub fn with(name: &str, mut options: QueueOptions<Key>, environment: impl Into<Environment>) -> Self {
        let name: Arc<str> = name.into();
        if options.name.is_empty() {
            options.name = name.clone();
        }
        Self {
            queue: Queue::with(options, environment.into().into_nondet().rng.fork(&name)),
            feeds: Vec::new(),
            workers: DEFAULT_WORKERS,
            timeout: None,
            sync_timeout: Some(SYNC_TIMEOUT),
            grace: STOP_GRACE,
            drain: None,
            figures: Arc::new(Figures::new(name.clone())),
            unseen: Unseen::default(),
            name,
        }
    }

    /// Queues the keys that `keys` gives for each object that comes, changes or goes; for a change it is asked about the
    /// old and the new state, so that both owners of an object that moved are told.
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

    /// Like [`Controller::watch`], with the whole change, so that uninteresting ones can give no key.
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

    /// How many keys may run at once; [`DEFAULT_WORKERS`] if nothing is said.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Drops a run that takes longer than this, and counts it as failed. Without it a run may take for ever.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long the watched caches may take to get their first state before [`Controller::run`] fails. `None`: it waits for
    /// ever, and says so from time to time. [`SYNC_TIMEOUT`] if nothing is said.
    #[must_use]
    pub fn sync_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// How long runs under way may take to end after the stop, before they are dropped; [`STOP_GRACE`] if nothing is said.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Works off what is queued at the stop, for at most this long; the grace for runs under way begins then. Without it what
    /// is queued is forgotten, which loses nothing that the next start would not find.
    #[must_use]
    pub fn drain(mut self, deadline: Duration) -> Self {
        self.drain = Some(deadline);
        self
    }

    /// Shows the figures of this controller and its queue in `registry`, as long as it runs.
    #[must_use]
    pub fn metrics(self, registry: &Registry) -> Self {
        let figures = Arc::downgrade(&self.figures);
        registry.add(figures);
        self.queue.show_in(registry);
        self
    }

    /// The queue, for triggers that no informer sees.
    pub fn queue(&self) -> Queue<Key> {
        self.queue.clone()
    }

    /// Runs until `stop` is cancelled. All tasks have ended when this returns; if it is dropped, they end by themselves and
    /// runs under way are dropped.
    ///
    /// An error of `reconcile` makes the key run again after its back-off; with [`Failure`] it can say something else.
    ///
    /// # Errors
    /// When a watched cache does not get its first state, in time or at all. No run has begun then.
    ///
    /// # Panics
    /// When one of its own tasks panics, after the others have ended. A panic of `reconcile` is not one: its run is repeated.
    pub async fn run<F, Fut, E>(mut self, stop: CancellationToken, reconcile: F) -> Result<(), NotSynced>
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: IntoFailure + Send + 'static,
    {
        let tasks = TaskGroup::new(&stop);
        let end =
            End { queue: self.queue.clone(), dropped: CancellationToken::new(), fed: stop.child_token() };
        let comparable = feed::are_comparable(&self.feeds);
        let feeds = std::mem::take(&mut self.feeds);
        let gates: Vec<_> = feeds.into_iter().map(|feed| feed.start(&self, &end.fed, &tasks)).collect();
        self.figures.workers(self.workers);
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
        // A stop that comes together with the end of an informer is a stop.
        if stop.is_cancelled() { Ok(()) } else { started.unwrap_or(Ok(())) }
    }

    async fn finish(&self, end: End, tasks: &TaskGroup) {
        end.fed.cancel();
        if let Some(deadline) = self.drain {
            let left = self.queue.drain(deadline).await;
            if !left.is_empty() {
                tracing::info!(controller = %self.name, left = left.len(), "stops with keys left");
            }
        }
        self.queue.close();
        if timeout(self.grace, tasks.wait()).await.is_err() {
            end.dropped.cancel();
            tasks.wait().await;
        }
    }
}

/// Ends everything when it is dropped.
struct End {
    queue: Queue<Key>,
    /// Drops runs under way.
    dropped: CancellationToken,
    /// Ends the feeds.
    fed: CancellationToken,
}

impl Drop for End {
    fn drop(&mut self) {
        self.queue.close();
        self.fed.cancel();
        self.dropped.cancel();
    }
}
