//! [`View`]: an immutable, consistent state of a cache at one revision. It blocks no other reader or writer.

use crate::cache::indexer::Indexer;
use crate::{Index, Key, Object, Revision};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// A consistent view of an informer's cache. Taking one is cheap; while it exists, the cache copies what it
/// changes.
pub struct View<T> {
    cache: Arc<Indexer>,
    object: PhantomData<fn() -> T>,
}

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), object: PhantomData }
    }
}

impl<T: Object> View<T> {
    pub(crate) fn new(cache: Arc<Indexer>) -> Self {
        Self { cache, object: PhantomData }
    }

    /// The objects at these slots.
    fn at(&self, slots: impl Iterator<Item = u32>) -> impl Iterator<Item = &Arc<T>> {
        let objects = self.cache.typed::<T>();
        slots.filter_map(move |slot| objects.at(slot))
    }

    /// The revision of the view.
    pub fn revision(&self) -> Revision {
        self.cache.revision()
    }

    /// The object of this key.
    pub fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.cache.typed().at(self.cache.slot(key)?)
    }

    /// All objects, in key order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.at(self.cache.slots())
    }

    /// The objects of one namespace, in key order.
    pub fn namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.at(self.cache.namespace(namespace))
    }

    /// The objects under `value`, in key order.
    ///
    /// # Panics
    /// When the index was not declared with [`crate::Builder::index`].
    pub fn by<K, Q>(&self, index: &Index<T, K>, value: &Q) -> impl Iterator<Item = &Arc<T>>
    where
        K: Ord + Clone + Borrow<Q> + Send + Sync + 'static,
        Q: Ord + ?Sized,
    {
        self.at(self.cache.by(index, value))
    }

    /// Number of objects under `value`. The cost does not depend on it.
    ///
    /// # Panics
    /// When the index was not declared with [`crate::Builder::index`].
    pub fn count_by<K, Q>(&self, index: &Index<T, K>, value: &Q) -> usize
    where
        K: Ord + Clone + Borrow<Q> + Send + Sync + 'static,
        Q: Ord + ?Sized,
    {
        self.cache.count_by(index, value)
    }

    /// The values of an index that have objects, in order.
    ///
    /// # Panics
    /// When the index was not declared with [`crate::Builder::index`].
    pub fn values<K>(&self, index: &Index<T, K>) -> impl Iterator<Item = &K>
    where
        K: Ord + Clone + Send + Sync + 'static,
    {
        self.cache.values(index)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether the view has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
