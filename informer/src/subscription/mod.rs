//! [`Subscription`]: one reader's stream of an informer's changes. A slow reader costs bounded memory and
//! delays no other reader, unless it asks for that. [`Delivery`] says how pending changes are stored, and
//! [`SubscriptionSynced`] when the reader has handled the initial state. `hub` stores the pending changes;
//! this file turns them into deltas.

#[cfg(test)]
mod tests;

use crate::any_object::AnyObject;
use crate::cache::indexer::{Change, Indexer};
use crate::hub::delta_fifo::typed_deltas;
use crate::hub::{PendingChanges, SubscriberHandle, backlog};
use crate::limits::MIN_RESYNC;
use crate::shared::{Shared, SubscriberRead};
use crate::{Delivery, Delta, Informer, Key, Object, Stopped};
use futures::FutureExt;
use kstore_nondet::HashSet;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// A stream of changes; [`Delta`] documents the order per key. Dropping it unsubscribes.
pub struct Subscription<T: Object> {
    reader: Reader,
    /// Keeps the informer alive while the subscription exists.
    informer: Informer<T>,
}

/// A subscription without the type of its objects. Does not keep the informer alive.
pub(crate) struct Reader {
    handle: SubscriberHandle,
    pub(crate) shared: Arc<Shared>,
    gate: SyncTracker,
    resync: Option<Resync>,
    replays: u64,
}

struct Resync {
    period: Duration,
    next: Instant,
}

/// A handler panicked. Its subscription has ended; other subscriptions continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event handler of informer {informer} panicked: {message}")]
pub struct HandlerPanicked {
    /// The name of the informer.
    pub informer: String,
    /// The panic message.
    pub message: String,
}

impl<T: Object> Informer<T> {
    /// Subscribes to changes, merged per key. The first read yields the whole cache as
    /// [`crate::Delta::Added`]. Drop the subscription to end it.
    pub fn subscribe(&self) -> Subscription<T> {
        self.subscribe_with(Delivery::Coalesce)
    }

    /// Subscribes to changes with the given delivery, starting with cached objects as
    /// [`crate::Delta::Added`]. A lossless subscription starts with the objects that are cached at this call.
    pub fn subscribe_with(&self, delivery: Delivery) -> Subscription<T> {
        Subscription::new(self.clone(), delivery)
    }
}

impl<T: Object> Subscription<T> {
    pub(crate) fn new(informer: Informer<T>, delivery: Delivery) -> Self {
        Self { reader: Reader::new(informer.shared().clone(), delivery), informer }
    }

