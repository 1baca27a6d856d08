//! [`Controller`]: informers, a queue and workers around one function that brings one key's world into its wanted state.

#[cfg(test)]
mod tests;

use std::{fmt::Display, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture, future::join_all};
use kstore_nondet::Nondet;
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use crate::{
    Causes, Delta, Informer, Key, Lease, Object, Queue, Revision,
    limits::{DEFAULT_WORKERS, OWN_WRITE_DEADLINE, SYNC_WARNING},
    subscription::Subscription,
};

/// What a successful run wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing until something changes.
    Done,
    /// Another run after this time, or when something changes.
    Again(Duration),
}

/// One run: for which key, and why.
#[derive(Clone)]
pub struct Context {
    /// The key to bring into its wanted state.
    pub key: Key,
    /// What led to this run. Writes should carry it.
    pub causes: Causes,
    /// Failed runs of this key since its last success.
    pub attempt: u32,
    fences: Arc<Mutex<Vec<Fence>>>,
}

impl Context {
    /// A context outside of a controller, for tests of a reconcile function.
    pub fn detached(key: Key, causes: Causes) -> Self {
        Self { key, causes, attempt: 0, fences: Arc::default() }
    }

    /// Says that this run wrote `revision` of a kind that `informer` caches: the key runs again only when that cache shows
    /// the write, so that the next run does not repeat it. After [`OWN_WRITE_DEADLINE`] it runs anyway.
    pub fn wrote<T: Object>(&self, informer: &Informer<T>, revision: Revision) {
        if informer.shared().has(revision) {
            return;
        }
        let shared = informer.shared().clone();
        let reached = async move {
            // A stopped informer will never show it; then there is nothing to wait for.
            let _ = shared.wait_for(revision).await;
        };
        self.fences.lock().push(reached.boxed());
    }
}

/// Resolves when a cache shows a write.
type Fence = BoxFuture<'static, ()>;

/// Starts a task that feeds the queue and says when the first state is in it.
type Pump = Box<dyn FnOnce(Queue<Key>, oneshot::Sender<()>) -> BoxFuture<'static, ()> + Send>;

/// Runs a function for every key that something happened to, one run per key at a time.
///
/// Workers start when every watched cache has its first state and all of it is queued. A run that fails, panics or is
/// cancelled is repeated after a back-off of its key. Each run is in a tracing span `run` with controller, key, attempt
/// and causes.
pub struct Controller {
    name: String,
    queue: Queue<Key>,
    workers: usize,
    watched: Vec<(String, Pump)>,
}

impl Controller {
    /// A controller that watches nothing yet.
    pub fn new(name: &str, nondet: &Nondet) -> Self {
        let queue = Queue::new(nondet.rng.fork(name));
        Self { name: name.to_owned(), queue, workers: DEFAULT_WORKERS, watched: Vec::new() }
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
                all.extend(keys(old));
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
        let subscription = informer.subscribe();
        let pump: Pump = Box::new(move |queue, first| pump(subscription, queue, first, keys).boxed());
        self.watched.push((informer.name().to_owned(), pump));
        self
    }

    /// How many keys may run at once.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// The queue, for triggers that no informer sees.
    pub fn queue(&self) -> Queue<Key> {
        self.queue.clone()
    }

    /// Runs until `stop` is cancelled. Then runs under way are dropped at their next await, and all tasks have ended when
    /// this returns.
    pub async fn run<F, Fut, E>(self, stop: CancellationToken, reconcile: F)
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        // Also when this future is dropped, nothing goes on.
        let stop = stop.child_token();
        let _guard = stop.clone().drop_guard();
        let tasks = TaskTracker::new();
        let mut first_states = Vec::new();
        for (informer, pump) in self.watched {
            let (sender, receiver) = oneshot::channel();
            let pump = pump(self.queue.clone(), sender);
            tasks.spawn(stop.clone().run_until_cancelled_owned(pump));
            first_states.push((informer, receiver));
        }
        let worker = Arc::new(Worker {
            name: self.name,
            queue: self.queue,
            stop: stop.clone(),
            tasks: tasks.clone(),
            reconcile,
        });
        if stop.run_until_cancelled(worker.gate(first_states)).await.is_some() {
            for _ in 0..self.workers {
                tasks.spawn(worker.clone().work());
            }
            stop.cancelled().await;
        }
        worker.queue.close();
        tasks.close();
        tasks.wait().await;
    }
}

