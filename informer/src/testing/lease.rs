//! [`FakeLease`]: leases whose objects are deleted unless the lease is kept alive, as in etcd. Time is
//! tokio's: with a paused clock a lease expires exactly when the test advances the time.

use super::{FakeKind, FakeStore, Inner, State, StoreError, Stored};
use crate::{Key, Object, Revision};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A lease of a [`FakeStore`]. Dropping the handle does not end it.
pub struct FakeLease {
    store: FakeStore,
    id: u64,
}

/// The store's data of a lease.
pub(super) struct Leased {
    ttl: Duration,
    until: Instant,
    objects: Vec<LeasedObject>,
}

struct LeasedObject {
    kind: String,
    key: Key,
    /// Copies a state with the revision of its deletion.
    end: fn(&State, Revision) -> Option<State>,
}

impl FakeStore {
    /// Creates a lease that expires after `ttl` unless kept alive.
    pub fn lease(&self, ttl: Duration) -> FakeLease {
        let mut inner = self.lock();
        inner.next_lease += 1;
        let (id, until) = (inner.next_lease, Instant::now() + ttl);
        inner.leases.insert(id, Leased { ttl, until, objects: Vec::new() });
        drop(inner);
        self.ring();
        FakeLease { store: self.clone(), id }
    }

    /// When the next lease expires.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.lock().leases.values().map(|lease| lease.until).min()
    }
}

impl FakeLease {
    /// Extends the lease by its full time to live.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when it has ended.
    pub fn keep_alive(&self) -> Result<(), StoreError> {
        let mut inner = self.store.lock();
        let lease = inner.leases.get_mut(&self.id).ok_or(StoreError::NotFound)?;
        lease.until = Instant::now() + lease.ttl;
        Ok(())
    }

    /// Ends the lease now and deletes its objects.
    pub fn revoke(&self) {
        self.store.lock().end_lease(self.id);
        self.store.ring();
    }

    /// Whether the lease has ended.
    pub fn is_over(&self) -> bool {
        !self.store.lock().leases.contains_key(&self.id)
    }
}

impl<T: Stored> FakeKind<T> {
    /// Creates or updates an object that is deleted when the lease ends.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the lease has ended.
    pub fn put_under(&self, object: T, lease: &FakeLease) -> Result<Arc<T>, StoreError> {
        let (kind, key) = (self.name.clone(), object.key());
        let mut inner = self.store.lock();
        let leased = inner.leases.get_mut(&lease.id).ok_or(StoreError::NotFound)?;
        leased.objects.push(LeasedObject { kind, key, end: end::<T> });
        drop(inner);
        Ok(self.put(object))
    }
}

impl Inner {
    /// Ends expired leases.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(id) = self.leases.iter().find(|(_, lease)| lease.until <= now).map(|(id, _)| *id) {
            self.end_lease(id);
        }
    }

    /// Ends a lease; each object is deleted at its own revision.
    fn end_lease(&mut self, id: u64) {
        let Some(lease) = self.leases.remove(&id) else { return };
        for LeasedObject { kind, key, end } in lease.objects {
            let Some(state) = self.live.remove(&(kind.clone(), key.clone())) else { continue };
            self.revision += 1;
            if let Some(last) = end(&state, Revision(self.revision)) {
                self.record(&kind, &key, last, true);
            }
        }
    }
}

fn end<T: Stored>(state: &State, revision: Revision) -> Option<State> {
    let state: Arc<dyn Any + Send + Sync> = state.clone();
    let old: Arc<T> = state.downcast().ok()?;
    let mut last = (*old).clone();
    last.stamp(old.uid(), revision);
    Some(Arc::new(last))
}
