//! When each lease ends. Deadlines are of tokio's clock, so wall-clock jumps do not expire leases and paused tests decide
//! when they do. Shared by the writer, which begins and ends them,
//! callers, who renew them, and the task that waits for the next one.

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
    by_id: BTreeMap<LeaseId, Term>,
    queue: BTreeSet<(Instant, LeaseId)>,
}

/// The life of one lease.
#[derive(Clone, Copy, Debug)]
struct Term {
    deadline: Instant,
    /// In seconds.
    ttl: i64,
    /// The writer has decided its end: it cannot be renewed any more.
    ending: bool,
}

/// A time to live as a duration.
pub(crate) fn duration(ttl: i64) -> Duration {
    Duration::from_secs(ttl.try_into().unwrap_or(0))
}

impl Deadlines {
    /// Sets a deadline; says whether it is now the first.
    fn set(&mut self, id: LeaseId, term: Term) -> bool {
        if let Some(old) = self.by_id.insert(id, term) {
            self.queue.remove(&(old.deadline, id));
        }
        let first = self.queue.first().is_none_or(|(first, _)| term.deadline < *first);
        self.queue.insert((term.deadline, id));
        first
    }
}

impl LeaseClock {
    /// A lease of `ttl` seconds lives until `deadline`; longer if it was renewed meanwhile.
    pub(crate) fn begin(&self, id: LeaseId, ttl: i64, deadline: Instant) {
        let mut inner = self.deadlines.lock();
        let deadline = inner.by_id.get(&id).map_or(deadline, |old| old.deadline.max(deadline));
        let first = inner.set(id, Term { deadline, ttl, ending: false });
        drop(inner);
        if first {
            self.changed.notify_one();
        }
    }

    /// Lets a lease live for its whole time from `now` on, if it lives at `now` and its end is not decided; says what that
    /// time is in seconds. None is for the writer to judge: it may know of a lease that is not published yet.
    pub(crate) fn renew(&self, id: LeaseId, now: Instant) -> Option<i64> {
        let mut inner = self.deadlines.lock();
        let term = inner.by_id.get(&id).copied().filter(|term| term.deadline > now && !term.ending)?;
        let deadline = term.deadline.max(now + duration(term.ttl));
        inner.set(id, Term { deadline, ..term });
        Some(term.ttl)
    }

    /// The writer ends a lease: from now on it cannot be renewed.
    pub(crate) fn end(&self, id: LeaseId) {
        self.deadlines.lock().by_id.entry(id).and_modify(|term| term.ending = true);
    }

    /// The same if its time is over at `now`; says whether it is. So no renewal comes between the question and the end.
    pub(crate) fn end_if_over(&self, id: LeaseId, now: Instant) -> bool {
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

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.deadlines.lock().queue.first().map(|(deadline, _)| *deadline)
    }

    /// The leases whose time is over at `now`, longest first, at most `most`.
    pub(crate) fn due(&self, now: Instant, most: usize) -> Vec<LeaseId> {
        let inner = self.deadlines.lock();
        let over = inner.queue.iter().take_while(|(deadline, _)| *deadline <= now);
        over.take(most).map(|(_, id)| *id).collect()
    }
}
