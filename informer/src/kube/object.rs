//! [`Kube`]: wrapper for objects of kube-rs or k8s-openapi in an informer.

use crate::{Key, Object, Revision};
use kube_client::core::Resource;
use std::ops::Deref;

/// A Kubernetes object with its key and revision. Dereferences to the object.
#[derive(Clone, Debug)]
pub struct Kube<K> {
    key: Key,
    revision: Revision,
    object: K,
}

impl<K: Resource> Kube<K> {
    /// Wraps an object at its own `resourceVersion`; a non-numeric version counts as zero.
    pub fn new(object: K) -> Self {
        let revision = object.meta().resource_version.as_deref().and_then(|v| v.parse().ok());
        Self::at(object, Revision(revision.unwrap_or_default()))
    }

    /// Wraps an object at this revision.
    pub fn at(object: K, revision: Revision) -> Self {
        let meta = object.meta();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { key: Key::new(&text(&meta.namespace), &text(&meta.name)), revision, object }
    }

    /// The wrapped object.
    pub fn into_inner(self) -> K {
        self.object
    }
}

impl<K> Deref for Kube<K> {
    type Target = K;
    fn deref(&self) -> &K {
        &self.object
    }
}

impl<K: Resource + Send + Sync + 'static> Object for Kube<K> {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> &str {
        self.object.meta().uid.as_deref().unwrap_or_default()
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn generation(&self) -> Option<i64> {
        self.object.meta().generation
    }

    fn controller(&self) -> Option<(String, Key)> {
        let owners = self.object.meta().owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
        Some((owner.uid.clone(), Key::new(self.key.namespace(), &owner.name)))
    }
}
