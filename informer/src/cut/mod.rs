//! [`snapshot`]: views of several caches at one common revision, for decisions that read several kinds. These caches
//! must share one [`Domain`], whose revisions form one history.

#[cfg(test)]
mod tests;

use crate::limits::CUT_TRIES;
use crate::lister_watcher::Domain;
use crate::{Informer, Object, Revision, Revisions, Stopped, View, ViewError};
use std::future::Future;

/// Why there is no common revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// One of the informers has ended.
    #[error("an informer has stopped")]
    Stopped,
    /// The informers do not share one history, so no revision is common. A retry cannot help.
    #[error("the informers do not share a revision domain")]
    DifferentDomains,
    /// Whenever all informers had reached one revision, one of them no longer had it in its undo log. Retry,
    /// or with fewer changes.
    #[error("the requested revision is no longer available in all informers")]
    TooOld,
    /// The informers have not reached the revision in the time that a run may wait ([`crate::Context::cut`]).
    /// Retry later.
    #[error("timed out waiting for the informers to reach the revision")]
    Late,
}

impl From<Stopped> for CutError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Views of several informers at one revision, at least `at` if given.
///
/// Returns at once when all informers can show the revision of the slowest. Otherwise it waits until all have
/// reached the revision of the fastest, or `at`. Kinds without changes advance by the progress frames of
/// their sources. Pass two to six informers as a tuple of references; the views have the same order.
///
/// # Errors
/// See [`CutError`].
pub async fn snapshot<C: Cut>(at: Option<Revision>, informers: C) -> Result<C::Views, CutError> {
    informers.cut(at.unwrap_or_default()).await
}

/// A tuple of informers for [`snapshot`]. Implemented for two to six.
pub trait Cut: sealed::Sealed {
    /// The views, in the order of the informers.
    type Views;
    /// Takes the views; called by [`snapshot`].
    fn cut(self, at: Revision) -> impl Future<Output = Result<Self::Views, CutError>> + Send;
}

mod sealed {
    pub trait Sealed {}
}

/// An informer of any object type.
trait SnapshotPart: Sync {
    fn domain(&self) -> Option<Domain>;
    fn reached(&self) -> Option<Revision>;
}

impl<T: Object> SnapshotPart for Informer<T> {
    fn domain(&self) -> Option<Domain> {
        match self.revisions() {
            Revisions::Shared(domain) => Some(domain),
            Revisions::Own | Revisions::Opaque => None,
        }
    }

    fn reached(&self) -> Option<Revision> {
        self.is_synced().then(|| self.revision())
    }
}

fn check_domains(parts: &[&dyn SnapshotPart]) -> Result<(), CutError> {
    let first = parts.first().and_then(|part| part.domain()).ok_or(CutError::DifferentDomains)?;
    match parts.iter().all(|part| part.domain().as_ref() == Some(&first)) {
        true => Ok(()),
        false => Err(CutError::DifferentDomains),
    }
}

/// The revision that all informers have reached, if it is at least `at`.
fn common(parts: &[&dyn SnapshotPart], at: Revision) -> Option<Revision> {
    let reached: Option<Vec<Revision>> = parts.iter().map(|part| part.reached()).collect();
    reached?.into_iter().min().filter(|revision| *revision >= at)
}

/// The revision that all informers must reach: the newest among them.
fn newest(parts: &[&dyn SnapshotPart], at: Revision) -> Revision {
    parts.iter().filter_map(|part| part.reached()).max().unwrap_or_default().max(at)
}

/// Waits for a revision and returns the informer's view at it; `None` if the undo log no longer reaches it.
async fn view_when<T: Object>(
    informer: &Informer<T>,
    revision: Revision,
) -> Result<Option<View<T>>, CutError> {
    informer.wait_for(revision).await?;
    match informer.view_at(revision) {
        Ok(view) => Ok(Some(view)),
        // `NotYet`: the source went back to an older history meanwhile.
        Err(ViewError::TooOld(_) | ViewError::NotYet(_)) => Ok(None),
    }
}

macro_rules! cut {
    ($($object:ident $informer:ident),+) => {
        impl<$($object: Object),+> sealed::Sealed for ($(&Informer<$object>,)+) {}

        impl<$($object: Object),+> Cut for ($(&Informer<$object>,)+) {
            type Views = ($(View<$object>,)+);

            async fn cut(self, at: Revision) -> Result<Self::Views, CutError> {
                let ($($informer,)+) = self;
                let parts: &[&dyn SnapshotPart] = &[$($informer),+];
                check_domains(parts)?;
                for _ in 0..CUT_TRIES {
                    if let Some(revision) = common(parts, at)
                        && let ($(Ok($informer),)+) = ($($informer.view_at(revision),)+)
                    {
                        return Ok(($($informer,)+));
                    }
                    let revision = newest(parts, at);
                    // Waits for all informers concurrently, and takes each view as soon as its informer has
                    // the revision.
                    if let ($(Some($informer),)+) = futures::try_join!($(view_when($informer, revision)),+)? {
                        return Ok(($($informer,)+));
                    }
                }
                Err(CutError::TooOld)
            }
        }
    };
}

cut!(A a, B b);
cut!(A a, B b, C c);
cut!(A a, B b, C c, D d);
cut!(A a, B b, C c, D d, E e);
cut!(A a, B b, C c, D d, E e, F f);
