//! [`Lister`]: a read-only handle to an informer's cache. For code that should not subscribe, wait or stop.

use crate::{Informer, Key, Object, View};
use std::sync::Arc;

/// Reads a cache as of each call. For consistent reads take a [`Lister::view`].
pub struct Lister<T>(Informer<T>);

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Object> Lister<T> {
    /// A lister over the cache of `informer`, which it keeps alive.
    pub fn new(informer: Informer<T>) -> Self {
        Self(informer)
    }

    /// The object of this key, if it exists.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.0.get(key)
    }

    /// The objects that `selects` accepts, in key order. Iterates all objects; an [`crate::Index`] does not.
    pub fn list(&self, selects: impl FnMut(&T) -> bool) -> Vec<Arc<T>> {
        selected(self.view().iter(), selects)
    }

    /// A lister for the objects of one namespace.
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> NamespaceLister<'a, T> {
        NamespaceLister { lister: self, namespace }
    }

    /// A consistent view of all objects at one revision.
    pub fn view(&self) -> View<T> {
        self.0.view()
    }
}

/// Reads the objects of one namespace.
pub struct NamespaceLister<'a, T> {
    lister: &'a Lister<T>,
    namespace: &'a str,
}

impl<T: Object> NamespaceLister<'_, T> {
    /// The object of this name, if it exists.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.lister.get(&Key::new(self.namespace, name))
    }

    /// The objects that `selects` accepts, in name order. Iterates only the namespace.
    pub fn list(&self, selects: impl FnMut(&T) -> bool) -> Vec<Arc<T>> {
        selected(self.lister.view().namespace(self.namespace), selects)
    }
}

fn selected<'a, T: 'a>(
    objects: impl Iterator<Item = &'a Arc<T>>,
    mut selects: impl FnMut(&T) -> bool,
) -> Vec<Arc<T>> {
    objects.filter(|object| selects(object)).cloned().collect()
}
