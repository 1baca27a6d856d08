//! [`Context`]: the input of one reconcile run (key, causes, attempt), and the record of the writes that the
//! run made.

use super::own_writes::Fences;
use crate::limits::OWN_WRITE_DEADLINE;
use crate::{Causes, Cut, CutError, Informer, Key, KeyLease, Object, Revision, snapshot};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::timeout;

fn floor(causes: &Causes, written: Revision) -> Arc<AtomicU64> {
    let newest = causes.revisions().last().copied().unwrap_or_default();
    Arc::new(AtomicU64::new(newest.max(written).0))
}

/// Input of one reconcile run: its key and why it runs.
#[derive(Clone)]
pub struct Context {
    /// The key to reconcile.
    pub key: Key,
    /// Revisions that triggered this run. Writes of the run should send them.
    pub causes: Causes,
    /// Number of failed runs of this key since its last success.
    pub attempt: u32,
    /// Whether the caches may not show the writes of earlier runs of this key yet. True only when a watch is
    /// far behind. A run for which old state is dangerous should end without writing; the key runs again when
    /// the caches have caught up.
    pub stale: bool,
    /// Lower bound for consistent reads: the newest revision among the causes, the writes of earlier runs and
    /// the writes of this run so far. `None` if the watched sources have unrelated histories.
    floor: Option<Arc<AtomicU64>>,
    /// Revision of the newest write of this run.
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
        Self {
            key,
            attempt: 0,
            stale: false,
            floor,
            causes,
            written: Arc::default(),
            fences: Arc::new(Mutex::new(Fences::of_run(Fences::default()))),
        }
    }

    /// The context of a run that starts with the fences of earlier runs, whose newest write is `written`.
    pub(super) fn new(lease: &KeyLease<Key>, comparable: bool, fences: Fences, written: Revision) -> Self {
        Self {
            key: lease.key().clone(),
            causes: lease.causes().clone(),
            attempt: lease.attempt(),
            stale: !fences.is_empty(),
            floor: comparable.then(|| floor(lease.causes(), written)),
            written: Arc::default(),
            fences: Arc::new(Mutex::new(Fences::of_run(fences))),
        }
    }

    /// Records that this run wrote `revision` of a kind that `informer` caches. The key runs again only after
    /// that cache shows the write, so that the next run does not repeat it. After [`OWN_WRITE_DEADLINE`] the
    /// key runs anyway, marked as [stale](Context::stale).
    ///
    /// If the cache shows the write by a complete state and not by its event, the key runs again without any other change: what happened
    /// to the write before that state is unknown, and its object may be gone without an event.
    ///
    /// Many writes to the same cache cost as much as one. Without effect for a source whose revisions are the
    /// adapter's own numbers ([`Revisions::Opaque`](crate::Revisions::Opaque)); use [`crate::client_go::Expectations`]
    /// there.
    pub fn wrote<T: Object>(&self, informer: &Informer<T>, revision: Revision) {
        if let Some(floor) = &self.floor {
            floor.fetch_max(revision.0, Ordering::Relaxed);
            self.written.fetch_max(revision.0, Ordering::Relaxed);
        }
        self.fences.lock().add(informer, revision);
    }

    /// A consistent view of several informers at one revision. The revision covers the causes of this run,
    /// its writes so far and the writes of earlier runs of the key. That bound holds only if all watched
    /// sources share one domain; otherwise the view is at a revision that all informers already show. Pass a
    /// tuple of references: `cx.cut((&sets, &pods))`.
    ///
    /// # Errors
    /// [`CutError::Late`] if the informers do not reach the revision within [`OWN_WRITE_DEADLINE`]; return
    /// the error to retry the run. For the others see [`CutError`].
    pub async fn cut<C: Cut>(&self, informers: C) -> Result<C::Views, CutError> {
        let floor = self.floor.as_ref().map(|floor| Revision(floor.load(Ordering::Relaxed)));
        timeout(OWN_WRITE_DEADLINE, snapshot(floor, informers)).await.unwrap_or(Err(CutError::Late))
    }

    /// Fences of the writes of this run so far, and of earlier writes that no cache shows yet.
    pub(super) fn fences(&self) -> Arc<Mutex<Fences>> {
        self.fences.clone()
    }

    /// Revision of the newest write of the run so far, zero before the first. The worker reads it after the
    /// run.
    pub(super) fn written(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }
}
