//! [`Informer`]: a cache of a source's objects that keeps itself up to date, shared by all who clone it. `builder` makes one,
//! `driver` is its task; here is what its readers can do.

pub(crate) mod figures;
#[cfg(test)]
mod tests;

use std::{borrow::Borrow, sync::Arc};

use tokio_util::sync::DropGuard;

use crate::{
    Delivery, Index, Key, Lister, Object, Revision, Revisions, Status, Subscription, Undecodable, View,
    ViewError, indexer::Indexer, shared::Shared,
};

/// The informer has ended: its stop was cancelled, or every handle to it was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has ended")]
pub struct Stopped;

/// A handle to a shared cache. Clones are the same informer; it ends when its stop is cancelled, or when the last handle
/// and the last subscription are dropped. Reads never block on the network.
pub struct Informer<T> {
    shared: Arc<Shared<T>>,
    /// Ends the driver with the last handle.
    guard: Arc<DropGuard>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), guard: self.guard.clone() }
    }
}

impl<T: Object> Informer<T> {
    /// The name given by [`crate::Builder::name`].
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The cached object of this key.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.shared.look(|cache| cache.get(key).cloned())
    }

    /// All cached objects, in key order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.view().iter().cloned().collect()
    }

    /// The cached objects of one namespace, in key order.
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.view().namespace(namespace).cloned().collect()
    }

    /// The cached objects under `value`, in key order; costs what it gives back.
    ///
    /// # Panics
    /// When the index was not declared with [`crate::Builder::index`].
    pub fn by<K, Q>(&self, index: &Index<T, K>, value: &Q) -> Vec<Arc<T>>
    where
        K: Ord + Clone + Borrow<Q> + Send + Sync + 'static,
        Q: Ord + ?Sized,
    {
        self.view().by(index, value).cloned().collect()
    }

    /// The whole cache at one revision. Costs nothing to speak of, whatever the size.
    pub fn view(&self) -> View<T> {
        self.shared.view()
    }

    /// The whole cache as it was at a past revision, if the cache remembers: the newest [`crate::limits::UNDO_CHANGES`] changes,
    /// none older than [`crate::limits::UNDO_AGE`], and none from before the last complete list. Costs what has
    /// changed since. Which objects could not be read is told as it is now.
    ///
    /// # Errors
    /// [`ViewError::NotYet`] and [`ViewError::TooOld`].
    pub fn view_at(&self, revision: Revision) -> Result<View<T>, ViewError> {
        self.shared.view_at(revision)
    }

    /// The reads alone.
    pub fn lister(&self) -> Lister<T> {
        Lister::new(self.clone())
    }

    /// What the revisions of this cache can be compared with, as its source says.
    pub fn revisions(&self) -> Revisions {
        self.shared.revisions.clone()
    }

    /// How many objects are cached.
    pub fn len(&self) -> usize {
        self.shared.look(Indexer::len)
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Objects that the source could not read; the cache holds their last readable state, or nothing.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.shared.look(|cache| cache.undecodable().cloned().collect())
    }

    /// The revision that the cache shows.
    pub fn revision(&self) -> Revision {
        self.shared.look(Indexer::revision)
    }

    /// Whether the first state has arrived.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Waits until the first state has arrived.
    ///
    /// # Errors
    /// When the informer ends before.
    pub async fn synced(&self) -> Result<(), Stopped> {
        self.shared.synced().await
    }

    /// Waits until the cache shows `revision` or a later one. Subscribers have the changes pending by then.
    ///
    /// # Errors
    /// When the informer ends before.
    pub async fn wait_for(&self, revision: Revision) -> Result<(), Stopped> {
        self.shared.wait_for(revision).await
    }

    /// Waits until the object of `key`, or its absence, satisfies `done`, and gives back what did.
    ///
    /// # Errors
    /// When the informer ends before.
    pub async fn until(
        &self,
        key: &Key,
        mut done: impl FnMut(Option<&T>) -> bool,
    ) -> Result<Option<Arc<T>>, Stopped> {
        self.synced().await?;
        loop {
            let (object, revision) = self.shared.look(|cache| (cache.get(key).cloned(), cache.revision()));
            if done(object.as_deref()) {
                return Ok(object);
            }
            self.wait_for(Revision(revision.0 + 1)).await?;
        }
    }

    /// What the informer is doing.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// A stream of the changes, merged per key, beginning with everything that is cached when it is first read as
    /// [`crate::Delta::Added`]. Drop it to leave.
    pub fn subscribe(&self) -> Subscription<T> {
        self.subscribe_with(Delivery::Coalesce)
    }

    /// A stream of the changes as `delivery` says, beginning with everything that is cached as [`crate::Delta::Added`]:
    /// for a lossless one everything that is cached now.
    pub fn subscribe_with(&self, delivery: Delivery) -> Subscription<T> {
        Subscription::new(self.clone(), delivery)
    }

    /// Keeps `held` until the cache shows `revision` or the informer has ended, and drops it then; at once if it is so
    /// already. It is dropped by whoever moves the cache: its drop must be quick, and must not wait.
    pub fn hold_until(&self, revision: Revision, held: impl Send + 'static) {
        self.shared.hold_until(revision, held);
    }

    /// A handle to what a driver feeds; the driver ends with the last clone.
    pub(crate) fn new(shared: Arc<Shared<T>>, guard: DropGuard) -> Self {
        Self { shared, guard: Arc::new(guard) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<T>> {
        &self.shared
    }
}
