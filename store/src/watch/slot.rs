//! One watcher's place in the hub: what it wants, its bounded queue, and how far it is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use futures::task::AtomicWaker;
use parking_lot::Mutex;

use super::{Batch, WatchRequest};
use crate::event::{Event, EventKind};
use crate::{Limits, Revision};

/// Shared by the hub, which fills it, and the watcher, which empties it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: u64,
    pub(crate) request: WatchRequest,
    pub(crate) waker: AtomicWaker,
    queue: Mutex<Queue>,
    max_events: usize,
    max_bytes: usize,
}

/// See [`Slot`].
#[derive(Debug)]
pub(crate) struct Queue {
    batches: VecDeque<(Batch, usize)>,
    events: usize,
    bytes: usize,
    pub(crate) mode: Mode,
    /// When the queue is empty, everything up to here has been handed out, whatever the hub says it has delivered: it says
    /// so a moment later.
    pub(crate) reached: Revision,
    /// Answer with an empty batch once this revision has been handed out.
    pub(crate) asked: Option<Revision>,
}

/// Where the watcher gets its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// From the hub, beginning with this revision.
    Live(Revision),
    /// From history, beginning with this revision; the hub passes it over.
    Behind(Revision),
    /// Nothing more comes.
    Ended(Ending),
}

/// Why nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The store was closed.
    Closed,
    /// The store failed.
    Failed,
}

impl Queue {
    /// How many events wait.
    pub(crate) fn events(&self) -> usize {
        self.events
    }
}

impl Slot {
    pub(crate) fn new(id: u64, request: WatchRequest, mode: Mode, limits: &Limits) -> Self {
        let reached = Revision(0);
        let queue = Queue { batches: VecDeque::new(), events: 0, bytes: 0, mode, reached, asked: None };
        Self {
            id,
            request,
            waker: AtomicWaker::new(),
            queue: Mutex::new(queue),
            max_events: limits.watcher_events,
            max_bytes: limits.watcher_bytes,
        }
    }

    pub(crate) fn queue(&self) -> parking_lot::MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Bytes that may be queued; a single batch may exceed them.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Whether the watcher wants this kind of event. The key was matched before.
    pub(crate) fn wants(&self, event: &Event) -> bool {
        match event.kind {
            EventKind::Put => !self.request.no_put,
            EventKind::Delete => !self.request.no_delete,
        }
    }

    /// Takes the waker of a watcher that waits, to be woken when the hub is unlocked again: who is woken may call the hub.
    pub(crate) fn take_waker(&self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.waker.take());
    }

    /// Puts a batch into the queue, or notes that the watcher fell behind; says which. Unless it was ignored, the watcher must
    /// be woken.
    pub(crate) fn offer(&self, batch: Batch) -> Offer {
        let mut queue = self.queue.lock();
        let Mode::Live(from) = queue.mode else { return Offer::Ignored };
        if batch.revision < from {
            return Offer::Ignored;
        }
        let bytes = batch.cost();
        let full =
            queue.events + batch.events.len() > self.max_events || queue.bytes + bytes > self.max_bytes;
        // A single batch may exceed the bounds: it exists anyway, and it must get through.
        let outcome = if full && !queue.batches.is_empty() {
            queue.mode = Mode::Behind(batch.revision);
            Offer::Lagged
        } else {
            queue.push(batch);
            Offer::Queued
        };
        drop(queue);
        outcome
    }

    /// The hub skipped revisions up to `upto`: the watcher must read them from history, if this says so, and must be woken.
    pub(crate) fn skip(&self, delivered: Revision) -> bool {
        let mut queue = self.queue.lock();
        let Mode::Live(from) = queue.mode else { return false };
        queue.mode = Mode::Behind(from.max(delivered.next()));
        true
    }

    /// Nothing more comes. The watcher must be woken.
    pub(crate) fn end(&self, ending: Ending) {
        self.queue.lock().mode = Mode::Ended(ending);
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Queued,
    Lagged,
    Ignored,
}

impl Queue {
    pub(crate) fn push(&mut self, batch: Batch) {
        let bytes = batch.cost();
        self.events += batch.events.len();
        self.bytes += bytes;
        self.batches.push_back((batch, bytes));
    }

    pub(crate) fn pop(&mut self) -> Option<Batch> {
        let (batch, bytes) = self.batches.pop_front()?;
        self.events -= batch.events.len();
        self.bytes -= bytes;
        self.reached = self.reached.max(batch.revision);
        Some(batch)
    }

    /// The revision up to which everything was handed out, if the watcher is level with the hub, which has delivered
    /// everything up to `delivered` (as of before the queue was locked). None below an explicit start: what is not watched
    /// is not told of.
    pub(crate) fn level(&self, delivered: Revision, start: Revision) -> Option<Revision> {
        let live = matches!(self.mode, Mode::Live(_)) && self.batches.is_empty();
        live.then_some(delivered.max(self.reached)).filter(|level| *level >= start)
    }
}

/// The part of a revision's events that a watcher wants; shares the list if it wants all.
pub(crate) fn batch(slot: &Slot, revision: Revision, all: &crate::event::Events) -> Option<Batch> {
    let wanted = |event: &Arc<Event>| slot.request.keys.contains(event.key()) && slot.wants(event);
    let count = all.iter().filter(|event| wanted(event)).count();
    if count == 0 {
        return None;
    }
    let events = if count == all.len() {
        all.clone()
    } else {
        all.iter().filter(|event| wanted(event)).cloned().collect()
    };
    Some(Batch { revision, events })
}