async fn pump<T, I>(
    mut subscription: Subscription<T>,
    queue: Queue<Key>,
    first: oneshot::Sender<()>,
    keys: impl Fn(&Delta<T>) -> I + Send + Sync,
) where
    T: Object,
    I: IntoIterator<Item = Key> + 'static,
{
    let enqueue = |delta: &Delta<T>| {
        let causes = Causes::one(delta.object().revision());
        for key in keys(delta) {
            let span = tracing::debug_span!("queue", %key, %causes);
            span.in_scope(|| queue.add(key, causes.clone()));
        }
    };
    if subscription.informer().synced().await.is_err() {
        return;
    }
    subscription.try_next().iter().for_each(enqueue);
    // Nobody listens any more if the controller stopped meanwhile.
    let _ = first.send(());
    while let Some(deltas) = subscription.next().await {
        deltas.iter().for_each(enqueue);
    }
}

struct Worker<F> {
    name: String,
    queue: Queue<Key>,
    stop: CancellationToken,
    tasks: TaskTracker,
    reconcile: F,
}

impl<F, Fut, E> Worker<F>
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send + 'static,
    E: Display + Send + 'static,
{
    /// Waits until the first state of every cache is queued.
    async fn gate(&self, first_states: Vec<(String, oneshot::Receiver<()>)>) {
        for (informer, mut first) in first_states {
            while timeout(SYNC_WARNING, &mut first).await.is_err() {
                tracing::warn!(controller = self.name, informer, "still waiting for the first state");
            }
        }
    }

    async fn work(self: Arc<Self>) {
        while let Some(Some(lease)) = self.stop.run_until_cancelled(self.queue.next()).await {
            let fences: Arc<Mutex<Vec<Fence>>> = Arc::default();
            let Some(outcome) = self.stop.run_until_cancelled(self.run_once(&lease, fences.clone())).await
            else {
                return;
            };
            let fences = std::mem::take(&mut *fences.lock());
            if fences.is_empty() {
                outcome.conclude(lease);
                continue;
            }
            // The lease stays open until the caches show the writes: what comes meanwhile waits with it, and the worker
            // is free for other keys.
            let wait = async move {
                let _ = timeout(OWN_WRITE_DEADLINE, join_all(fences)).await;
                outcome.conclude(lease);
            };
            self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(wait));
        }
    }

    async fn run_once(&self, lease: &Lease<Key>, fences: Arc<Mutex<Vec<Fence>>>) -> Outcome {
        let (key, causes, attempt) = (lease.key().clone(), lease.causes().clone(), lease.attempt());
        let span = tracing::info_span!("run", controller = self.name, %key, attempt, %causes);
        let context = Context { key, causes, attempt, fences };
        let run = async { AssertUnwindSafe((self.reconcile)(context)).catch_unwind().await };
        async {
            match run.await {
                Ok(Ok(Action::Done)) => Outcome::Done,
                Ok(Ok(Action::Again(delay))) => Outcome::Again(delay),
                Ok(Err(error)) => {
                    match attempt {
                        0..5 => tracing::debug!(%error, "failed; will be retried"),
                        _ => tracing::warn!(%error, "keeps failing; will be retried"),
                    }
                    Outcome::Retry
                }
                Err(_) => {
                    tracing::error!("panicked; will be retried");
                    Outcome::Retry
                }
            }
        }
        .instrument(span)
        .await
    }
}

enum Outcome {
    Done,
    Again(Duration),
    Retry,
}

impl Outcome {
    fn conclude(self, lease: Lease<Key>) {
        match self {
            Self::Done => lease.done(),
            Self::Again(delay) => lease.again_in(delay),
            Self::Retry => lease.retry(),
        }
    }
}
