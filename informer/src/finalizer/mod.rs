//! External cleanup before an object is deleted: [`finalize`] adds a finalizer to the object and removes it
//! after the cleanup. It reads and writes the list through the trait [`Finalizers`].

#[cfg(test)]
mod tests;

use crate::{Action, Object, Revision};
use std::future::Future;

/// Conditional change of an object's list of finalizers. As a JSON patch it is a `test` and an `add` or
/// `remove` at the same index. It never touches other finalizers, even if the object changed since it was
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Appends `name`. Precondition: the object has the same uid and is not being deleted, because servers
    /// refuse new finalizers then. If the list was empty it must still be empty, because the first entry
    /// creates the list.
    Add {
        /// The finalizer.
        name: &'a str,
        /// Whether the list is empty or absent.
        first: bool,
    },
    /// Removes the entry at index `at`, which must be `name`.
    Remove {
        /// The finalizer.
        name: &'a str,
        /// Index of the finalizer in the list, from zero.
        at: usize,
    },
}

/// Access to the finalizers of one kind.
pub trait Finalizers: Sync {
    /// The cached object.
    type Obj: Object;
    /// Error type of writes; includes failed preconditions of an [`Edit`].
    type Error: Send;

    /// The finalizers of `object`, in order.
    fn list(object: &Self::Obj) -> impl Iterator<Item = &str>;

    /// Whether `object` has a deletion timestamp.
    fn is_deleting(object: &Self::Obj) -> bool;

    /// Applies the edit if its precondition holds and the object has the same uid. Returns the new revision.
    fn edit(
        &self,
        object: &Self::Obj,
        edit: Edit<'_>,
    ) -> impl Future<Output = Result<Revision, Self::Error>> + Send;
}

/// The work that the owner of a finalizer does for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Apply the object's desired state outside of the cluster. The finalizer is in place.
    Apply,
    /// Clean up outside of the cluster; success allows the deletion. Must also succeed if there is nothing to
    /// clean up.
    Cleanup,
}

/// Error of [`finalize`]. Return it from the run to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinalizeError<E, W> {
    /// The duty failed. After a failed cleanup the finalizer stays.
    #[error("{0}")]
    Duty(E),
    /// Writing the list failed, for example because it changed concurrently.
    #[error("cannot update finalizers: {0}")]
    Edit(W),
}

/// Result of [`finalize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalized {
    /// The action to return from the run.
    pub action: Action,
    /// Revision of the written list; pass it to [`crate::Context::wrote`], so that the next run sees it.
    pub wrote: Option<Revision>,
}

/// Adds the finalizer `name`, applies `object`, or cleans up and removes the finalizer, depending on its
/// cached state:
///
/// | | without the finalizer | with the finalizer |
/// |---|---|---|
/// | live | adds the finalizer; the change triggers the next run | [`Duty::Apply`] |
/// | being deleted | nothing: other finalizers hold the object | [`Duty::Cleanup`], then removes the finalizer |
///
/// Nothing is created externally before the finalizer is stored, and only a successful cleanup removes it.
///
/// # Errors
/// See [`FinalizeError`].
pub async fn finalize<F, E, Fut>(
    store: &F,
    name: &str,
    object: &F::Obj,
    duty: impl FnOnce(Duty) -> Fut,
) -> Result<Finalized, FinalizeError<E, F::Error>>
where
    F: Finalizers,
    Fut: Future<Output = Result<Action, E>>,
{
    let position = F::list(object).position(|entry| entry == name);
    let edit = match (position, F::is_deleting(object)) {
        (None, true) => return Ok(Finalized { action: Action::Done, wrote: None }),
        (None, false) => Edit::Add { name, first: F::list(object).next().is_none() },
        (Some(_), false) => {
            let action = duty(Duty::Apply).await.map_err(FinalizeError::Duty)?;
            return Ok(Finalized { action, wrote: None });
        }
        (Some(at), true) => {
            duty(Duty::Cleanup).await.map_err(FinalizeError::Duty)?;
            Edit::Remove { name, at }
        }
    };
    let revision = store.edit(object, edit).await.map_err(FinalizeError::Edit)?;
    Ok(Finalized { action: Action::Done, wrote: Some(revision) })
}