    /// Delivers every cached object again as [`Delta::Resync`], once per period, starting one period from
    /// now. An object with a pending change gets only the change. A reader that is late by several periods
    /// gets one resync. Periods below [`MIN_RESYNC`] are raised to it.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        let period = period.max(MIN_RESYNC);
        self.reader.resync = Some(Resync { period, next: Instant::now() + period });
        self
    }

    /// Waits for changes and returns all since the last call, at least one delta. Returns `None` when the
    /// informer has ended and everything is taken. Dropping the future loses no change.
    ///
    /// The call confirms that all deltas taken before have been handled; see [`Subscription::synced`].
    pub async fn next(&mut self) -> Option<Vec<Delta<T>>> {
        self.reader.next().await.map(typed_deltas)
    }

    /// Returns all changes since the last call without waiting. The call confirms that all deltas taken
    /// before have been handled.
    pub fn try_next(&mut self) -> Vec<Delta<T>> {
        typed_deltas(self.reader.take().0)
    }

    /// Calls `handle` for each delta, one after the other, until the informer has ended.
    ///
    /// # Errors
    /// When `handle` panics. This subscription ends then; others continue.
    pub async fn for_each<F, Fut>(mut self, mut handle: F) -> Result<(), HandlerPanicked>
    where
        F: FnMut(Delta<T>) -> Fut + Send,
        Fut: Future<Output = ()> + Send,
    {
        while let Some(deltas) = self.next().await {
            for delta in deltas {
                let handled = AssertUnwindSafe(async { handle(delta).await }).catch_unwind().await;
                handled.map_err(|panic| self.panicked(&*panic))?;
            }
        }
        Ok(())
    }

    /// Resolves once this reader has taken the informer's first complete state, even an empty one, and has
    /// called again for more. Cloneable, and independent of the subscription.
    pub fn synced(&self) -> SubscriptionSynced {
        self.reader.gate.synced()
    }

    /// Number of pending keys if changes are merged, else of pending changes (and objects of the initial
    /// state). The cost is proportional to the result.
    pub fn pending(&self) -> usize {
        self.reader.shared.pending(self.reader.handle)
    }

    /// How often the backlog was dropped and replayed; see [`crate::Overflow::Replay`].
    pub fn replays(&self) -> u64 {
        self.reader.replays
    }

    /// The informer of this subscription.
    pub fn informer(&self) -> &Informer<T> {
        &self.informer
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> HandlerPanicked {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        tracing::error!(
            informer = self.informer.name(),
            message,
            "event handler panicked; its subscription ends"
        );
        HandlerPanicked { informer: self.informer.name().to_owned(), message }
    }
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, delivery: Delivery) -> Self {
        let handle = shared.join(delivery);
        Self { handle, shared, gate: SyncTracker::default(), resync: None, replays: 0 }
    }

    pub(crate) async fn next(&mut self) -> Option<Vec<Delta<dyn AnyObject>>> {
        let shared = self.shared.clone();
        loop {
            let notified = shared.changed.notified();
            let (deltas, closed) = self.take();
            if !deltas.is_empty() {
                return Some(deltas);
            }
            if closed {
                return None;
            }
            let Some(resync) = self.resync.as_ref().map(|resync| resync.next) else {
                notified.await;
                continue;
            };
            tokio::select! {
                biased;
                () = notified => {}
                () = sleep_until(resync) => {}
            }
        }
    }

    pub(crate) fn take(&mut self) -> (Vec<Delta<dyn AnyObject>>, bool) {
        let resync = self.is_resync_due();
        let SubscriberRead { taken, view, synced, closed } = self.shared.take(&mut self.handle, resync);
        let mut deltas = self.deltas(taken);
        if let Some(view) = view {
            add_resyncs(&view, &mut deltas);
        }
        self.gate.took(synced, deltas.is_empty());
        (deltas, closed)
    }

    fn deltas(&mut self, taken: PendingChanges) -> Vec<Delta<dyn AnyObject>> {
        match taken {
            PendingChanges::All(view) => added(&view).collect(),
            PendingChanges::Merged(contents) => backlog::deltas(contents),
            PendingChanges::Each(initial, batches) => {
                let initial = initial.iter().flat_map(added);
                let changes = batches.iter().flat_map(|batch| &batch.changes);
                initial.chain(changes.flat_map(Change::deltas)).collect()
            }
            PendingChanges::Replayed(contents) => {
                self.replays += 1;
                backlog::deltas(contents)
            }
        }
    }

    fn is_resync_due(&mut self) -> bool {
        let Some(resync) = &mut self.resync else { return false };
        let now = Instant::now();
        if now < resync.next {
            return false;
        }
        resync.next += resync.period;
        if resync.next <= now {
            resync.next = now + resync.period;
        }
        true
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.leave(self.handle);
    }
}

fn added(cache: &Arc<Indexer>) -> impl Iterator<Item = Delta<dyn AnyObject>> {
    cache.iter().map(Delta::Added)
}

/// Adds a resync delta for each object of the cache that `deltas` does not contain.
fn add_resyncs(cache: &Indexer, deltas: &mut Vec<Delta<dyn AnyObject>>) {
    let delivered: HashSet<Key> = deltas.iter().map(|delta| delta.object().key()).collect();
    deltas.extend(cache.iter().filter(|object| !delivered.contains(&object.key())).map(Delta::Resync));
}

/// A handle to wait for one subscriber's sync. Clones wait for the same event.
#[derive(Clone, Debug)]
pub struct SubscriptionSynced(Arc<SyncLatch>);

#[derive(Debug, Default)]
struct SyncLatch {
    reached: AtomicBool,
    /// Cancelled when the sync is reached or can no longer be.
    is_decided: CancellationToken,
}

impl SubscriptionSynced {
    /// Waits until the subscriber has handled its initial deltas.
    ///
    /// # Errors
    /// When the subscription is dropped before.
    pub async fn wait(&self) -> Result<(), Stopped> {
        self.0.is_decided.cancelled().await;
        if self.is_synced() { Ok(()) } else { Err(Stopped) }
    }

    /// Whether the subscriber has handled its initial deltas.
    pub fn is_synced(&self) -> bool {
        self.0.reached.load(Ordering::Acquire)
    }
}

/// The subscriber's side of a [`SubscriptionSynced`].
#[derive(Default)]
pub(crate) struct SyncTracker {
    latch: Arc<SyncLatch>,
    /// Whether all of a complete state has been taken.
    caught_up: bool,
}

impl SyncTracker {
    pub(crate) fn synced(&self) -> SubscriptionSynced {
        SubscriptionSynced(self.latch.clone())
    }

    /// Records that the subscriber took its pending changes. `synced` tells whether they lead to a complete
    /// state, `nothing` whether there were none.
    pub(crate) fn took(&mut self, synced: bool, nothing: bool) {
        if (self.caught_up || synced && nothing) && !self.latch.is_decided.is_cancelled() {
            self.latch.reached.store(true, Ordering::Release);
            self.latch.is_decided.cancel();
        }
        self.caught_up |= synced;
    }
}

impl Drop for SyncTracker {
    fn drop(&mut self) {
        self.latch.is_decided.cancel();
    }
}
