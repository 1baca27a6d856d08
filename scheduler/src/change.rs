//! [`Change`]: what an informer shows of an object.

use std::sync::Arc;

/// A change of an object.
#[derive(Clone, Debug)]
pub enum Change<T> {
    /// The object exists in this state.
    Set(Arc<T>),
    /// The object is deleted; this is its last known state.
    Gone(Arc<T>),
}
