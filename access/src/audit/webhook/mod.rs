//! [`AuditSender`]: posts audit events to a server, as `audit.k8s.io/v1 EventList`. A list that the server
//! does not accept is retried with exponential backoff, and then dropped.

use super::backend::{Mode, QueuedEvent};
use super::batch::{self, Batching, TokenBucket, Truncation};
use crate::rate_limited::RateLimited;
use bytes::Bytes;
use futures::future::BoxFuture;
use kstore_nondet::Rng;
use kstore_registry::outbound::{NoAnswer, Remote, WebhookBackoff};
use kstore_storage::limits;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

/// The timeout of one post, as in Kubernetes.
const CALL: Duration = Duration::from_secs(30);
/// The timeout of posts when the process ends.
const LAST_CALL: Duration = Duration::from_secs(1);

/// Options of an audit webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookOptions {
    /// Whether requests wait until their events are sent.
    pub mode: Mode,
    /// How events are batched.
    pub batching: Batching,
    /// The first pause after a list that the server did not accept.
    pub initial_backoff: Duration,
    /// Sizes above which events and lists are cut; `None`: no limit.
    pub truncation: Option<Truncation>,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        let initial_backoff = Duration::from_secs(10);
        Self { mode: Mode::Batch, batching: Batching::default(), initial_backoff, truncation: None }
    }
}

/// The client of an audit webhook: posts queued events.
pub struct AuditSender {
    delivery: Arc<Delivery>,
    options: WebhookOptions,
    queue: mpsc::Receiver<QueuedEvent>,
    /// One permit for each list that is being posted.
    slots: Arc<Semaphore>,
}

/// Shared state of the tasks that post lists.
struct Delivery {
    remote: Remote,
    backoff: WebhookBackoff,
    rng: Rng,
    ending: CancellationToken,
    log_limit: Mutex<RateLimited>,
}

impl fmt::Debug for AuditSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditSender").field("remote", &self.delivery.remote).finish_non_exhaustive()
    }
}

impl AuditSender {
    pub(super) fn new(
        remote: Remote,
        options: WebhookOptions,
        queue: mpsc::Receiver<QueuedEvent>,
        rng: Rng,
        ending: CancellationToken,
    ) -> Self {
        let backoff = WebhookBackoff::starting_at(options.initial_backoff);
        let log_limit = Mutex::new(RateLimited::every(limits::REPEATED_WARNING));
        let delivery = Arc::new(Delivery { remote, backoff, rng, ending, log_limit });
        Self { delivery, options, queue, slots: Arc::new(Semaphore::new(limits::AUDIT_LISTS)) }
    }

    /// Sends until the [`super::Audit`] is dropped.
    /// Boxed here, so that no crate above generates the code again.
    pub fn run(mut self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let throttle = self.options.batching.throttle.filter(|_| self.options.mode == Mode::Batch);
            let mut bucket = throttle.map(|throttle| TokenBucket::new(throttle, Instant::now()));
            while let Some(batch) = self.collect().await {
                // Events without a line ask for an acknowledgement of all events before them.
                let (waiting, batch): (Vec<_>, Vec<_>) =
                    batch.into_iter().partition(|queued| queued.line.is_empty());
                for list in self.lists(batch) {
                    if let Some(bucket) = &mut bucket {
                        self.delivery.pause(bucket.take(Instant::now())).await;
                    }
                    let slot = self.slots.clone().acquire_owned().await.expect("the slots are never closed");
                    tokio::spawn(self.delivery.clone().deliver(list, slot));
                }
                if !waiting.is_empty() {
                    let all = u32::try_from(limits::AUDIT_LISTS).expect("the bound is small");
                    let _all_sent = self.slots.acquire_many(all).await;
                    acknowledge(waiting, true);
                }
            }
        })
    }

    /// Takes the events of the next batch from the queue; `None` if the queue is closed.
    async fn collect(&mut self) -> Option<Vec<QueuedEvent>> {
        let mut batch = vec![self.queue.recv().await?];
        let Batching { max_size, max_wait, .. } = self.options.batching;
        let deadline = Instant::now() + max_wait;
        while batch.len() < max_size && !batch.iter().any(|queued| queued.line.is_empty()) {
            let next = match self.options.mode {
                Mode::Batch => {
                    let ending = self.delivery.ending.clone();
                    tokio::select! {
                        biased;
                        next = timeout_at(deadline, self.queue.recv()) => next.ok().flatten(),
                        () = ending.cancelled_owned() => self.queue.try_recv().ok(),
                    }
                }
                Mode::Blocking | Mode::BlockingStrict => self.queue.try_recv().ok(),
            };
            let Some(next) = next else { break };
            batch.push(next);
        }
        Some(batch)
    }

    fn lists(&self, batch: Vec<QueuedEvent>) -> Vec<Vec<QueuedEvent>> {
        let sizes: Vec<usize> = batch.iter().map(|queued| queued.line.len()).collect();
        let max = self.options.truncation.map_or(usize::MAX, |cut| cut.batch_bytes);
        let mut batch = batch.into_iter();
        batch::split(&sizes, max).into_iter().map(|length| batch.by_ref().take(length).collect()).collect()
    }
}

impl Delivery {
    /// Posts one list, with retries, and acknowledges its events.
    async fn deliver(self: Arc<Self>, list: Vec<QueuedEvent>, slot: OwnedSemaphorePermit) {
        let body = Bytes::from(batch::list(list.iter().map(|queued| &queued.line[..])));
        let mut waits = self.backoff.waits(&self.rng);
        let outcome = loop {
            let answer = tokio::select! {
                biased;
                answer = self.remote.post(body.clone(), CALL) => answer,
                () = self.last_call() => Err(NoAnswer("the server is being stopped".to_owned())),
            };
            let refused = match answer {
                Ok(answer) if (200..300).contains(&answer.status) => break Ok(()),
                Ok(answer) => format!("the server answered {}", answer.status),
                Err(error) => error.to_string(),
            };
            match waits.next().filter(|_| !self.ending.is_cancelled()) {
                Some(wait) => self.pause(wait).await,
                None => break Err(refused),
            }
        };
        if let Err(error) = &outcome
            && let Some(suppressed) = self.log_limit.lock().allow()
        {
            let (url, events) = (self.remote.url(), list.len());
            tracing::error!(%error, url, events, suppressed, "audit events cannot be sent");
        }
        acknowledge(list, outcome.is_ok());
        drop(slot);
    }

    /// Waits until the process has begun to end and [`LAST_CALL`] has passed.
    async fn last_call(&self) {
        self.ending.cancelled().await;
        sleep(LAST_CALL).await;
    }

    /// Sleeps, but returns at once when the process ends.
    async fn pause(&self, time: Duration) {
        tokio::select! {
            biased;
            () = self.ending.cancelled() => {}
            () = sleep(time) => {}
        }
    }
}

fn acknowledge(events: Vec<QueuedEvent>, is_sent: bool) {
    for queued in events {
        if let Some(written) = queued.written {
            // The request may be gone; its receiver is dropped then.
            let _ = written.send(is_sent);
        }
    }
}

#[cfg(test)]
mod tests;
