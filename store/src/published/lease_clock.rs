//! Deadlines of leases. They are times of tokio's clock, so jumps of the wall clock do not expire leases, and tests
//! with paused time control expiry. The writer begins and ends leases, callers renew them, and the expiry task waits
//! for the next deadline.

use crate::LeaseId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The deadlines of all published leases.
#[derive(Debug, Default)]
pub(crate) struct LeaseClock {
    deadlines: Mutex<Deadlines>,
    /// Notified when the earliest deadline moved forward, or the store closed.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct Deadlines {
    by_id: BTreeMap<LeaseId, LeaseDeadline>,
    queue: BTreeSet<(Instant, LeaseId)>,
}

/// Deadline and time to live of one lease.
#[derive(Clone, Copy, Debug)]
struct LeaseDeadline {
    deadline: Instant,
    /// Time to live in seconds.
    ttl: i64,
    /// Whether the writer has started to revoke the lease, so that it cannot be renewed.
    ending: bool,
}

/// Converts a time to live in seconds to a duration.
pub(crate) fn duration(ttl: i64) -> Duration {
    Duration::from_secs(ttl.try_into().unwrap_or(0))
}

impl Deadlines {
    /// Sets a deadline. Returns whether it is now the earliest.
    fn set(&mut self, id: LeaseId, term: LeaseDeadline) -> bool {
        if let Some(old) = self.by_id.insert(id, term) {
            self.queue.remove(&(old.deadline, id));
        }
        let first = self.queue.first().is_none_or(|(first, _)| term.deadline < *first);
        self.queue.insert((term.deadline, id));
        first
    }
}

impl LeaseClock {
    /// Adds a lease of `ttl` seconds that expires at `deadline`, or later if it was renewed meanwhile.
    pub(crate) fn begin(&self, id: LeaseId, ttl: i64, deadline: Instant) {
        let mut inner = self.deadlines.lock();
        let deadline = inner.by_id.get(&id).map_or(deadline, |old| old.deadline.max(deadline));
        let first = inner.set(id, LeaseDeadline { deadline, ttl, ending: false });
        drop(inner);
        if first {
            self.changed.notify_one();
        }
    }

    /// Renews a lease for its whole time from `now` on and returns its time to live in seconds. None if it has expired,
    /// is being revoked or is unknown: then the writer decides, since it may have a lease that is not published yet.
    pub(crate) fn renew(&self, id: LeaseId, now: Instant) -> Option<i64> {
        let mut inner = self.deadlines.lock();
        let term = inner.by_id.get(&id).copied().filter(|term| term.deadline > now && !term.ending)?;
        let deadline = term.deadline.max(now + duration(term.ttl));
        inner.set(id, LeaseDeadline { deadline, ..term });
        Some(term.ttl)
    }

    /// Marks a lease as being revoked: it cannot be renewed any more.
    pub(crate) fn mark_ending(&self, id: LeaseId) {
        self.deadlines.lock().by_id.entry(id).and_modify(|term| term.ending = true);
    }

    /// Marks a lease as being revoked if it has expired at `now`. Returns whether it is being revoked. Check and mark
    /// are atomic, so no renewal can come between them.
    pub(crate) fn mark_ending_if_expired(&self, id: LeaseId, now: Instant) -> bool {
        let mut inner = self.deadlines.lock();
        let Some(term) = inner.by_id.get_mut(&id) else { return false };
        term.ending |= term.deadline <= now;
        term.ending
    }

    pub(crate) fn remove(&self, id: LeaseId) {
        let mut inner = self.deadlines.lock();
        if let Some(old) = inner.by_id.remove(&id) {
            inner.queue.remove(&(old.deadline, id));
        }
    }

    pub(crate) fn deadline(&self, id: LeaseId) -> Option<Instant> {
        self.deadlines.lock().by_id.get(&id).map(|term| term.deadline)
    }

    /// The earliest deadline of all leases.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.deadlines.lock().queue.first().map(|(deadline, _)| *deadline)
    }

    /// At most `most` leases that have expired at `now`, the earliest deadline first.
    pub(crate) fn due(&self, now: Instant, most: usize) -> Vec<LeaseId> {
        let inner = self.deadlines.lock();
        let over = inner.queue.iter().take_while(|(deadline, _)| *deadline <= now);
        over.take(most).map(|(_, id)| *id).collect()
    }
}
