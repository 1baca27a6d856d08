//! One watch of a stream: the store's watcher under its watch id. History is gathered into larger responses. Later
//! events are passed on revision by revision, unless the client is slow.

use crate::limits::{HISTORY_BYTES, HISTORY_REVISIONS};
use futures::stream::Stream;
use kstore_store::{Batch, Events, Revision, WatchError, Watcher};
use std::pin::Pin;
use std::task::{Context, Poll};

/// One step of a watch.
#[derive(Debug)]
pub(crate) enum SubscriptionStep {
    /// Whole revisions that were history when the watch was created, and the last revision.
    History(Vec<Events>, Revision),
    /// A later revision, or several if the watch lags, and the last revision.
    Live(Vec<Events>, Revision),
    /// Everything up to this revision has been returned.
    CaughtUp(Revision),
    /// The watch has ended; without an error because the store closed.
    End(Option<WatchError>),
}

type PolledBatch = Option<Result<Batch, WatchError>>;

/// The watch as a stream of steps, each with the watch's id.
#[derive(Debug)]
pub(crate) struct Subscription {
    id: i64,
    watcher: Watcher,
    /// A batch that was polled while gathering, but belongs to the next step.
    polled: Option<PolledBatch>,
    /// Number of steps since the watch was last idle.
    burst: usize,
    ended: bool,
}

/// Number of steps without a pause after which a watch counts as lagging: as in etcd, its revisions then share
/// responses.
const BURST: usize = 8;

impl Subscription {
    pub(crate) fn new(id: i64, watcher: Watcher) -> Self {
        Self { id, watcher, polled: None, burst: 0, ended: false }
    }

    fn is_past(&self, batch: &Batch) -> bool {
        batch.revision <= self.watcher.created_at()
    }

    fn poll_watcher(&mut self, cx: &mut Context<'_>) -> Poll<PolledBatch> {
        match self.polled.take() {
            Some(polled) => Poll::Ready(polled),
            None => Pin::new(&mut self.watcher).poll_next(cx),
        }
    }

    /// Gathers available batches behind `first`, as long as they are history like `first`, or are not history like it.
    fn gather(&mut self, first: Batch, history: bool, cx: &mut Context<'_>) -> (Vec<Events>, Revision) {
        let (mut bytes, mut last) = (size(&first.events), first.revision);
        let mut revisions = vec![first.events];
        while revisions.len() < HISTORY_REVISIONS && bytes < HISTORY_BYTES {
            let Poll::Ready(polled) = self.poll_watcher(cx) else { break };
            match polled {
                Some(Ok(batch)) if !batch.events.is_empty() && self.is_past(&batch) == history => {
                    bytes += size(&batch.events);
                    last = batch.revision;
                    revisions.push(batch.events);
                }
                other => {
                    self.polled = Some(other);
                    break;
                }
            }
        }
        (revisions, last)
    }
}

fn size(events: &Events) -> usize {
    events.iter().map(|event| event.kv.encoded().len()).sum()
}

impl Stream for Subscription {
    type Item = (i64, SubscriptionStep);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(polled) = self.poll_watcher(cx) else {
            self.burst = 0;
            return Poll::Pending;
        };
        self.burst += 1;
        let step = match polled {
            Some(Ok(batch)) if batch.events.is_empty() => SubscriptionStep::CaughtUp(batch.revision),
            Some(Ok(batch)) if self.is_past(&batch) => {
                let (revisions, last) = self.gather(batch, true, cx);
                SubscriptionStep::History(revisions, last)
            }
            Some(Ok(batch)) if self.burst > BURST => {
                let (revisions, last) = self.gather(batch, false, cx);
                SubscriptionStep::Live(revisions, last)
            }
            Some(Ok(batch)) => SubscriptionStep::Live(vec![batch.events], batch.revision),
            Some(Err(error)) => SubscriptionStep::End(Some(error)),
            None => SubscriptionStep::End(None),
        };
        self.ended = matches!(step, SubscriptionStep::End(_));
        Poll::Ready(Some((self.id, step)))
    }
}
