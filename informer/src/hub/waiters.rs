//! [`Waiters`]: tasks and guards that wait for revisions of one cache. Pure; the senders wake tasks.

use crate::Revision;
use std::any::Any;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// A guard that is kept until a revision is reached; dropping it signals its owner.
pub(crate) type HeldGuard = Box<dyn Any + Send>;

/// Waiters for revisions and for the initial sync of one cache.
#[derive(Default)]
pub(crate) struct Waiters {
    by_revision: BTreeMap<(Revision, u64), Waiter>,
    for_sync: Vec<oneshot::Sender<()>>,
    synced: bool,
    stopped: bool,
    next: u64,
}

enum Waiter {
    Task(oneshot::Sender<()>),
    HeldGuard(HeldGuard),
}

/// Waiters to wake and guards to drop after all locks are released, because a drop may run arbitrary code.
#[derive(Default)]
pub(crate) struct ReleasedWaiters(Vec<Waiter>);

impl Waiters {
    /// No waiters; `synced`: the cache starts with a complete state.
    pub(crate) fn new(synced: bool) -> Self {
        Self { synced, ..Self::default() }
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A receiver that resolves with the initial sync; it fails when the informer stops.
    pub(crate) fn wait_for_sync(&mut self) -> oneshot::Receiver<()> {
        self.for_sync.retain(|waiter| !waiter.is_closed());
        let (sender, receiver) = oneshot::channel();
        self.for_sync.push(sender);
        receiver
    }

    /// A receiver that resolves at `revision`. The caller must [`Waiters::forget`] the entry when its future
    /// is dropped.
    pub(crate) fn wait_for(&mut self, revision: Revision) -> ((Revision, u64), oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (self.enter(revision, Waiter::Task(sender)), receiver)
    }

    /// Keeps a guard until `revision`.
    pub(crate) fn hold(&mut self, revision: Revision, guard: HeldGuard) {
        self.enter(revision, Waiter::HeldGuard(guard));
    }

    fn enter(&mut self, revision: Revision, waiter: Waiter) -> (Revision, u64) {
        let entry = (revision, self.next);
        self.next += 1;
        self.by_revision.insert(entry, waiter);
        entry
    }

    pub(crate) fn forget(&mut self, entry: (Revision, u64)) {
        self.by_revision.remove(&entry);
    }

    /// Records that the cache shows `revision`; `complete` if a complete state was applied.
    #[must_use]
    pub(crate) fn reached(&mut self, revision: Revision, complete: bool) -> ReleasedWaiters {
        let mut released = ReleasedWaiters::default();
        if complete && !self.synced {
            self.synced = true;
            released.0.extend(self.for_sync.drain(..).map(Waiter::Task));
        }
        while let Some(entry) = self.by_revision.first_entry()
            && entry.key().0 <= revision
        {
            released.0.push(entry.remove());
        }
        released
    }

    /// Ends all waits: no revision will be reached any more. Returns the guards.
    #[must_use]
    pub(crate) fn stop(&mut self) -> Vec<HeldGuard> {
        self.stopped = true;
        self.for_sync.clear();
        let waiters = std::mem::take(&mut self.by_revision).into_values();
        // Dropping the senders of tasks here signals the end to them.
        waiters
            .filter_map(|waiter| match waiter {
                Waiter::HeldGuard(guard) => Some(guard),
                Waiter::Task(_) => None,
            })
            .collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_revision.len()
    }
}

impl ReleasedWaiters {
    /// Wakes the tasks and drops the guards.
    pub(crate) fn release(self) {
        for waiter in self.0 {
            match waiter {
                Waiter::Task(sender) => {
                    let _ = sender.send(());
                }
                Waiter::HeldGuard(guard) => drop(guard),
            }
        }
    }
}
