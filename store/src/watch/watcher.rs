//! The caller's end of a watch: empties its queue and, when it fell behind, reads history itself, at its own pace.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::poll_fn;
use futures::stream::Stream;

use super::slot::{Ending, Mode, Slot};
use super::{Batch, WatchRequest, history};
use crate::core::Core;
use crate::error::{Stopped, WatchError};
use crate::{KeyRange, Revision};

/// The caller's end of a watch. Dropping it ends the watch.
pub struct Watcher {
    core: Arc<Core>,
    slot: Arc<Slot>,
    created_at: Revision,
    /// An error or the end was returned.
    done: bool,
    /// The hub knows of it.
    registered: bool,
}

/// Asks for progress of a watch from elsewhere. Cheap to clone.
#[derive(Clone)]
pub struct WatchHandle {
    core: Arc<Core>,
    slot: Arc<Slot>,
}

/// What a look at the queue found.
enum Look {
    Item(Result<Batch, WatchError>),
    End,
    Nothing,
    /// Some history was read in vain; there is more.
    Later,
}

/// A watcher at most this far behind joins the hub while the hub waits for it: without it, a fast writer could keep a
/// watcher behind for ever.
const JOIN_WITHIN: usize = 64;

/// Parts of history read in vain before other tasks get their turn.
const READS_PER_POLL: usize = 4;

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("request", &self.slot.request).finish_non_exhaustive()
    }
}

impl Watcher {
    pub(crate) fn new(core: Arc<Core>, request: WatchRequest) -> Result<Self, WatchError> {
        core.serving()?;
        if request.keys.is_empty() {
            return Err(WatchError::EmptyRange);
        }
        let created_at = core.revision();
        let slot = core.hub.register(request, created_at);
        Ok(Self { core, slot, created_at, done: false, registered: true })
    }

    /// The next revision with events for this watch. None after the store was closed in order, or after an error.
    /// Cancel safe. Also available as a [`Stream`].
    pub async fn next(&mut self) -> Option<Result<Batch, WatchError>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// What is at hand without waiting, history included; none if nothing is.
    pub fn try_next(&mut self) -> Option<Result<Batch, WatchError>> {
        match self.look(usize::MAX) {
            Look::Item(item) => Some(item),
            Look::End | Look::Nothing | Look::Later => None,
        }
    }

    /// Which keys are watched.
    pub fn keys(&self) -> &KeyRange {
        &self.slot.request.keys
    }

    /// The store's revision when the watch began: with start zero, every later change is delivered.
    pub fn created_at(&self) -> Revision {
        self.created_at
    }

    /// The revision up to which everything has been taken out of this watcher, if nothing is outstanding; none while
    /// events are queued, history is being read, or the start lies in the future.
    pub fn progress(&self) -> Option<Revision> {
        // Read before the queue is seen empty: whatever is delivered was put into the queue first.
        let delivered = self.core.hub.delivered();
        self.slot.queue().level(delivered, self.slot.request.start)
    }

    /// A handle to ask for progress.
    pub fn handle(&self) -> WatchHandle {
        WatchHandle { core: self.core.clone(), slot: self.slot.clone() }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Batch, WatchError>>> {
        // Registered before looking, so that nothing put in afterwards goes unnoticed.
        self.slot.waker.register(cx.waker());
        match self.look(READS_PER_POLL) {
            Look::Item(item) => Poll::Ready(Some(item)),
            Look::End => Poll::Ready(None),
            Look::Nothing => Poll::Pending,
            Look::Later => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn look(&mut self, mut reads: usize) -> Look {
        while !self.done {
            let delivered = self.core.hub.delivered();
            let mut queue = self.slot.queue();
            if let Some(batch) = queue.pop() {
                return Look::Item(Ok(batch));
            }
            match queue.mode {
                Mode::Ended(ending) => {
                    self.done = true;
                    return match ending {
                        Ending::Closed => Look::End,
                        Ending::Failed => Look::Item(Err(Stopped.into())),
                    };
                }
                Mode::Live(_) => {
                    let level = queue.level(delivered, self.slot.request.start);
                    let Some(level) = level.filter(|level| queue.asked.is_some_and(|asked| asked <= *level))
                    else {
                        return Look::Nothing;
                    };
                    queue.asked = None;
                    return Look::Item(Ok(Batch { revision: level, events: Arc::new([]) }));
                }
                Mode::Behind(_) if reads == 0 => return Look::Later,
                Mode::Behind(from) => {
                    drop(queue);
                    reads -= 1;
                    if let Err(error) = self.catch_up(from) {
                        self.done = true;
                        self.unregister();
                        return Look::Item(Err(error));
                    }
                }
            }
        }
        Look::End
    }

    fn unregister(&mut self) {
        if std::mem::take(&mut self.registered) {
            self.core.hub.unregister(&self.slot);
        }
    }

    /// Reads a part of history into the queue, and joins the hub when level with it.
    fn catch_up(&self, from: Revision) -> Result<(), WatchError> {
        if self.join(from)? {
            return Ok(());
        }
        let past = history::read(&self.core, &self.slot, from)?;
        self.resume(past);
        Ok(())
    }

    /// Reads what is missing while the hub waits, if that is little and in the window, and becomes live if it was all; says
    /// whether something was read.
    fn join(&self, from: Revision) -> Result<bool, WatchError> {
        let hub = self.core.hub.lock();
        if hub.delivered.0 - from.0 >= JOIN_WITHIN as i64 {
            return Ok(false);
        }
        let visible = self.core.visible();
        if from < visible.compacted {
            return Err(WatchError::Compacted { compacted: visible.compacted });
        }
        let Some(past) = history::read_window(&visible, &self.slot, from, 2 * JOIN_WITHIN) else {
            return Ok(false);
        };
        let level = past.next > visible.revision;
        drop(visible);
        let live = Mode::Live(past.next);
        self.resume(past);
        let mut queue = self.slot.queue();
        if level && matches!(queue.mode, Mode::Behind(_)) {
            queue.mode = live;
        }
        Ok(true)
    }

    /// Queues what was read. Its size was bounded by the reading.
    fn resume(&self, past: history::Past) {
        let mut queue = self.slot.queue();
        if !matches!(queue.mode, Mode::Behind(_)) {
            return;
        }
        past.batches.into_iter().for_each(|batch| queue.push(batch));
        queue.reached = queue.reached.max(past.next.previous());
        queue.mode = Mode::Behind(past.next);
    }
}

impl WatchHandle {
    /// Makes [`Watcher::next`] return a batch without events once everything up to the store's present revision has been
    /// handed out. Requests that wait are merged. A watch whose start lies in the future answers when it gets there.
    pub fn request_progress(&self) {
        self.core.hub.ask(&self.slot, self.core.revision().max(self.slot.request.start));
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
