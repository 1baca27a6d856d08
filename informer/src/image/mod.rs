//! [`CacheSet`] and [`CacheImage`]: caches that a copy of a component takes over. Informers over a copy of a source start with the objects
//! and indexes that the original's informers had, and share their memory until one of both changes.

#[cfg(test)]
mod tests;

use crate::cache::indexer::Indexer;
use crate::shared::Shared;
use crate::{Capabilities, Revision, Revisions};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

/// The caches of one component's informers, by name. [`CacheSet::image`] takes their states, and [`CacheSet::from_image`] makes a set
/// whose informers start with them. An informer belongs to a set by [`crate::Builder::caches`]. Clones are the same set.
///
/// ```
/// use kstore_informer::testing::{FakeStore, Sample};
/// use kstore_informer::{Builder, CacheSet, Revision};
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let store = FakeStore::new();
/// let pods = store.kind::<Sample>("pods");
/// pods.put(Sample::new("default", "web"));
/// let (caches, stop) = (CacheSet::default(), Default::default());
/// let original = Builder::new(pods.source()).name("pods").caches(&caches).spawn(&stop);
/// original.synced().await.unwrap();
///
/// let copies = CacheSet::from_image(&caches.image(), store.revision());
/// let copy = Builder::new(pods.source()).name("pods").caches(&copies).spawn(&stop);
/// assert!(std::sync::Arc::ptr_eq(&copy.list()[0], &original.list()[0]));
/// # });
/// ```
#[derive(Clone, Default)]
pub struct CacheSet(Arc<Mutex<CacheSetState>>);

#[derive(Default)]
struct CacheSetState {
    /// States of an image that no informer has taken.
    untaken: BTreeMap<String, Arc<Indexer>>,
    /// The revision of the source at the image: an informer from the image is synced when its cache shows it.
    revision: Revision,
    running: BTreeMap<String, Registered>,
}

/// The informers of one name.
enum Registered {
    One(Weak<Shared>),
    /// Two at once, which may have different selectors: no copy can tell which state is its own.
    Ambiguous,
}

/// States of the caches of one component at about one moment. It is immutable, and keeps no informer alive.
#[derive(Clone, Default)]
pub struct CacheImage {
    states: BTreeMap<String, Arc<Indexer>>,
}

impl CacheImage {
    /// Whether informers that start from the image have nothing to share.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

impl fmt::Debug for CacheImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.states.keys()).finish()
    }
}

impl CacheSet {
    /// A set without informers, whose informers start with the states of `image`. `revision` is one of their source that is not older than
    /// the image: an informer is synced once it has read all changes up to it.
    ///
    /// The source must continue the history that the image's source had, and an informer must have the type, the selectors and the indexes
    /// of the informer of its name in the image. A state is used once: an informer that is started again reads its source.
    pub fn from_image(image: &CacheImage, revision: Revision) -> Self {
        let state = CacheSetState { untaken: image.states.clone(), revision, running: BTreeMap::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Takes the states of all caches. The cost does not depend on the number of objects. Without any state if an informer has none yet,
    /// because a component whose informers start with different ages reads its source again.
    ///
    /// Left out are two informers of one name, and informers whose source has no revisions that a copy shares.
    pub fn image(&self) -> CacheImage {
        let set = self.0.lock();
        let mut states = set.untaken.clone();
        for (name, registered) in &set.running {
            let Registered::One(shared) = registered else { continue };
            let Some(shared) = shared.upgrade() else { continue };
            let state = shared.view();
            if state.revision() == Revision::default() {
                return CacheImage::default();
            }
            states.insert(name.clone(), state);
        }
        CacheImage { states }
    }

    /// Lets the caches read up to `revision` soon, so that informers from the next image have little to read.
    pub fn demand(&self, revision: Revision) {
        self.running().iter().for_each(|shared| shared.demand(revision));
    }

    /// Waits until all caches show `revision`, which their source has or will have: informers from an image that is taken then have little
    /// to read. An informer that stops is not waited for.
    pub async fn reached(&self, revision: Revision) {
        for shared in self.running() {
            // Only one that has stopped does not get there.
            let _ = shared.wait_for(revision).await;
        }
    }

    /// The informers whose states an image takes.
    fn running(&self) -> Vec<Arc<Shared>> {
        let set = self.0.lock();
        let one = |registered: &Registered| match registered {
            Registered::One(shared) => shared.upgrade(),
            Registered::Ambiguous => None,
        };
        set.running.values().filter_map(one).collect()
    }

    /// Fills an empty cache with the state of this name, if there is one of its type with its indexes. Returns the revision at which the
    /// informer is synced.
    pub(crate) fn fill(
        &self,
        name: &str,
        cache: &mut Indexer,
        capabilities: &Capabilities,
    ) -> Option<Revision> {
        let mut set = self.0.lock();
        let state = set.untaken.remove(name)?;
        (can_copy(capabilities) && cache.adopt(&state)).then_some(set.revision)
    }

    /// Adds an informer to the set.
    pub(crate) fn add(&self, shared: &Arc<Shared>, capabilities: &Capabilities) {
        if !can_copy(capabilities) {
            return;
        }
        let mut set = self.0.lock();
        let entry = match set.running.get(&shared.name) {
            Some(Registered::One(other)) if other.strong_count() == 0 => {
                Registered::One(Arc::downgrade(shared))
            }
            Some(_) => Registered::Ambiguous,
            None => Registered::One(Arc::downgrade(shared)),
        };
        set.running.insert(shared.name.clone(), entry);
    }
}

impl fmt::Debug for CacheSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lock().running.keys()).finish()
    }
}

/// Whether a copy of the source can resume where the original was: revisions mean the same in both, and that of a cache is complete.
fn can_copy(capabilities: &Capabilities) -> bool {
    matches!(capabilities.revisions, Revisions::Shared(_)) && !capabilities.splits_revisions
}
