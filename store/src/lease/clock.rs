//! When each lease ends. Deadlines are of tokio's clock, so wall-clock jumps do not expire leases and paused tests decide
//! when they do. Shared by the writer, which sets them, and the task that waits for the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::LeaseId;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LeaseClock {
    deadlines: Mutex<Deadlines>,
    /// The earliest deadline moved forward, or the store closed.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct Deadlines {
    by_id: BTreeMap<LeaseId, Instant>,
    queue: BTreeSet<(Instant, LeaseId)>,
}

/// A time to live as a duration.
pub(crate) fn duration(ttl: i64) -> Duration {
    Duration::from_secs(ttl.try_into().unwrap_or(0))
}

impl LeaseClock {
    /// Lets a lease live until `deadline`, if it would end earlier or has no deadline yet.
    pub(crate) fn extend(&self, id: LeaseId, deadline: Instant) {
        let mut inner = self.deadlines.lock();
        let first = inner.queue.first().copied();
        if let Some(old) = inner.by_id.get(&id).copied() {
            if old >= deadline {
                return;
            }
            inner.queue.remove(&(old, id));
        }
        inner.by_id.insert(id, deadline);
        inner.queue.insert((deadline, id));
        let earlier = first.is_none_or(|(first, _)| deadline < first);
        drop(inner);
        if earlier {
            self.changed.notify_one();
        }
    }

    /// As [`LeaseClock::extend`], but only if the lease still has a deadline: a renewal does not revive it.
    pub(crate) fn renew(&self, id: LeaseId, deadline: Instant) {
        if self.deadline(id).is_some() {
            self.extend(id, deadline);
        }
    }

    pub(crate) fn remove(&self, id: LeaseId) {
        let mut inner = self.deadlines.lock();
        if let Some(old) = inner.by_id.remove(&id) {
            inner.queue.remove(&(old, id));
        }
    }

    pub(crate) fn deadline(&self, id: LeaseId) -> Option<Instant> {
        self.deadlines.lock().by_id.get(&id).copied()
    }

    /// The earliest deadline and whose it is.
    pub(crate) fn next(&self) -> Option<(Instant, LeaseId)> {
        self.deadlines.lock().queue.first().copied()
    }
}
