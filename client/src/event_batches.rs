//! [`EventBatches`]: creates events; those that arrive during a call go together into the next one. The
//! recorder decides which events to write, when, and whether to retry.

use crate::limits::EVENT_BATCH;
use crate::{ApiError, Client, Transaction, TransactionError};
use k8s_openapi::api::core::v1::Event as CoreEvent;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Creates events through one client. Clones share the queue. The callers bound its length: each waits for
/// its event.
#[derive(Clone)]
pub(crate) struct EventBatches {
    client: Client,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    pending: Vec<PendingEvent>,
    /// Whether a task creates the waiting events.
    is_served: bool,
}

/// An event to create, with the channel for the result.
struct PendingEvent {
    ns: String,
    event: CoreEvent,
    done: oneshot::Sender<Result<(), ApiError>>,
}

impl EventBatches {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), queue: Arc::default() }
    }

    /// Creates an event, in one transaction with others that wait. The transaction names no causes: its
    /// events have none in common, and traces do not show events.
    ///
    /// # Errors
    ///
    /// The errors of creating this event alone, or of the call.
    pub(crate) async fn create(&self, ns: &str, event: CoreEvent) -> Result<(), ApiError> {
        let (done, created) = oneshot::channel();
        let is_served = {
            let mut queue = self.queue.lock();
            queue.pending.push(PendingEvent { ns: ns.to_owned(), event, done });
            std::mem::replace(&mut queue.is_served, true)
        };
        if !is_served {
            // In a task of its own: a caller that is dropped must not cancel the call for other callers.
            tokio::spawn(self.clone().serve());
        }
        created.await.unwrap_or_else(|_| Err(ApiError::timeout()))
    }

    async fn serve(self) {
        let mut guard = ServeGuard { queue: Arc::clone(&self.queue), is_over: false };
        while let Some(batch) = self.next() {
            self.send(batch).await;
        }
        guard.is_over = true;
    }

    /// The events of the next transaction; `None` if none wait. The next caller starts another task then.
    fn next(&self) -> Option<Vec<PendingEvent>> {
        let mut queue = self.queue.lock();
        // Drops events whose caller no longer waits.
        queue.pending.retain(|waiting| !waiting.done.is_closed());
        let count = queue.pending.len().min(EVENT_BATCH);
        queue.is_served = count > 0;
        (count > 0).then(|| queue.pending.drain(..count).collect())
    }

    async fn send(&self, mut batch: Vec<PendingEvent>) {
        while batch.len() > 1 {
            let Err(refused) = self.create_together(&batch).await else {
                return answer(batch, &Ok(()));
            };
            match closed_namespace(&batch, &refused) {
                Some(ns) => {
                    let (lost, rest) = batch.into_iter().partition::<Vec<_>, _>(|pending| pending.ns == ns);
                    answer(lost, &Err(refused.error));
                    batch = rest;
                }
                None if refused.operation.is_none() => return answer(batch, &Err(refused.error)),
                None => break,
            }
        }
        for pending in batch {
            let outcome = self.create_alone(&pending.ns, &pending.event).await;
            answer(vec![pending], &outcome);
        }
    }

    /// Creates all events, or none and returns the refusal.
    async fn create_together(&self, batch: &[PendingEvent]) -> Result<(), TransactionError> {
        let transaction = batch
            .iter()
            .fold(Transaction::new(&self.client), |transaction, PendingEvent { ns, event, .. }| {
                transaction.create(ns, event)
            });
        transaction.commit().await.map(drop)
    }

    async fn create_alone(&self, ns: &str, event: &CoreEvent) -> Result<(), ApiError> {
        self.client.api::<CoreEvent>().create(ns, event).await.map(drop)
    }
}

/// The namespace of the refused event if it accepts no events, because it is terminating or gone: the server would
/// refuse its other events for the same reason.
fn closed_namespace(batch: &[PendingEvent], refused: &TransactionError) -> Option<String> {
    let details = refused.error.status().and_then(|status| status.details.as_ref());
    let is_gone = refused.error.is_not_found() && details.is_some_and(|details| details.kind == "namespaces");
    let pending = batch.get(refused.operation?)?;
    (is_gone || refused.error.is_namespace_terminating()).then(|| pending.ns.clone())
}

fn answer(batch: Vec<PendingEvent>, outcome: &Result<(), ApiError>) {
    for pending in batch {
        // The caller may no longer wait.
        let _ = pending.done.send(outcome.clone());
    }
}

/// Guards the task that creates waiting events. If the task is dropped early, its callers get an error and
/// the next caller starts another task.
struct ServeGuard {
    queue: Arc<Mutex<Queue>>,
    is_over: bool,
}

impl Drop for ServeGuard {
    fn drop(&mut self) {
        if !self.is_over {
            let dropped = std::mem::take(&mut *self.queue.lock());
            drop(dropped);
        }
    }
}
