//! [`Inbox`]: the buffer of batches for one part. The pump fills it, and the part's stream empties it. Progress
//! without changes waits until a reader demands it or [`Inbox`]'s longest delay has passed: most changes concern
//! a few parts, and the others need not wake for each.

use crate::calls::revision;
use crate::limits::MULTI_BUFFER;
use kstore_informer::{Revision, SourceError};
use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The buffered batches of one part, with the end of its stream.
pub(super) struct Inbox {
    /// The longest time for which progress without changes waits for the reader.
    longest_delay: Duration,
    state: Mutex<InboxState>,
    /// Notified when the inbox has content.
    filled: Notify,
    /// Notified when the inbox may have space again.
    emptied: Notify,
}

struct InboxState {
    batches: Vec<pb::WatchBatch>,
    events: usize,
    /// The part already knows the state at this revision.
    after: Revision,
    end: Option<Option<SourceError>>,
    abandoned: bool,
    /// The newest revision that the reader needs.
    demanded: Revision,
    /// The revision that the reader has taken.
    taken: Revision,
    taken_at: Instant,
    /// Whether the reader takes the content now.
    is_due: bool,
}

/// The reading side of an inbox. Its drop abandons the inbox, from wherever it is.
pub(super) struct Reader(pub Arc<Inbox>);

impl Reader {
    /// Takes the content: [`Inbox::take`].
    pub(super) async fn take(&self) -> InboxContent {
        self.0.take().await
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The content of an inbox.
pub(super) enum InboxContent {
    /// Batches in order.
    Batches(Vec<pb::WatchBatch>),
    /// The end of the stream.
    End(Option<SourceError>),
}

impl Inbox {
    /// An inbox for batches after `after`.
    pub(super) fn new(after: Revision, longest_delay: Duration) -> Self {
        let state = InboxState {
            batches: Vec::new(),
            events: 0,
            after,
            end: None,
            abandoned: false,
            demanded: Revision(0),
            taken: after,
            taken_at: Instant::now(),
            is_due: false,
        };
        Self { longest_delay, state: Mutex::new(state), filled: Notify::new(), emptied: Notify::new() }
    }

    /// Records that the reader needs `revision`: it takes what is here, and all progress until then, at once.
    pub(super) fn demand(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.demanded = state.demanded.max(revision);
        let becomes_due = state.demanded > state.taken && !state.batches.is_empty();
        if !becomes_due || std::mem::replace(&mut state.is_due, true) {
            return;
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Adds a batch. A batch that the reader has not taken yet is merged with it: a late reader takes all at
    /// once, and the progress of idle batches costs nothing.
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
        let is_due = state.is_due
            || !batch.events.is_empty()
            || batch.initial_done
            || state.demanded > state.taken
            || state.taken_at.elapsed() >= self.longest_delay;
        let becomes_due = is_due && !std::mem::replace(&mut state.is_due, is_due);
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
        if becomes_due {
            self.filled.notify_one();
        }
    }

    /// Ends the inbox: the stream failed, or with `None` it ended and the part can request another.
    pub(super) fn end(&self, error: Option<SourceError>) {
        let mut state = self.state.lock();
        state.end.get_or_insert(error);
        state.is_due = true;
        drop(state);
        self.filled.notify_one();
    }

    /// Marks the inbox as abandoned: its reader is gone, and further batches are discarded.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.abandoned = true;
        state.batches.clear();
        state.events = 0;
        drop(state);
        self.emptied.notify_one();
    }

    /// Whether the inbox has space for another batch.
    pub(super) fn has_space(&self) -> bool {
        self.state.lock().events < MULTI_BUFFER
    }

    /// Waits until the inbox may have space. Cancel-safe; one task may wait at a time.
    pub(super) async fn emptied(&self) {
        self.emptied.notified().await;
    }

    /// Takes all content, and waits until it is due. Cancel-safe; one task may take at a time.
    async fn take(&self) -> InboxContent {
        loop {
            if let Some(content) = self.try_take() {
                return content;
            }
            self.filled.notified().await;
        }
    }

    fn try_take(&self) -> Option<InboxContent> {
        let mut state = self.state.lock();
        if !state.is_due {
            return None;
        }
        if state.batches.is_empty() {
            return state.end.clone().map(InboxContent::End);
        }
        state.events = 0;
        state.is_due = state.end.is_some();
        state.taken_at = Instant::now();
        let batches = std::mem::take(&mut state.batches);
        let newest = batches.iter().map(|batch| revision(batch.revision)).max();
        state.taken = state.taken.max(newest.unwrap_or_default());
        drop(state);
        self.emptied.notify_one();
        Some(InboxContent::Batches(batches))
    }
}
