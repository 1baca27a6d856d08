//! [`AnyObject`]: an object without its type. Reflector, cache, subscribers and driver work on [`SharedObject`]s, so their code
//! exists once in a program instead of once for each type of object. [`crate::Builder`] erases the type of what a source delivers;
//! [`crate::Informer`], [`crate::View`] and [`crate::Subscription`] return it to their callers.

use crate::Object;
use std::any::Any;
use std::sync::Arc;

/// An [`Object`] whose type is known only at run time. Implemented for all objects.
pub trait AnyObject: Object + Any {}

impl<T: Object> AnyObject for T {}

/// An object of any type, as [`crate::ListerWatcher::erased`] delivers it and caches share it.
pub type SharedObject = Arc<dyn AnyObject>;

/// The object with its type.
///
/// # Panics
/// When the object has another type: each cache has objects of one type.
pub(crate) fn typed<T: Object>(object: SharedObject) -> Arc<T> {
    let object: Arc<dyn Any + Send + Sync> = object;
    object.downcast().unwrap_or_else(|_| wrong_type())
}

/// Like [`typed`], for a borrowed object.
pub(crate) fn typed_ref<T: 'static>(object: &dyn AnyObject) -> &T {
    let object: &dyn Any = object;
    object.downcast_ref().unwrap_or_else(|| wrong_type())
}

#[cold]
pub(crate) fn wrong_type() -> ! {
    unreachable!("a cache has objects of one type")
}
