//! [`snapshot`]: several caches at one common revision, for decisions that read more than one kind. The caches must be of one
//! [`Domain`], whose revisions are one history.

#[cfg(test)]
mod tests;

use std::future::Future;

use crate::{
    Informer, Object, Revision, Revisions, Stopped, View, ViewError, limits::CUT_TRIES,
    lister_watcher::Domain,
};

/// Why there is no common revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// One of the informers has ended.
    #[error("an informer has ended")]
    Stopped,
    /// The informers' revisions are not those of one history, so no revision means the same to all. Nothing to retry.
    #[error("the informers are not of one domain")]
    DifferentDomains,
    /// Each time when all had come to one revision, one of them had forgotten it already. Try again, or with fewer changes.
    #[error("the informers are too far apart")]
    TooOld,
    /// They have not come so far in the time that a run may wait ([`crate::Context::cut`]). Try again later.
    #[error("the informers have not come so far in time")]
    Late,
}

impl From<Stopped> for CutError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Views of several informers at one revision, which is `at` or later if that is given.
///
/// Taken at once when the informers can all show the revision of the slowest of them; otherwise waits until all have come
/// as far as the fastest is now, or as far as was asked. Kinds without changes come along by the progress that their sources
/// tell. Give two to six informers, as a tuple of references; the views come in the same order.
///
/// # Errors
/// See [`CutError`].
pub async fn snapshot<C: Cut>(at: Option<Revision>, informers: C) -> Result<C::Views, CutError> {
    informers.cut(at.unwrap_or_default()).await
}

/// A tuple of informers that [`snapshot`] can cut. Implemented here for two to six.
pub trait Cut: sealed::Sealed {
    /// The views, in the order of the informers.
    type Views;
    /// See [`snapshot`].
    fn cut(self, at: Revision) -> impl Future<Output = Result<Self::Views, CutError>> + Send;
}

mod sealed {
    pub trait Sealed {}
}

/// One informer, whatever its type.
trait Part: Sync {
    fn domain(&self) -> Option<Domain>;
    fn reached(&self) -> Option<Revision>;
}

impl<T: Object> Part for Informer<T> {
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

fn check_domains(parts: &[&dyn Part]) -> Result<(), CutError> {
    let first = parts.first().and_then(|part| part.domain()).ok_or(CutError::DifferentDomains)?;
    match parts.iter().all(|part| part.domain().as_ref() == Some(&first)) {
        true => Ok(()),
        false => Err(CutError::DifferentDomains),
    }
}

/// The revision that all have reached, if it is at least `at`.
fn common(parts: &[&dyn Part], at: Revision) -> Option<Revision> {
    let reached: Option<Vec<Revision>> = parts.iter().map(|part| part.reached()).collect();
    reached?.into_iter().min().filter(|revision| *revision >= at)
}

/// The revision that all are to reach: the newest that one of them shows.
fn newest(parts: &[&dyn Part], at: Revision) -> Revision {
    parts.iter().filter_map(|part| part.reached()).max().unwrap_or_default().max(at)
}

/// The informer's state at a revision that it may still have to reach; `None` if it has forgotten it by the time it is asked.
async fn view_when<T: Object>(
    informer: &Informer<T>,
    revision: Revision,
) -> Result<Option<View<T>>, CutError> {
    informer.wait_for(revision).await?;
    match informer.view_at(revision) {
        Ok(view) => Ok(Some(view)),
        // Not yet: its source went back to an older history meanwhile.
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
                let parts: &[&dyn Part] = &[$($informer),+];
                check_domains(parts)?;
                for _ in 0..CUT_TRIES {
                    if let Some(revision) = common(parts, at)
                        && let ($(Ok($informer),)+) = ($($informer.view_at(revision),)+)
                    {
                        return Ok(($($informer,)+));
                    }
                    let revision = newest(parts, at);
                    // All wait at once: each is asked in the moment that it is there.
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
