//! [`Shared`]: state shared by the driver, the handles and the subscriptions of one informer. Locks are short
//! and never held over an await.
//!
//! Lock order: `waiters`, then `cache`, then `hub`. Wakers are called and old objects are dropped only
//! without a lock.

use crate::any_object::SharedObject;
use crate::cache::history::{Cache, StateNumber};
use crate::cache::indexer::Indexer;
use crate::hub::waiters::Waiters;
use crate::hub::{BacklogSize, PendingChanges, SubscriberHandle, Subscribers};
use crate::reflector::CacheUpdate;
use crate::status::ReflectorActivity;
use crate::{Delivery, Key, Revision, Revisions, Status, Stopped, ViewError};
use parking_lot::{Mutex, RwLock};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Counters of the driver's requests to the source and of their failures.
#[derive(Debug, Default)]
pub(crate) struct SourceCounters {
    pub(crate) lists: AtomicU64,
    pub(crate) watches: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// Passes a demanded revision to the source, if the source still exists.
pub(crate) type Demand = Box<dyn Fn(Revision) + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) revisions: Revisions,
    /// Counters of the driver's requests to the source.
    pub(crate) requests: SourceCounters,
    cache: RwLock<Cache>,
    /// Changed under the cache's lock, so that a new subscriber misses no change and gets none twice.
    hub: Mutex<Subscribers>,
    waiters: Mutex<Waiters>,
    /// The revision at which a cache that started with an image's state is synced; `None`: with its first complete state.
    synced_at: Option<Revision>,
    /// Tells the source which revision a waiter needs: [`crate::ListerWatcher::demand`]. Called without a lock.
    demand: Demand,
    status: Mutex<Status>,
    /// Notifies subscribers of changes and of the end.
    pub(crate) changed: Notify,
    /// Notifies the driver that a subscriber with [`crate::Overflow::SlowSource`] has read or is gone.
    room: Notify,
}

/// Changes that a subscriber takes, and the state of the informer at that moment.
pub(crate) struct SubscriberRead {
    pub taken: PendingChanges,
    /// The whole cache, for subscribers whose resync is due.
    pub view: Option<Arc<Indexer>>,
    pub synced: bool,
    pub closed: bool,
}

impl Shared {
    pub(crate) fn new(
        name: String,
        cache: Indexer,
        revisions: Revisions,
        demand: Demand,
        synced_at: Option<Revision>,
    ) -> Self {
        let is_synced = synced_at.is_some_and(|at| cache.revision() >= at);
        Self {
            name,
            revisions,
            requests: SourceCounters::default(),
            cache: RwLock::new(Cache::new(cache)),
            hub: Mutex::new(Subscribers::new(is_synced)),
            waiters: Mutex::new(Waiters::new(is_synced)),
            synced_at,
            demand,
            status: Mutex::new(Status::Starting),
            changed: Notify::new(),
            room: Notify::new(),
        }
    }

    /// Updates the cache, then notifies subscribers and waiters.
    pub(crate) fn apply(&self, apply: CacheUpdate) {
        let is_whole = matches!(apply, CacheUpdate::Replace(_));
        let _span = tracing::debug_span!("indexer", informer = self.name).entered();
        let (batch, complete) = {
            let mut cache = self.cache.write();
            let batch = cache.apply(apply, Instant::now());
            let mut hub = self.hub.lock();
            let completes_image = self.synced_at.is_some_and(|at| !hub.synced && batch.revision >= at);
            let complete = is_whole || completes_image;
            hub.publish(&batch, complete);
            (batch, complete)
        };
        if complete || !batch.changes.is_empty() {
            self.changed.notify_waiters();
        }
        let released = self.waiters.lock().reached(batch.revision, complete);
        released.release();
    }

    /// Waits until no subscriber's full queue stops the source.
    pub(crate) async fn room(&self) {
        loop {
            let notified = self.room.notified();
            if !self.hub.lock().is_full() {
                return;
            }
            notified.await;
        }
    }

    /// The current state. Costs two reference counts.
    pub(crate) fn view(&self) -> Arc<Indexer> {
        self.cache.read().now().clone()
    }

    /// Reads the current state. The function must be short: it blocks the driver.
    pub(crate) fn look<R>(&self, at: impl FnOnce(&Indexer) -> R) -> R {
        at(self.cache.read().now())
    }

    /// The cached object of this key.
    pub(crate) fn get(&self, key: &Key) -> Option<SharedObject> {
        self.look(|cache| cache.get(key))
    }

    /// The cached object of this key, and the revision of the cache.
    pub(crate) fn get_with_revision(&self, key: &Key) -> (Option<SharedObject>, Revision) {
        self.look(|cache| (cache.get(key), cache.revision()))
    }

    /// The state at a revision.
    pub(crate) fn view_at(&self, revision: Revision) -> Result<Arc<Indexer>, ViewError> {
        let past = self.cache.read().at(revision)?;
        Ok(past.make())
    }

