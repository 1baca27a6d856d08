//! [`Inbox`]: what has arrived for one part and was not yet taken. Filled by the pump, emptied by the part's stream.

use std::sync::Arc;

use kstore_informer::{Revision, SourceError};
use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{calls::revision, limits::MULTI_BUFFER};

/// See the module.
pub(super) struct Inbox {
    state: Mutex<State>,
    /// Rung when there is something to take.
    filled: Notify,
    /// Rung when there may be room again.
    emptied: Notify,
}

#[derive(Default)]
struct State {
    batches: Vec<pb::WatchBatch>,
    events: usize,
    /// What is at or before this is known to the part already.
    after: Revision,
    end: Option<Option<SourceError>>,
    abandoned: bool,
}

/// The right to take from an inbox. Dropped, wherever it is by then, it gives the inbox up.
pub(super) struct Reader(pub Arc<Inbox>);

impl Reader {
    /// See [`Inbox::take`].
    pub(super) async fn take(&self) -> Taken {
        self.0.take().await
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// What was in an inbox.
pub(super) enum Taken {
    /// These, in order.
    Batches(Vec<pb::WatchBatch>),
    /// Nothing more will come.
    End(Option<SourceError>),
}

impl Inbox {
    /// An inbox for what comes after `after`.
    pub(super) fn new(after: Revision) -> Self {
        let state = State { after, ..State::default() };
        Self { state: Mutex::new(state), filled: Notify::new(), emptied: Notify::new() }
    }

    /// Puts a batch in. What nobody has looked at yet is joined to it: a reader who comes late takes it all at once, and the
    /// progress of quiet batches costs nothing.
    pub(super) fn put(&self, mut batch: pb::WatchBatch) {
        let mut state = self.state.lock();
        if state.abandoned || state.end.is_some() {
            return;
        }
        batch.events.retain(|event| revision(event.revision) > state.after);
        let says_how_far = batch.initial_done || revision(batch.revision) > state.after;
        if batch.events.is_empty() && !says_how_far {
            return;
        }
        state.events += batch.events.len();
        match state.batches.last_mut().filter(|last| !last.initial_done) {
            Some(last) => {
                last.events.append(&mut batch.events);
                last.revision = last.revision.max(batch.revision);
                last.initial_done = batch.initial_done;
            }
            None => state.batches.push(batch),
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Nothing more comes: the stream failed, or with `None` it ended and can be asked for again.
    pub(super) fn end(&self, error: Option<SourceError>) {
        self.state.lock().end.get_or_insert(error);
        self.filled.notify_one();
    }

    /// Its reader has gone: what comes is discarded.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.abandoned = true;
        state.batches.clear();
        state.events = 0;
        drop(state);
        self.emptied.notify_one();
    }

    /// Whether another batch may come.
    pub(super) fn has_room(&self) -> bool {
        self.state.lock().events < MULTI_BUFFER
    }

    /// Waits until there may be room. Cancel safe; one waits at a time.
    pub(super) async fn emptied(&self) {
        self.emptied.notified().await;
    }

    /// Takes everything, waiting for something if there is nothing. Cancel safe; one takes at a time.
    async fn take(&self) -> Taken {
        loop {
            if let Some(taken) = self.try_take() {
                return taken;
            }
            self.filled.notified().await;
        }
    }

    fn try_take(&self) -> Option<Taken> {
        let mut state = self.state.lock();
        if state.batches.is_empty() {
            return state.end.clone().map(Taken::End);
        }
        state.events = 0;
        let batches = std::mem::take(&mut state.batches);
        drop(state);
        self.emptied.notify_one();
        Some(Taken::Batches(batches))
    }
}
