//! [`Feed`]: turns the changes of one informer into keys for the work queue, and signals when the initial
//! state is queued.
//!
//! A feed reads every change and merges none. A run can see a state in the cache before the feed reads the
//! change. Example: an object appears and disappears again, or briefly has another owner. Merging would
//! cancel such changes out, and the controller would never re-examine the conclusion that a run drew from
//! that state. The queue merges equal keys.

use super::Controller;
use super::metrics::ControllerMetrics;
use crate::any_object::AnyObject;
use crate::limits::{FEED_CHANGES, INITIAL_PRIORITY, SYNC_WARNING};
use crate::shared::Shared;
use crate::subscription::Reader;
use crate::{
    Add, Causes, Delivery, Delta, Informer, Key, NotSynced, Object, Overflow, Priority, Queue, Revisions,
    Status, TaskGroup, status,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Delivery of feeds: every change. The source may wait for feeds, because feeds wait for nothing.
const EVERY_CHANGE: Delivery = Delivery::Lossless { capacity: FEED_CHANGES, overflow: Overflow::SlowSource };

/// One watched informer before the controller runs.
pub(super) struct Feed {
    informer: String,
    revisions: Revisions,
    status: Box<dyn Fn() -> Status + Send + Sync>,
    pump: Pump,
}

/// Future that feeds the queue and signals when the initial state is queued.
type Pump = Box<
    dyn FnOnce(Queue<Key>, Arc<ControllerMetrics>, oneshot::Sender<()>) -> BoxFuture<'static, ()>
        + Send
        + Sync,
>;

/// The keys of a change. Controllers map changes of some forty types by about a hundred functions; the code around them exists once.
type Keys = Box<dyn Fn(Delta<dyn AnyObject>) -> Vec<Key> + Send + Sync>;

impl Feed {
    pub(super) fn new<T, I>(
        informer: &Informer<T>,
        keys: impl Fn(&Delta<T>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        I: IntoIterator<Item = Key> + 'static,
    {
        let keys = move |delta: Delta<dyn AnyObject>| keys(&delta.typed()).into_iter().collect();
        Self::mapped_by(informer.shared(), informer.guard(), Box::new(keys))
    }

    fn mapped_by(informer: &Arc<Shared>, guard: &Arc<DropGuard>, keys: Keys) -> Self {
        let (read, source) = ((informer.clone(), guard.clone()), (informer.clone(), guard.clone()));
        Self {
            informer: informer.name.clone(),
            revisions: informer.revisions.clone(),
            status: Box::new(move || {
                let (informer, _) = &source;
                informer.status()
            }),
            // Subscribes when the pump starts: an earlier subscription would fill up without a reader.
            pump: Box::new(move |queue, metrics, first| {
                let queue = KeyQueue { queue, metrics };
                let (informer, guard) = read;
                pump(Reader::new(informer, EVERY_CHANGE), guard, queue, first, keys).boxed()
            }),
        }
    }

    /// Starts the task that feeds the queue; returns the initial sync that the workers wait for.
    pub(super) fn start(
        self,
        controller: &Controller,
        stop: &CancellationToken,
        tasks: &TaskGroup,
    ) -> InitialSync {
        let (first, opened) = oneshot::channel();
        let (queue, metrics, stop) = (controller.queue.clone(), controller.metrics.clone(), stop.clone());
        let (name, informer) = (controller.name.clone(), self.informer.clone());
        tasks.spawn(async move {
            if stop.run_until_cancelled((self.pump)(queue, metrics, first)).await.is_some()
                && !stop.is_cancelled()
            {
                tracing::warn!(controller = %name, informer, "the informer has stopped");
            }
        });
        InitialSync { informer: self.informer, status: self.status, opened }
    }
}

/// Whether all feeds share one history, so that a revision of one informer can be compared with another.
pub(super) fn are_comparable(feeds: &[Feed]) -> bool {
    let mut revisions = feeds.iter().map(|feed| &feed.revisions);
    match revisions.next() {
        Some(first @ Revisions::Shared(_)) => revisions.all(|other| other == first),
        Some(Revisions::Own | Revisions::Opaque) | None => false,
    }
}

/// Waits until the initial state of one informer is queued.
pub(super) struct InitialSync {
    informer: String,
    status: Box<dyn Fn() -> Status + Send + Sync>,
    opened: oneshot::Receiver<()>,
}

/// Waits for the initial sync of all informers. The time limit starts now.
pub(super) async fn pass(
    controller: &str,
    gates: Vec<InitialSync>,
    limit: Option<Duration>,
) -> Result<(), NotSynced> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    for gate in gates {
        gate.pass(controller, deadline).await?;
    }
    Ok(())
}

impl InitialSync {
    async fn pass(mut self, controller: &str, deadline: Option<Instant>) -> Result<(), NotSynced> {
        loop {
            let warning = Instant::now() + SYNC_WARNING;
            let until = deadline.map_or(warning, |deadline| deadline.min(warning));
            match timeout_at(until, &mut self.opened).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(_)) => return Err(self.failure()),
                Err(_) if deadline.is_some_and(|deadline| deadline <= until) => return Err(self.failure()),
                Err(_) => {
                    let (informer, status) = (&self.informer, (self.status)());
                    let why = status::describe(&status);
                    tracing::warn!(controller, informer, why, "still waiting for the cache to sync");
                }
            }
        }
    }

    fn failure(&self) -> NotSynced {
        NotSynced { informer: self.informer.clone(), status: (self.status)() }
    }
}

/// The work queue, as changes of all types feed it.
struct KeyQueue {
    queue: Queue<Key>,
    metrics: Arc<ControllerMetrics>,
}

impl KeyQueue {
    /// Queues the keys of one change, or none if the mapping function panicked: a panic affects only the one change.
    fn add(&self, keys: std::thread::Result<Vec<Key>>, changed: &dyn Object, priority: Priority) {
        let Ok(keys) = keys else {
            self.metrics.feed_panicked();
            tracing::error!(object = %changed.key(), "mapping a change to keys panicked; no key is queued");
            return;
        };
        let causes = Causes::one(changed.revision());
        for key in keys {
            let span = tracing::debug_span!("queue", %key, %causes);
            let add = Add { priority, causes: causes.clone(), ..Add::default() };
            span.in_scope(|| self.queue.add_with(key, add));
        }
    }
}

/// Feeds the queue until the informer ends. `_guard` keeps the informer alive.
async fn pump(
    mut subscription: Reader,
    _guard: Arc<DropGuard>,
    queue: KeyQueue,
    first: oneshot::Sender<()>,
    keys: Keys,
) {
    let enqueue = |delta: Delta<dyn AnyObject>, priority| {
        let object = delta.object().clone();
        let keys = catch_unwind(AssertUnwindSafe(|| keys(delta)));
        queue.add(keys, &*object, priority);
    };
    if subscription.shared.synced().await.is_err() {
        return;
    }
    for delta in subscription.take().0 {
        enqueue(delta, INITIAL_PRIORITY);
    }
    // The receiver is gone if the controller has stopped.
    let _ = first.send(());
    while let Some(deltas) = subscription.next().await {
        for delta in deltas {
            enqueue(delta, Priority::default());
        }
    }
}
