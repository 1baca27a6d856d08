//! [`Object`] and [`Revision`]: everything that the crate must know about a cached object.

use crate::Key;
use std::fmt;
use std::sync::Arc;

/// A point in the history of a source: Kubernetes' `resourceVersion`. Revisions of one source are ordered;
/// those of two sources are not comparable. Zero is before all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A cached object in one state. Immutable after creation.
pub trait Object: Send + Sync + 'static {
    /// Namespace and name. Called often: store the key in the object and return a cheap clone.
    fn key(&self) -> Key;
    /// Identity that distinguishes the object from an earlier one of the same name.
    fn uid(&self) -> &str;
    /// The revision of this state.
    fn revision(&self) -> Revision;
    /// Uid and key of the controller owner, if any.
    fn controller(&self) -> Option<(String, Key)> {
        None
    }
    /// `metadata.generation`: a number that changes with the spec but not with the status, if the kind has
    /// one.
    fn generation(&self) -> Option<i64> {
        None
    }
}

impl<T: Object + ?Sized> Object for Arc<T> {
    fn key(&self) -> Key {
        T::key(self)
    }
    fn uid(&self) -> &str {
        T::uid(self)
    }
    fn revision(&self) -> Revision {
        T::revision(self)
    }
    fn controller(&self) -> Option<(String, Key)> {
        T::controller(self)
    }
    fn generation(&self) -> Option<i64> {
        T::generation(self)
    }
}
