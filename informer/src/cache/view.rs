//! [`View`]: an immutable, consistent state of a cache at one revision. It blocks no other reader or writer.

use crate::cache::indexer::Indexer;
use crate::{Index, Key, Object, Revision};
use std::borrow::Borrow;
use std::sync::Arc;

/// A consistent view of an informer's cache. Taking one is cheap; while it exists, the cache copies what it
/// changes.
pub struct View<T>(pub(crate) Arc<Indexer<T>>);

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Object> View<T> {
    /// The revision of the view.
    pub fn revision(&self) -> Revision {
        self.0.revision()
    }

    /// The object of this key.
    pub fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.0.get(key)
    }

    /// All objects, in key order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.0.iter()
    }

    /// The objects of one namespace, in key order.
    pub fn namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.0.namespace(namespace)
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
        self.0.by(index, value)
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
        self.0.count_by(index, value)
    }

    /// The values of an index that have objects, in order.
    ///
    /// # Panics
    /// When the index was not declared with [`crate::Builder::index`].
    pub fn values<K>(&self, index: &Index<T, K>) -> impl Iterator<Item = &K>
    where
        K: Ord + Clone + Send + Sync + 'static,
    {
        self.0.values(index)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the view has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
