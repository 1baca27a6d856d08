//! [`Inbox`]: the buffer of batches for one part. The pump fills it, and the part's stream empties it.

use std::sync::Arc;

use kstore_informer::{Revision, SourceError};
use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{calls::revision, limits::MULTI_BUFFER};

/// The buffered batches of one part, with the end of its stream.
pub(super) struct Inbox {
    state: Mutex<InboxState>,
    /// Notified when the inbox has content.
    filled: Notify,
    /// Notified when the inbox may have space again.
    emptied: Notify,
}

#[derive(Default)]
struct InboxState {
    batches: Vec<pb::WatchBatch>,
    events: usize,
    /// The part already knows the state at this revision.
    after: Revision,
    end: Option<Option<SourceError>>,
    abandoned: bool,
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
    pub(super) fn new(after: Revision) -> Self {
        let state = InboxState { after, ..InboxState::default() };
        Self { state: Mutex::new(state), filled: Notify::new(), emptied: Notify::new() }
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

    /// Ends the inbox: the stream failed, or with `None` it ended and the part can request another.
    pub(super) fn end(&self, error: Option<SourceError>) {
        self.state.lock().end.get_or_insert(error);
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

    /// Takes all content, and waits if there is none. Cancel-safe; one task may take at a time.
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
        if state.batches.is_empty() {
            return state.end.clone().map(InboxContent::End);
        }
        state.events = 0;
        let batches = std::mem::take(&mut state.batches);
        drop(state);
        self.emptied.notify_one();
        Some(InboxContent::Batches(batches))
    }
}
