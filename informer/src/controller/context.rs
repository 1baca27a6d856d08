//! [`Context`]: what a run is told, and what it tells about its writes.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use super::fence::Fences;
use crate::{Causes, Informer, Key, Lease, Object, Revision};

/// One run: for which key, and why.
#[derive(Clone)]
pub struct Context {
    /// The key to bring into its wanted state.
    pub key: Key,
    /// What led to this run. Writes should carry it.
    pub causes: Causes,
    /// Failed runs of this key since its last success.
    pub attempt: u32,
    /// The caches do not show the writes of the runs before this one: what they did may not be seen here. True only when a
    /// watch is far behind. A run that would do harm on an old state should end without writing; the next one comes when the
    /// caches have caught up, or is told the same.
    pub stale: bool,
    fences: Arc<Mutex<Fences>>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, causes, attempt, stale, .. } = self;
        f.debug_struct("Context")
            .field("key", key)
            .field("causes", causes)
            .field("attempt", attempt)
            .field("stale", stale)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// A context outside of a controller, for tests of a reconcile function.
    pub fn detached(key: Key, causes: Causes) -> Self {
        Self { key, causes, attempt: 0, stale: false, fences: Arc::default() }
    }

    /// The context of a run that begins with the fences of earlier ones.
    pub(super) fn new(lease: &Lease<Key>, fences: Fences) -> Self {
        Self {
            key: lease.key().clone(),
            causes: lease.causes().clone(),
            attempt: lease.attempt(),
            stale: !fences.is_empty(),
            fences: Arc::new(Mutex::new(fences)),
        }
    }

    /// Says that this run wrote `revision` of a kind that `informer` caches: the key runs again only when that cache shows
    /// the write, so that the next run does not repeat it. After [`OWN_WRITE_DEADLINE`](crate::limits::OWN_WRITE_DEADLINE)
    /// it runs anyway, and is told that it is [stale](Context::stale).
    ///
    /// Costs the same for one write as for many to the same cache.
    pub fn wrote<T: Object>(&self, informer: &Informer<T>, revision: Revision) {
        self.fences.lock().add(informer, revision);
    }

    /// What the run has written so far, and earlier ones that no cache shows.
    pub(super) fn fences(&self) -> Arc<Mutex<Fences>> {
        self.fences.clone()
    }
}
