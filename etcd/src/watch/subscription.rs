//! One watch of a stream: the store's watcher under its id, with history gathered into larger responses. What happens after
//! the watch was made is passed on revision by revision.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::stream::Stream;
use kstore_store::{Batch, Events, Revision, WatchError, Watcher};

use crate::limits::{HISTORY_BYTES, HISTORY_REVISIONS};

/// What a watch has to say.
#[derive(Debug)]
pub(crate) enum Step {
    /// Whole revisions that were history when the watch was made.
    History(Vec<Events>, Revision),
    /// One revision.
    Live(Events, Revision),
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
    ended: bool,
}

impl Subscription {
    pub(crate) fn new(id: i64, watcher: Watcher) -> Self {
        Self { id, watcher, held: None, ended: false }
    }

    fn is_history(&self, polled: &Polled) -> bool {
        let past = |batch: &Batch| !batch.events.is_empty() && batch.revision <= self.watcher.created_at();
        matches!(polled, Some(Ok(batch)) if past(batch))
    }

    fn poll_watcher(&mut self, cx: &mut Context<'_>) -> Poll<Polled> {
        match self.held.take() {
            Some(held) => Poll::Ready(held),
            None => Pin::new(&mut self.watcher).poll_next(cx),
        }
    }

    /// Adds what is at hand to `first`.
    fn gather(&mut self, first: Batch, cx: &mut Context<'_>) -> Step {
        let (mut bytes, mut last) = (size(&first.events), first.revision);
        let mut revisions = vec![first.events];
        while revisions.len() < HISTORY_REVISIONS && bytes < HISTORY_BYTES {
            let Poll::Ready(polled) = self.poll_watcher(cx) else { break };
            match polled {
                Some(Ok(batch)) if self.is_history(&Some(Ok(batch.clone()))) => {
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
        Step::History(revisions, last)
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
        let polled = ready!(self.poll_watcher(cx));
        let history = self.is_history(&polled);
        let step = match polled {
            Some(Ok(batch)) if history => self.gather(batch, cx),
            Some(Ok(batch)) if batch.events.is_empty() => Step::Level(batch.revision),
            Some(Ok(batch)) => Step::Live(batch.events, batch.revision),
            Some(Err(error)) => Step::End(Some(error)),
            None => Step::End(None),
        };
        self.ended = matches!(step, Step::End(_));
        Poll::Ready(Some((self.id, step)))
    }
}
