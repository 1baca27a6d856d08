//! [`Shared`]: what the driver, the handles and the subscriptions of one informer share. Short locks, never over an await.
//!
//! Lock order: `waiters`, then `cache`, then `hub`. Bells ring, waiters wake and old objects drop when no lock is held.

use std::any::Any;

use parking_lot::{Mutex, RwLock};
use tokio::{sync::Notify, time::Instant};

use crate::{
    Delivery, Object, Revision, Revisions, Status, Stopped, View, ViewError,
    history::Cache,
    hub::{Hub, Seat, Taken},
    indexer::Indexer,
    informer::figures::{Asked, Waiting},
    reflector::Apply,
    status::Doing,
    waiters::Waiters,
};

pub(crate) struct Shared<T> {
    pub(crate) name: String,
    pub(crate) revisions: Revisions,
    /// What the driver asked of the source.
    pub(crate) asked: Asked,
    cache: RwLock<Cache<T>>,
    /// Changed under the cache's lock, so that one who joins misses nothing and hears nothing twice.
    hub: Mutex<Hub<T>>,
    waiters: Mutex<Waiters>,
    status: Mutex<Status>,
    /// Rung for the subscribers: something came, or nothing will come any more.
    pub(crate) bell: Notify,
    /// Rung for the driver: a subscriber that lets the source wait has read, or is gone.
    room: Notify,
}

/// What a subscriber takes, and what was true at that moment.
pub(crate) struct Taking<T> {
    pub taken: Taken<T>,
    /// The cache, for those who want to hear of all of it again.
    pub view: Option<View<T>>,
    pub synced: bool,
    pub closed: bool,
}

impl<T: Object> Shared<T> {
    pub(crate) fn new(name: String, cache: Indexer<T>, revisions: Revisions) -> Self {
        Self {
            name,
            revisions,
            asked: Asked::default(),
            cache: RwLock::new(Cache::new(cache)),
            hub: Mutex::default(),
            waiters: Mutex::default(),
            status: Mutex::new(Status::Starting),
            bell: Notify::new(),
            room: Notify::new(),
        }
    }

    /// Moves the cache, then tells everyone.
    pub(crate) fn apply(&self, apply: Apply<T>) {
        let complete = matches!(apply, Apply::Replace(_));
        let _span = tracing::debug_span!("indexer", informer = self.name).entered();
        let batch = {
            let mut cache = self.cache.write();
            let batch = cache.apply(apply, Instant::now());
            self.hub.lock().publish(&batch, complete);
            batch
        };
        if complete || !batch.changes.is_empty() {
            self.bell.notify_waiters();
        }
        let released = self.waiters.lock().reached(batch.revision, complete);
        released.release();
    }

    /// Resolves when no subscriber lets the source wait.
    pub(crate) async fn room(&self) {
        loop {
            let rung = self.room.notified();
            if !self.hub.lock().is_full() {
                return;
            }
            rung.await;
        }
    }

    /// The state now. Costs two reference counts.
    pub(crate) fn view(&self) -> View<T> {
        View(self.cache.read().now().clone())
    }

    /// Looks at the state now. The function must be short: it holds up the driver.
    pub(crate) fn look<R>(&self, at: impl FnOnce(&Indexer<T>) -> R) -> R {
        at(self.cache.read().now())
    }

    /// The state at a revision.
    pub(crate) fn view_at(&self, revision: Revision) -> Result<View<T>, ViewError> {
        let past = self.cache.read().at(revision)?;
        Ok(View(past.make()))
    }

    /// A new subscriber, with all cached objects pending.
    pub(crate) fn join(&self, delivery: Delivery) -> Seat {
        let cache = self.cache.read();
        self.hub.lock().join(delivery, || View(cache.now().clone()))
    }

    pub(crate) fn leave(&self, seat: Seat) {
        self.hub.lock().leave(seat);
        self.room.notify_one();
    }

    /// What a subscriber has not seen; with the whole cache at that moment if it asks.
    pub(crate) fn take(&self, seat: &mut Seat, all: bool) -> Taking<T> {
        // One who only merges need not wait while the driver applies a batch.
        let cache = (all || !matches!(seat, Seat::Merging(_))).then(|| self.cache.read());
        let view = || View(cache.as_ref().expect("the cache was locked for it").now().clone());
        let taking = {
            let mut hub = self.hub.lock();
            let taken = hub.take(seat, view);
            Taking { taken, view: all.then(view), synced: hub.synced, closed: hub.closed }
        };
        drop(cache);
        if matches!(seat, Seat::Queue(_)) {
            self.room.notify_one();
        }
        taking
    }

    pub(crate) fn pending(&self, seat: Seat) -> usize {
        let cache = self.cache.read();
        self.hub.lock().pending(seat, cache.now().len())
    }

    /// What waits for all subscribers that have begun to read.
    pub(crate) fn unread(&self) -> Waiting {
        self.hub.lock().waiting()
    }

    pub(crate) fn status(&self) -> Status {
        self.status.lock().clone()
    }

    pub(crate) fn report(&self, doing: &Doing<'_>) {
        let mut status = self.status.lock();
        *status = status.then(doing, Instant::now());
    }

    pub(crate) fn stop(&self) {
        *self.status.lock() = Status::Stopped;
        let held = self.waiters.lock().stop();
        drop(held);
        self.hub.lock().closed = true;
        self.bell.notify_waiters();
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.waiters.lock().is_synced()
    }

    pub(crate) async fn synced(&self) -> Result<(), Stopped> {
        let receiver = {
            let mut waiters = self.waiters.lock();
            if waiters.is_synced() {
                return Ok(());
            }
            if waiters.is_stopped() {
                return Err(Stopped);
            }
            waiters.wait_for_sync()
        };
        receiver.await.map_err(|_| Stopped)
    }

    pub(crate) async fn wait_for(&self, revision: Revision) -> Result<(), Stopped> {
        let (entry, receiver) = {
            // The cache is read under the waiters' lock: a move after it will find the entry.
            let mut waiters = self.waiters.lock();
            if self.has(revision) && waiters.is_synced() {
                return Ok(());
            }
            if waiters.is_stopped() {
                return Err(Stopped);
            }
            waiters.wait_for(revision)
        };
        let _forget = Forget { waiters: &self.waiters, entry };
        receiver.await.map_err(|_| Stopped)
    }

    pub(crate) fn hold_until(&self, revision: Revision, held: impl Any + Send) {
        let mut waiters = self.waiters.lock();
        if waiters.is_stopped() || self.has(revision) && waiters.is_synced() {
            drop(waiters);
            drop(held);
        } else {
            waiters.hold(revision, Box::new(held));
        }
    }

    /// How many wait for a revision.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.lock().len()
    }

    /// Whether the cache shows `revision`.
    pub(crate) fn has(&self, revision: Revision) -> bool {
        self.cache.read().now().revision() >= revision
    }

    #[cfg(test)]
    pub(crate) fn hub(&self) -> parking_lot::MutexGuard<'_, Hub<T>> {
        self.hub.lock()
    }

    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.cache.read().remembered()
    }
}

/// Takes a waiter out again when its future is dropped.
struct Forget<'a> {
    waiters: &'a Mutex<Waiters>,
    entry: (Revision, u64),
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.waiters.lock().forget(self.entry);
    }
}
