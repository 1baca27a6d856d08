//! One watch of a stream: the store's watcher under its id. History is gathered into larger responses; what happens after the
//! watch was made is passed on revision by revision, unless the client does not keep up.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::Stream;
use kstore_store::{Batch, Events, Revision, WatchError, Watcher};

use crate::limits::{HISTORY_BYTES, HISTORY_REVISIONS};

/// What a watch has to say.
#[derive(Debug)]
pub(crate) enum Step {
    /// Whole revisions that were history when the watch was made.
    History(Vec<Events>, Revision),
    /// A revision that came later; several of a watch that is behind.
    Live(Vec<Events>, Revision),
    /// Everything up to here has been handed out.
    Level(Revision),
    /// It is over; without an error because the store closed.
    End(Option<WatchError>),
}

type Polled = Option<Result<Batch, WatchError>>;

/// The watch as a stream of steps, each with the watch's id.
#[derive(Debug)]
pub(crate) struct Subscription {
    id: i64,
    watcher: Watcher,
    /// Taken from the watcher while gathering, but not part of what was gathered.
    held: Option<Polled>,
    /// Steps since there was nothing to say.
    burst: usize,
    ended: bool,
}

/// After so many steps without a pause a watch is behind: as in etcd, its revisions then share responses.
const BURST: usize = 8;

impl Subscription {
    pub(crate) fn new(id: i64, watcher: Watcher) -> Self {
        Self { id, watcher, held: None, burst: 0, ended: false }
    }

    fn is_past(&self, batch: &Batch) -> bool {
        batch.revision <= self.watcher.created_at()
    }

    fn poll_watcher(&mut self, cx: &mut Context<'_>) -> Poll<Polled> {
        match self.held.take() {
            Some(held) => Poll::Ready(held),
            None => Pin::new(&mut self.watcher).poll_next(cx),
        }
    }

    /// Adds what is at hand to `first`, as long as it is history too, or is not history either.
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
                    self.held = Some(other);
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
    type Item = (i64, Step);

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
            Some(Ok(batch)) if batch.events.is_empty() => Step::Level(batch.revision),
            Some(Ok(batch)) if self.is_past(&batch) => {
                let (revisions, last) = self.gather(batch, true, cx);
                Step::History(revisions, last)
            }
            Some(Ok(batch)) if self.burst > BURST => {
                let (revisions, last) = self.gather(batch, false, cx);
                Step::Live(revisions, last)
            }
            Some(Ok(batch)) => Step::Live(vec![batch.events], batch.revision),
            Some(Err(error)) => Step::End(Some(error)),
            None => Step::End(None),
        };
        self.ended = matches!(step, Step::End(_));
        Poll::Ready(Some((self.id, step)))
    }
}
