//! [`Lease`], the right to work on a key, and [`Ticket`], by which a key stays away from workers after its run.

use std::{fmt, hash::Hash, sync::Arc, time::Duration};

use super::{Priority, Queue, state::Run, timers::Timer};
use crate::{Causes, Key};

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It succeeded: failures are forgotten.
    Done,
    /// It failed: the key runs again after its back-off, or at once if it was added since the run began.
    Retry,
    /// It failed, and knows how long to wait instead of the back-off. An add makes it run earlier, too.
    RetryIn(Duration),
    /// It succeeded and wants another run after this time, or earlier if something else makes one. That run has the causes
    /// and the priority of this one, too.
    Again(Duration),
}

/// The right to work on one key. No one else gets the key until the lease ends; dropped without a verdict (a panic, a
/// cancelled run) it counts as failed.
pub struct Lease<K: Ord + Hash + Clone> {
    queue: Queue<K>,
    key: K,
    run: Run,
    open: bool,
}

impl<K: Ord + Hash + Clone> Lease<K> {
    pub(super) fn new(queue: Queue<K>, key: K, run: Run) -> Self {
        Self { queue, key, run, open: true }
    }

    /// The key to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// What led to this run, including what led to failed runs before it.
    pub fn causes(&self) -> &Causes {
        &self.run.causes
    }

    /// Failed runs of this key since its last success.
    pub fn attempt(&self) -> u32 {
        self.run.failures
    }

    /// The highest priority that anybody wanted for this run.
    pub fn priority(&self) -> Priority {
        self.run.priority
    }

    /// Whether the key was parked before this run and the deadline came first: what it waited for may not be there.
    pub fn is_stale(&self) -> bool {
        self.run.stale
    }

    /// [`Verdict::Done`].
    pub fn done(self) {
        self.conclude(Verdict::Done);
    }

    /// [`Verdict::Retry`].
    pub fn retry(self) {
        self.conclude(Verdict::Retry);
    }

    /// [`Verdict::RetryIn`].
    pub fn retry_in(self, delay: Duration) {
        self.conclude(Verdict::RetryIn(delay));
    }

    /// [`Verdict::Again`].
    pub fn again_in(self, delay: Duration) {
        self.conclude(Verdict::Again(delay));
    }

    /// Ends the lease with a verdict.
    pub fn conclude(mut self, verdict: Verdict) {
        self.end(verdict);
    }

    /// Ends the lease, and keeps the key from running until the ticket and all its clones are dropped, or until `deadline`
    /// from now; then the verdict takes effect, with its delay counted from then. What is added meanwhile merges and
    /// waits. If the deadline was first, the next run is [stale](Lease::is_stale).
    pub fn park(mut self, verdict: Verdict, deadline: Duration) -> Ticket<K> {
        self.open = false;
        let run = std::mem::take(&mut self.run);
        let place = self.queue.park(run, verdict, deadline);
        Ticket(Arc::new(Parking { queue: self.queue.clone(), place }))
    }

    fn end(&mut self, verdict: Verdict) {
        if std::mem::take(&mut self.open) {
            let run = std::mem::take(&mut self.run);
            self.queue.finish(run, verdict);
        }
    }
}

impl<K: Ord + Hash + Clone> Drop for Lease<K> {
    fn drop(&mut self) {
        self.end(Verdict::Retry);
    }
}

impl<K: Ord + Hash + Clone + fmt::Debug> fmt::Debug for Lease<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &self.key)
            .field("attempt", &self.run.failures)
            .finish_non_exhaustive()
    }
}

/// Keeps a key parked. Give a clone to everything that must happen first; each drops its own.
#[derive(Clone)]
pub struct Ticket<K: Ord + Hash + Clone = Key>(
    #[expect(dead_code, reason = "held for its drop")] Arc<Parking<K>>,
);

impl<K: Ord + Hash + Clone> fmt::Debug for Ticket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

struct Parking<K: Ord + Hash + Clone> {
    queue: Queue<K>,
    /// Nothing if the queue was closed.
    place: Option<(super::slots::At, Timer)>,
}

impl<K: Ord + Hash + Clone> Drop for Parking<K> {
    fn drop(&mut self) {
        if let Some((at, timer)) = self.place {
            self.queue.release(at, timer);
        }
    }
}
