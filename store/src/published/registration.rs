//! A watcher's registration in the hub: its request, its bounded queue, and its progress.

use crate::types::event::{Event, EventKind};
use crate::types::watch::{Batch, WatchRequest};
use crate::{Limits, Revision};
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

/// A watcher's registration. The hub fills its queue, and the watcher empties it.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) id: u64,
    pub(crate) request: WatchRequest,
    pub(crate) waker: AtomicWaker,
    queue: Mutex<Queue>,
    max_events: usize,
    max_bytes: usize,
}

/// The queue and the progress of a watcher.
#[derive(Debug)]
pub(crate) struct Queue {
    batches: VecDeque<(Batch, usize)>,
    events: usize,
    bytes: usize,
    pub(crate) mode: DeliveryMode,
    /// Everything up to here was returned when the queue is empty, regardless of the hub's delivered revision, which is
    /// updated a moment later.
    pub(crate) reached: Revision,
    /// A pending progress request: return an empty batch once this revision has been returned.
    pub(crate) progress_requested: Option<Revision>,
}

/// The source of a watcher's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryMode {
    /// The hub, from this revision on.
    Live(Revision),
    /// History, from this revision on; the hub skips the watcher.
    Behind(Revision),
    /// The watch has ended.
    Ended(WatchEnd),
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The store was closed.
    Closed,
    /// The store failed.
    Failed,
}

impl Queue {
    /// Number of queued events.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

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

    /// The revision up to which everything was returned, if the watcher has caught up with the hub. `delivered` is the
    /// hub's delivered revision, read before the queue was locked. None below an explicit start revision, since
    /// progress refers to watched revisions only.
    pub(crate) fn caught_up_to(&self, delivered: Revision, start: Revision) -> Option<Revision> {
        let live = matches!(self.mode, DeliveryMode::Live(_)) && self.batches.is_empty();
        live.then_some(delivered.max(self.reached)).filter(|revision| *revision >= start)
    }
}

impl Registration {
    pub(crate) fn new(id: u64, request: WatchRequest, mode: DeliveryMode, limits: &Limits) -> Self {
        let reached = Revision(0);
        let queue =
            Queue { batches: VecDeque::new(), events: 0, bytes: 0, mode, reached, progress_requested: None };
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

    /// Whether the watcher requested this kind of event. The key was matched before.
    pub(crate) fn wants(&self, event: &Event) -> bool {
        match event.kind {
            EventKind::Put => !self.request.no_put,
            EventKind::Delete => !self.request.no_delete,
        }
    }

    /// Takes the waker of a waiting watcher, to be called after the hub is unlocked: a woken watcher may call the hub.
    pub(crate) fn take_waker(&self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.waker.take());
    }

    /// Queues a batch, or switches the watcher to history if the queue is full. Unless the result is `Ignored`, the
    /// caller must wake the watcher.
    pub(crate) fn offer(&self, batch: Batch) -> OfferResult {
        let mut queue = self.queue.lock();
        let DeliveryMode::Live(from) = queue.mode else { return OfferResult::Ignored };
        if batch.revision < from {
            return OfferResult::Ignored;
        }
        let bytes = batch.cost();
        let full =
            queue.events + batch.events.len() > self.max_events || queue.bytes + bytes > self.max_bytes;
        // A single batch may exceed the bounds: it exists anyway, and it must get through.
        let outcome = if full && !queue.batches.is_empty() {
            queue.mode = DeliveryMode::Behind(batch.revision);
            OfferResult::Lagged
        } else {
            queue.push(batch);
            OfferResult::Queued
        };
        drop(queue);
        outcome
    }

    /// Switches a live watcher to history, because the hub skips revisions after `delivered`. Returns whether it was
    /// live and must be woken.
    pub(crate) fn skip(&self, delivered: Revision) -> bool {
        let mut queue = self.queue.lock();
        let DeliveryMode::Live(from) = queue.mode else { return false };
        queue.mode = DeliveryMode::Behind(from.max(delivered.next()));
        true
    }

    /// Ends the watch. The caller must wake the watcher.
    pub(crate) fn end(&self, ending: WatchEnd) {
        self.queue.lock().mode = DeliveryMode::Ended(ending);
    }
}

/// Result of offering a batch to a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfferResult {
    Queued,
    Lagged,
    Ignored,
}

/// The events of a revision that a watcher requested. Shares the list if these are all.
pub(crate) fn batch(
    registration: &Registration,
    revision: Revision,
    all: &crate::types::event::Events,
) -> Option<Batch> {
    let wanted =
        |event: &Arc<Event>| registration.request.keys.contains(event.key()) && registration.wants(event);
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