    /// Adds a subscriber, with all cached objects pending.
    pub(crate) fn join(&self, delivery: Delivery) -> SubscriberHandle {
        let cache = self.cache.read();
        self.hub.lock().join(delivery, || cache.now().clone())
    }

    pub(crate) fn leave(&self, handle: SubscriberHandle) {
        self.hub.lock().leave(handle);
        self.room.notify_one();
    }

    /// The changes that a subscriber has not seen, and the whole cache at that moment if `all`.
    pub(crate) fn take(&self, handle: &mut SubscriberHandle, all: bool) -> SubscriberRead {
        // A merging subscriber does not need the cache and so need not wait for the driver.
        let cache = (all || !matches!(handle, SubscriberHandle::Merging(_))).then(|| self.cache.read());
        let view = || cache.as_ref().expect("the cache was locked above").now().clone();
        let taking = {
            let mut hub = self.hub.lock();
            let taken = hub.take(handle, view);
            SubscriberRead { taken, view: all.then(view), synced: hub.synced, closed: hub.closed }
        };
        drop(cache);
        if matches!(handle, SubscriberHandle::Queue(_)) {
            self.room.notify_one();
        }
        taking
    }

    pub(crate) fn pending(&self, handle: SubscriberHandle) -> usize {
        let cache = self.cache.read();
        self.hub.lock().pending(handle, cache.now().len())
    }

    /// Pending changes of all subscribers that have started to read.
    pub(crate) fn unread(&self) -> BacklogSize {
        self.hub.lock().waiting()
    }

    pub(crate) fn status(&self) -> Status {
        self.status.lock().clone()
    }

    pub(crate) fn report(&self, doing: &ReflectorActivity<'_>) {
        let mut status = self.status.lock();
        *status = status.then(doing, Instant::now());
    }

    pub(crate) fn stop(&self) {
        *self.status.lock() = Status::Stopped;
        let guard = self.waiters.lock().stop();
        drop(guard);
        self.hub.lock().closed = true;
        self.changed.notify_waiters();
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

    /// Waits until the cache shows `revision`, and demands it from the source.
    pub(crate) async fn wait_for(&self, revision: Revision) -> Result<(), Stopped> {
        self.wait(revision, true).await
    }

    /// Waits until a change or any progress takes the cache beyond `revision`. Demands nothing: a change
    /// arrives without it.
    pub(crate) async fn wait_beyond(&self, revision: Revision) -> Result<(), Stopped> {
        self.wait(Revision(revision.0 + 1), false).await
    }

    async fn wait(&self, revision: Revision, is_demanded: bool) -> Result<(), Stopped> {
        let (entry, receiver) = {
            // Read under the waiters' lock: a later update of the cache will find the entry.
            let mut waiters = self.waiters.lock();
            if self.has(revision) && waiters.is_synced() {
                return Ok(());
            }
            if waiters.is_stopped() {
                return Err(Stopped);
            }
            waiters.wait_for(revision)
        };
        let _forget = ForgetOnDrop { waiters: &self.waiters, entry };
        // After the entry: what the source delivers from now on finds it.
        if is_demanded {
            (self.demand)(revision);
        }
        receiver.await.map_err(|_| Stopped)
    }

    /// The revision of the state that an image gave, if the cache started with one, which the driver calls before any change.
    pub(crate) fn image_revision(&self) -> Option<Revision> {
        self.synced_at.map(|_| self.look(Indexer::revision))
    }

    /// Demands from the source what a cache from an image needs to be synced.
    pub(crate) fn demand_sync(&self) {
        if let Some(at) = self.synced_at.filter(|_| !self.is_synced()) {
            self.demand(at);
        }
    }

    /// Demands a revision from the source.
    pub(crate) fn demand(&self, revision: Revision) {
        (self.demand)(revision);
    }

    pub(crate) fn hold_until(&self, revision: Revision, guard: impl Any + Send) {
        let mut waiters = self.waiters.lock();
        if waiters.is_stopped() || self.has(revision) && waiters.is_synced() {
            drop(waiters);
            drop(guard);
        } else {
            waiters.hold(revision, Box::new(guard));
            drop(waiters);
            (self.demand)(revision);
        }
    }

    /// Number of waiters for a revision.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.lock().len()
    }

    /// Whether the cache shows `revision`.
    pub(crate) fn has(&self, revision: Revision) -> bool {
        self.cache.read().now().revision() >= revision
    }

    /// The revision that the cache shows, and the number of the newest complete state that replaced it.
    pub(crate) fn shown(&self) -> (Revision, StateNumber) {
        let cache = self.cache.read();
        (cache.now().revision(), cache.replaced())
    }

    #[cfg(test)]
    pub(crate) fn hub(&self) -> parking_lot::MutexGuard<'_, Subscribers> {
        self.hub.lock()
    }

    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.cache.read().remembered()
    }
}

/// Removes a waiter when its future is dropped.
struct ForgetOnDrop<'a> {
    waiters: &'a Mutex<Waiters>,
    entry: (Revision, u64),
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.waiters.lock().forget(self.entry);
    }
}
