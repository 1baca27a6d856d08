//! [`Context`]: what a run is told, and what it tells about its writes.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::time::timeout;

use super::fence::Fences;
use crate::{
    Causes, Cut, CutError, Informer, Key, Lease, Object, Revision, limits::OWN_WRITE_DEADLINE, snapshot,
};

fn floor(causes: &Causes, written: Revision) -> Arc<AtomicU64> {
    let newest = causes.revisions().last().copied().unwrap_or_default();
    Arc::new(AtomicU64::new(newest.max(written).0))
}

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
    /// The newest of the causes, of the writes of earlier runs, and then of the writes of this run. Nothing, if what is watched
    /// tells of several histories.
    floor: Option<Arc<AtomicU64>>,
    /// The newest write of this run.
    written: Arc<AtomicU64>,
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
        let floor = Some(floor(&causes, Revision::default()));
        Self { key, attempt: 0, stale: false, floor, causes, written: Arc::default(), fences: Arc::default() }
    }

    /// The context of a run that begins with the fences of earlier ones, whose newest write is `written`.
    pub(super) fn new(lease: &Lease<Key>, comparable: bool, fences: Fences, written: Revision) -> Self {
        Self {
            key: lease.key().clone(),
            causes: lease.causes().clone(),
            attempt: lease.attempt(),
            stale: !fences.is_empty(),
            floor: comparable.then(|| floor(lease.causes(), written)),
            written: Arc::default(),
            fences: Arc::new(Mutex::new(fences)),
        }
    }

    /// Says that this run wrote `revision` of a kind that `informer` caches: the key runs again only when that cache shows
    /// the write, so that the next run does not repeat it. After [`OWN_WRITE_DEADLINE`]
    /// it runs anyway, and is told that it is [stale](Context::stale).
    ///
    /// Costs the same for one write as for many to the same cache. Without effect if the source's revisions are its
    /// adapter's own numbers ([`Revisions::Opaque`](crate::Revisions::Opaque)); there [`crate::Expectations`] serve.
    pub fn wrote<T: Object>(&self, informer: &Informer<T>, revision: Revision) {
        if let Some(floor) = &self.floor {
            floor.fetch_max(revision.0, Ordering::Relaxed);
            self.written.fetch_max(revision.0, Ordering::Relaxed);
        }
        self.fences.lock().add(informer, revision);
    }

    /// The state of several informers at one revision, at least that of everything that led to this run, of what it has written
    /// so far and of what earlier runs of the key wrote (if everything that the controller watches is of one domain; else that of what the informers show).
    /// Give a tuple of references: `cx.cut((&sets, &pods))`.
    ///
    /// # Errors
    /// See [`CutError`]. [`CutError::Late`] if the informers have not come so far in
    /// [`OWN_WRITE_DEADLINE`]; the run should be retried.
    pub async fn cut<C: Cut>(&self, informers: C) -> Result<C::Views, CutError> {
        let floor = self.floor.as_ref().map(|floor| Revision(floor.load(Ordering::Relaxed)));
        timeout(OWN_WRITE_DEADLINE, snapshot(floor, informers)).await.unwrap_or(Err(CutError::Late))
    }

    /// What the run has written so far, and earlier ones that no cache shows.
    pub(super) fn fences(&self) -> Arc<Mutex<Fences>> {
        self.fences.clone()
    }

    /// The newest write of the run so far, zero before the first; for who looks when the run has ended.
    pub(super) fn written(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }
}
