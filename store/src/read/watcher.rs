//! The caller's side of a watch: empties its queue and, when it lags, reads history at its own pace.

use super::watch_history;
use crate::published::core::Core;
use crate::published::registration::{DeliveryMode, Registration, WatchEnd};
use crate::types::error::{Stopped, WatchError};
use crate::types::watch::{Batch, WatchRequest};
use crate::{KeyRange, Revision};
use futures::future::poll_fn;
use futures::stream::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A watch of a key range, as the caller sees it. Dropping it ends the watch.
pub struct Watcher {
    core: Arc<Core>,
    registration: Arc<Registration>,
    created_at: Revision,
    /// Whether an error or the end was returned.
    done: bool,
    /// Whether the hub has the registration.
    registered: bool,
}

/// A handle to request progress of a watch from another task. It is cheap to clone.
#[derive(Clone)]
pub struct WatchHandle {
    core: Arc<Core>,
    registration: Arc<Registration>,
}

/// Result of polling the queue once.
enum PollResult {
    Item(Result<Batch, WatchError>),
    End,
    Nothing,
    /// Some history without matching events was read; there is more.
    Later,
}

/// Largest lag in revisions at which a watcher rejoins the hub while holding its lock. Without this, a fast writer
/// could keep a watcher lagging for ever.
const JOIN_WITHIN: usize = 64;

/// Reads of history without matching events before the task yields.
const READS_PER_POLL: usize = 4;

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("request", &self.registration.request).finish_non_exhaustive()
    }
}

impl Watcher {
    pub(crate) fn new(core: Arc<Core>, request: WatchRequest) -> Result<Self, WatchError> {
        core.check_serving()?;
        if request.keys.is_empty() {
            return Err(WatchError::EmptyRange);
        }
        let created_at = core.revision();
        let registration = core.hub.register(request, created_at);
        Ok(Self { core, registration, created_at, done: false, registered: true })
    }

    /// Returns the events of the next revision of this watch. None after the store was closed in order, or after an
    /// error. Cancel safe. Also available as a [`Stream`].
    pub async fn next(&mut self) -> Option<Result<Batch, WatchError>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Returns the next batch without waiting, including history; `None` if no batch is ready.
    pub fn try_next(&mut self) -> Option<Result<Batch, WatchError>> {
        match self.look(usize::MAX) {
            PollResult::Item(item) => Some(item),
            PollResult::End | PollResult::Nothing | PollResult::Later => None,
        }
    }

    /// The watched keys.
    pub fn keys(&self) -> &KeyRange {
        &self.registration.request.keys
    }

    /// The store's revision when the watch was created. With start zero, every later change is delivered.
    pub fn created_at(&self) -> Revision {
        self.created_at
    }

    /// The revision up to which everything has been returned, if the watcher has caught up. None while events are
    /// queued, history is being read, or the start is in the future.
    pub fn progress(&self) -> Option<Revision> {
        // Read before the queue is checked: events are queued before the delivered revision is updated.
        let delivered = self.core.hub.delivered();
        self.registration.queue().caught_up_to(delivered, self.registration.request.start)
    }

    /// Creates a handle to request progress.
    pub fn handle(&self) -> WatchHandle {
        WatchHandle { core: self.core.clone(), registration: self.registration.clone() }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Batch, WatchError>>> {
        // The waker is registered before polling, so that no later event is missed.
        self.registration.waker.register(cx.waker());
        match self.look(READS_PER_POLL) {
            PollResult::Item(item) => Poll::Ready(Some(item)),
            PollResult::End => Poll::Ready(None),
            PollResult::Nothing => Poll::Pending,
            PollResult::Later => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn look(&mut self, mut reads: usize) -> PollResult {
        while !self.done {
            let delivered = self.core.hub.delivered();
            let mut queue = self.registration.queue();
            if let Some(batch) = queue.pop() {
                return PollResult::Item(Ok(batch));
            }
            match queue.mode {
                DeliveryMode::Ended(ending) => {
                    self.done = true;
                    return match ending {
                        WatchEnd::Closed => PollResult::End,
                        WatchEnd::Failed => PollResult::Item(Err(Stopped.into())),
                    };
                }
                DeliveryMode::Live(_) => {
                    let caught_up = queue.caught_up_to(delivered, self.registration.request.start);
                    let requested = queue.progress_requested;
                    let Some(revision) = caught_up
                        .filter(|revision| requested.is_some_and(|requested| requested <= *revision))
                    else {
                        return PollResult::Nothing;
                    };
                    queue.progress_requested = None;
                    return PollResult::Item(Ok(Batch { revision, events: Arc::new([]) }));
                }
                DeliveryMode::Behind(_) if reads == 0 => return PollResult::Later,
                DeliveryMode::Behind(from) => {
                    drop(queue);
                    reads -= 1;
                    if let Err(error) = self.catch_up(from) {
                        self.done = true;
                        self.unregister();
                        return PollResult::Item(Err(error));
                    }
                }
            }
        }
        PollResult::End
    }

    fn unregister(&mut self) {
        if std::mem::take(&mut self.registered) {
            self.core.hub.unregister(&self.registration);
        }
    }

    /// Reads a part of the history into the queue, and rejoins the hub when caught up.
    fn catch_up(&self, from: Revision) -> Result<(), WatchError> {
        if self.join(from)? {
            return Ok(());
        }
        let past = watch_history::read(&self.core, &self.registration, from)?;
        self.resume(past);
        Ok(())
    }

    /// Reads the missing revisions under the hub's lock, if they are few and in the window, and makes the watcher live
    /// if that was all. Returns whether something was read.
    fn join(&self, from: Revision) -> Result<bool, WatchError> {
        let hub = self.core.hub.lock();
        if hub.delivered.0 - from.0 >= JOIN_WITHIN as i64 {
            return Ok(false);
        }
        let visible = self.core.visible();
        if from < visible.state.compacted {
            return Err(WatchError::Compacted { compacted: visible.state.compacted });
        }
        let past = watch_history::read_window(&visible, &self.registration, from, 2 * JOIN_WITHIN);
        let Some(past) = past else {
            return Ok(false);
        };
        let is_caught_up = past.next > visible.state.revision;
        drop(visible);
        let live = DeliveryMode::Live(past.next);
        self.resume(past);
        let mut queue = self.registration.queue();
        if is_caught_up && matches!(queue.mode, DeliveryMode::Behind(_)) {
            queue.mode = live;
        }
        Ok(true)
    }

    /// Queues what was read from history; the read bounded its size.
    fn resume(&self, past: watch_history::HistoryPart) {
        let mut queue = self.registration.queue();
        if !matches!(queue.mode, DeliveryMode::Behind(_)) {
            return;
        }
        past.batches.into_iter().for_each(|batch| queue.push(batch));
        queue.reached = queue.reached.max(past.next.previous());
        queue.mode = DeliveryMode::Behind(past.next);
    }
}

impl WatchHandle {
    /// Makes [`Watcher::next`] return a batch without events after everything up to the store's current revision has
    /// been returned. Pending requests are merged. A watch with a future start answers when it is reached.
    pub fn request_progress(&self) {
        self.core
            .hub
            .request_progress(&self.registration, self.core.revision().max(self.registration.request.start));
    }
}

impl Stream for Watcher {
    type Item = Result<Batch, WatchError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.unregister();
    }
}
