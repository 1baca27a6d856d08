//! Cleaning up outside of the server before an object goes: [`finalize`] puts an entry into the object's list of finalizers, and takes
//! it out when the cleaning is done. It knows no list itself; [`Finalizers`] does.

#[cfg(test)]
mod tests;

use std::future::Future;

use crate::{Action, Object, Revision};

/// A change of an object's list of finalizers, with what must be true for it to be made. As a JSON patch that is a `test` and
/// an `add` or `remove` of the same place: someone else's entry is never touched, whatever has happened since the object was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Put `name` at the end. The object must be that of the uid and not yet being deleted: no server takes new finalizers
    /// then. Where the list is empty it must still be empty, since the first entry makes the list.
    Add {
        /// The entry.
        name: &'a str,
        /// The list is empty, or there is none.
        first: bool,
    },
    /// Take out the entry at the place `at`, which must be `name`.
    Remove {
        /// The entry.
        name: &'a str,
        /// Its place, counted from zero.
        at: usize,
    },
}

/// How finalizers of one kind are read and written.
pub trait Finalizers: Sync {
    /// The cached object.
    type Obj: Object;
    /// Why a write failed; also if something was not as the [`Edit`] demands.
    type Error: Send;

    /// The list, in its order.
    fn list(object: &Self::Obj) -> impl Iterator<Item = &str>;

    /// Whether somebody asked for the deletion.
    fn is_deleting(object: &Self::Obj) -> bool;

    /// Writes the edit, provided that it fits and that the object still has its uid. Gives back the revision it made.
    fn edit(
        &self,
        object: &Self::Obj,
        edit: Edit<'_>,
    ) -> impl Future<Output = Result<Revision, Self::Error>> + Send;
}

/// What the owner of a finalizer has to do for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Make the world outside as the object says. The finalizer is in place.
    Apply,
    /// Clean up. Once that has succeeded the object may go. Must also succeed if there is nothing (left) to clean.
    Cleanup,
}

/// Why [`finalize`] failed. Each is retried by returning it from the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinalizeError<E, W> {
    /// The duty failed. After a failed cleanup the finalizer stays.
    #[error("{0}")]
    Duty(E),
    /// The list could not be written, perhaps since it changed meanwhile.
    #[error("finalizer: {0}")]
    Edit(W),
}

/// What a run of [`finalize`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalized {
    /// What the run wants next.
    pub action: Action,
    /// The list was written with this revision: [`crate::Context::wrote`] wants to know it, so that the next run sees it.
    pub wrote: Option<Revision>,
}

/// Does what is due for `object`, as the cache shows it:
///
/// | | without our entry | with it |
/// |---|---|---|
/// | it stays | the entry is put in; the change brings the next run | [`Duty::Apply`] |
/// | it is to go | nothing: others' finalizers hold it | [`Duty::Cleanup`], then the entry is taken out |
///
/// So nothing is made outside before the entry is in place, and the entry goes only after a cleanup that succeeded.
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
    let place = F::list(object).position(|entry| entry == name);
    let edit = match (place, F::is_deleting(object)) {
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
