//! What the crate must know of an object: [`Object`] and [`Revision`]. Everything else about it is its owner's matter.

use std::{fmt, sync::Arc};

use crate::Key;

/// A point in the history of the source: Kubernetes calls it resourceVersion. Revisions of one source are ordered;
/// those of two sources are not comparable. Zero is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something that an informer can hold: one state of one object. Never changed once it is made.
pub trait Object: Send + Sync + 'static {
    /// Its name. Called often: keep the key in the object, a clone is cheap.
    fn key(&self) -> Key;
    /// The identity that distinguishes it from an earlier object of the same name.
    fn uid(&self) -> &str;
    /// The revision that made this state.
    fn revision(&self) -> Revision;
    /// Uid and key of the object that controls it, if there is one.
    fn controller(&self) -> Option<(String, Key)> {
        None
    }
    /// The number of what its owner wants of it, which changes with that and not with its status, if it has one.
    fn generation(&self) -> Option<i64> {
        None
    }
}

impl<T: Object> Object for Arc<T> {
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
