//! [`Feed`]: the changes of one informer, made into keys for the queue; and the gate that opens when all first states are queued.

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::Controller;
use crate::{
    Add, Causes, Delta, Informer, Key, NotSynced, Object, Priority, Queue, Revisions, Status, Subscription,
    limits::{INITIAL_PRIORITY, SYNC_WARNING},
    not_synced,
};

/// Everything about one informer, before the controller runs.
pub(super) struct Feed {
    informer: String,
    revisions: Revisions,
    status: Box<dyn Fn() -> Status + Send + Sync>,
    pump: Pump,
}

/// Feeds the queue, and says when the first state is in it.
type Pump = Box<dyn FnOnce(Queue<Key>, oneshot::Sender<()>) -> BoxFuture<'static, ()> + Send + Sync>;

impl Feed {
    pub(super) fn new<T, I>(
        informer: &Informer<T>,
        keys: impl Fn(&Delta<T>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Object,
        I: IntoIterator<Item = Key> + 'static,
    {
        let (subscription, source) = (informer.subscribe(), informer.clone());
        Self {
            informer: informer.name().to_owned(),
            revisions: informer.revisions(),
            status: Box::new(move || source.status()),
            pump: Box::new(move |queue, first| pump(subscription, queue, first, keys).boxed()),
        }
    }

    /// Starts the task that feeds the queue; gives back what the workers have to wait for.
    pub(super) fn start(
        self,
        controller: &Controller,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Gate {
        let (first, opened) = oneshot::channel();
        let (queue, stop) = (controller.queue.clone(), stop.clone());
        let (name, informer) = (controller.name.clone(), self.informer.clone());
        tasks.spawn(async move {
            if stop.run_until_cancelled((self.pump)(queue, first)).await.is_some() && !stop.is_cancelled() {
                tracing::warn!(controller = %name, informer, "the informer has ended");
            }
        });
        Gate { informer: self.informer, status: self.status, opened }
    }
}

/// Whether all of them tell of one history, so that what one of them caused can be looked for in another.
pub(super) fn are_comparable(feeds: &[Feed]) -> bool {
    let mut revisions = feeds.iter().map(|feed| &feed.revisions);
    match revisions.next() {
        Some(first @ Revisions::Shared(_)) => revisions.all(|other| other == first),
        Some(Revisions::Own | Revisions::Opaque) | None => false,
    }
}

/// Opens when the first state of one informer is queued.
pub(super) struct Gate {
    informer: String,
    status: Box<dyn Fn() -> Status + Send + Sync>,
    opened: oneshot::Receiver<()>,
}

/// Waits for all gates; the time begins now.
pub(super) async fn pass(
    controller: &str,
    gates: Vec<Gate>,
    limit: Option<Duration>,
) -> Result<(), NotSynced> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    for gate in gates {
        gate.pass(controller, deadline).await?;
    }
    Ok(())
}

impl Gate {
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
                    let why = not_synced::describe(&status);
                    tracing::warn!(controller, informer, why, "still waiting for the first state");
                }
            }
        }
    }

    fn failure(&self) -> NotSynced {
        NotSynced { informer: self.informer.clone(), status: (self.status)() }
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
    let enqueue = |delta: &Delta<T>, priority| {
        let causes = Causes::one(delta.object().revision());
        for key in keys(delta) {
            let span = tracing::debug_span!("queue", %key, %causes);
            let add =
                Add { priority, causes: causes.clone(), urgent: is_urgent(delta, &key), ..Add::default() };
            span.in_scope(|| queue.add_with(key, add));
        }
    };
    if subscription.informer().synced().await.is_err() {
        return;
    }
    for delta in subscription.try_next() {
        enqueue(&delta, INITIAL_PRIORITY);
    }
    // Nobody listens any more if the controller stopped meanwhile.
    let _ = first.send(());
    while let Some(deltas) = subscription.next().await {
        for delta in deltas {
            enqueue(&delta, Priority::default());
        }
    }
}

/// Whether a change is worth a run although the runs before failed: the key's own object is new or gone, or somebody wants
/// something else of it. Changes of others, and of what controllers write into its status, may well be what the failures made.
fn is_urgent<T: Object>(delta: &Delta<T>, key: &Key) -> bool {
    *key == delta.object().key()
        && match delta {
            Delta::Added(_) | Delta::Deleted(_) => true,
            Delta::Updated { old, new } => old.generation() != new.generation(),
            Delta::Resync(_) => false,
        }
}
