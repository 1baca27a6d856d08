//! [`Informer`]: a shared, self-updating cache of a source's objects. `builder` creates it, `driver` is its
//! task; this file has the operations of its readers.

pub(crate) mod metrics;
#[cfg(test)]
mod tests;

use crate::any_object::typed;
use crate::cache::indexer::Indexer;
use crate::shared::Shared;
use crate::{Index, Key, Object, Revision, Revisions, Status, Stopped, Undecodable, View, ViewError};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;
use tokio_util::sync::DropGuard;

/// Handle to a shared cache of a source's objects. Clones are the same informer. It ends when its stop is
/// cancelled, or when the last handle and the last subscription are dropped. Reads never block on the
/// network.
pub struct Informer<T> {
    shared: Arc<Shared>,
    object: PhantomData<fn() -> T>,
    /// Ends the driver when the last handle is dropped.
    guard: Arc<DropGuard>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), object: PhantomData, guard: self.guard.clone() }
    }
}

impl<T: Object> Informer<T> {
    /// The name given by [`crate::Builder::name`].
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The cached object of this key.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.shared.get(key).map(typed)
    }

    /// All cached objects, in key order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.view().iter().cloned().collect()
    }

    /// The cached objects of one namespace, in key order.
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.view().namespace(namespace).cloned().collect()
    }

    /// The cached objects under `value` of an index, in key order. The cost is proportional to the result.
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

    /// A consistent view of the whole cache at one revision. The cost does not depend on its size.
    pub fn view(&self) -> View<T> {
        View::new(self.shared.view())
    }

    /// A view of the whole cache at a past revision. The cache remembers the newest
    /// [`crate::limits::UNDO_CHANGES`] changes that are younger than [`crate::limits::UNDO_AGE`] and follow
    /// the last complete list. The cost is proportional to the changes since. The list of undecodable objects
    /// is the current one.
    ///
    /// # Errors
    /// [`ViewError::NotYet`] and [`ViewError::TooOld`].
    pub fn view_at(&self, revision: Revision) -> Result<View<T>, ViewError> {
        self.shared.view_at(revision).map(View::new)
    }

    /// How the revisions of this cache compare with others, as its source declares.
    pub fn revisions(&self) -> Revisions {
        self.shared.revisions.clone()
    }

    /// Number of cached objects.
    pub fn len(&self) -> usize {
        self.shared.look(Indexer::len)
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Objects that the source could not decode; the cache holds their last decodable state, or nothing.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.shared.look(|cache| cache.undecodable().cloned().collect())
    }

    /// The revision of the cache.
    pub fn revision(&self) -> Revision {
        self.shared.look(Indexer::revision)
    }

    /// Whether the initial state has arrived.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Waits until the initial state has arrived.
    ///
    /// # Errors
    /// When the informer ends before.
    pub async fn synced(&self) -> Result<(), Stopped> {
        self.shared.synced().await
    }

    /// Waits until the cache shows `revision` or a later one. The changes are then already pending for
    /// subscribers.
    ///
    /// # Errors
    /// When the informer ends before.
    pub async fn wait_for(&self, revision: Revision) -> Result<(), Stopped> {
        self.shared.wait_for(revision).await
    }

    /// Waits until `done` accepts the object of `key` or its absence, and returns the accepted state.
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
            let (object, revision) = self.shared.get_with_revision(key);
            let object = object.map(typed);
            if done(object.as_deref()) {
                return Ok(object);
            }
            self.shared.wait_beyond(revision).await?;
        }
    }

    /// Current activity of the informer.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Keeps `guard` until the cache shows `revision` or the informer ends, then drops it; at once if that is
    /// already so. The task that updates the cache drops it, so its `drop` must be quick and must not block.
    pub fn hold_until(&self, revision: Revision, guard: impl Send + 'static) {
        self.shared.hold_until(revision, guard);
    }

    /// A handle to the state that a driver updates; the driver ends with the last clone.
    pub(crate) fn new(shared: Arc<Shared>, guard: DropGuard) -> Self {
        Self { shared, object: PhantomData, guard: Arc::new(guard) }
    }

    pub(crate) fn guard(&self) -> &Arc<DropGuard> {
        &self.guard
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}
