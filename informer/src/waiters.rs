//! [`Waiters`]: who waits for which revision of one cache, and what is held until then. Pure; the senders wake tasks.

use std::{any::Any, collections::BTreeMap};

use tokio::sync::oneshot;

use crate::Revision;

/// Something that is kept until a revision is reached: dropping it tells its owner.
pub(crate) type Held = Box<dyn Any + Send>;

/// See the module. The first state is a revision that everyone who waits for the sync waits for.
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
    Held(Held),
}

/// What to wake and to drop, once no lock is held any more: a drop may do anything.
#[derive(Default)]
pub(crate) struct Released(Vec<Waiter>);

impl Waiters {
    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Resolves with the first state; fails when dropped.
    pub(crate) fn wait_for_sync(&mut self) -> oneshot::Receiver<()> {
        self.for_sync.retain(|waiter| !waiter.is_closed());
        let (sender, receiver) = oneshot::channel();
        self.for_sync.push(sender);
        receiver
    }

    /// Resolves at `revision`. The entry is to be forgotten when nobody listens any more.
    pub(crate) fn wait_for(&mut self, revision: Revision) -> ((Revision, u64), oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (self.enter(revision, Waiter::Task(sender)), receiver)
    }

    /// Keeps something until `revision`.
    pub(crate) fn hold(&mut self, revision: Revision, held: Held) {
        self.enter(revision, Waiter::Held(held));
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

    /// The cache shows `revision`, which may be its first state.
    #[must_use]
    pub(crate) fn reached(&mut self, revision: Revision, complete: bool) -> Released {
        let mut released = Released::default();
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

    /// Nothing will be reached any more.
    #[must_use]
    pub(crate) fn stop(&mut self) -> Vec<Held> {
        self.stopped = true;
        self.for_sync.clear();
        let waiters = std::mem::take(&mut self.by_revision).into_values();
        // The senders of tasks are dropped here: that is how they learn of it.
        waiters
            .filter_map(|waiter| match waiter {
                Waiter::Held(held) => Some(held),
                Waiter::Task(_) => None,
            })
            .collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_revision.len()
    }
}

impl Released {
    /// Wakes those who still wait, and drops what was held.
    pub(crate) fn release(self) {
        for waiter in self.0 {
            match waiter {
                Waiter::Task(sender) => {
                    let _ = sender.send(());
                }
                Waiter::Held(held) => drop(held),
            }
        }
    }
}
