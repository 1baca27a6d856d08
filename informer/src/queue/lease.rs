//! [`KeyLease`], the exclusive right to process a key, and [`Ticket`], which keeps a key parked after its run.

use super::Queue;
use super::state::Run;
use super::timers::Timer;
use crate::{Causes, Key, Priority};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// Result of a run, which decides when the key runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The run succeeded: its failures are forgotten.
    Done,
    /// The run failed: the key runs again after its back-off, or at once if it was added since the run
    /// started.
    Retry,
    /// The run failed with a known delay that replaces the back-off. An add also makes the key run earlier.
    RetryIn(Duration),
    /// The run succeeded and wants another run after this time, or earlier after an add. That run inherits
    /// the causes and the priority of this one.
    Again(Duration),
}

/// Exclusive right to process one key. No other worker gets the key until the lease ends. A lease that is
/// dropped without a verdict (a panic, a cancelled run) counts as failed.
pub struct KeyLease<K: Ord + Hash + Clone> {
    queue: Queue<K>,
    key: K,
    run: Run,
    open: bool,
}

impl<K: Ord + Hash + Clone> KeyLease<K> {
    pub(super) fn new(queue: Queue<K>, key: K, run: Run) -> Self {
        Self { queue, key, run, open: true }
    }

    /// The key to process.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Causes of this run, including those of failed runs before it.
    pub fn causes(&self) -> &Causes {
        &self.run.causes
    }

    /// Number of failed runs of this key since its last success.
    pub fn attempt(&self) -> u32 {
        self.run.failures
    }

    /// The highest priority among the adds of this run.
    pub fn priority(&self) -> Priority {
        self.run.priority
    }

    /// Whether the key was parked before this run and its deadline passed: the awaited writes may not be
    /// visible.
    pub fn is_stale(&self) -> bool {
        self.run.stale
    }

    /// Ends the lease with [`Verdict::Done`].
    pub fn done(self) {
        self.conclude(Verdict::Done);
    }

    /// Ends the lease with [`Verdict::Retry`].
    pub fn retry(self) {
        self.conclude(Verdict::Retry);
    }

    /// Ends the lease with [`Verdict::RetryIn`].
    pub fn retry_in(self, delay: Duration) {
        self.conclude(Verdict::RetryIn(delay));
    }

    /// Ends the lease with [`Verdict::Again`].
    pub fn again_in(self, delay: Duration) {
        self.conclude(Verdict::Again(delay));
    }

    /// Ends the lease with a verdict.
    pub fn conclude(mut self, verdict: Verdict) {
        self.end(verdict);
    }

    /// Ends the lease and parks the key until the ticket and all its clones are dropped, or until `deadline`
    /// from now. Then the verdict takes effect, with its delay counted from then. Adds in the meantime merge
    /// and wait. If the deadline passed first, the next run is [stale](KeyLease::is_stale).
    pub fn park(mut self, verdict: Verdict, deadline: Duration) -> Ticket<K> {
        self.open = false;
        let run = std::mem::take(&mut self.run);
        let parked = self.queue.park(run, verdict, deadline);
        Ticket(Arc::new(ParkGuard { queue: self.queue.clone(), parked }))
    }

    fn end(&mut self, verdict: Verdict) {
        if std::mem::take(&mut self.open) {
            let run = std::mem::take(&mut self.run);
            self.queue.finish(run, verdict);
        }
    }
}

impl<K: Ord + Hash + Clone> Drop for KeyLease<K> {
    fn drop(&mut self) {
        self.end(Verdict::Retry);
    }
}

impl<K: Ord + Hash + Clone + fmt::Debug> fmt::Debug for KeyLease<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLease")
            .field("key", &self.key)
            .field("attempt", &self.run.failures)
            .finish_non_exhaustive()
    }
}

/// Keeps a key parked until all clones are dropped. Pass one clone to each event that the key must wait for.
#[derive(Clone)]
pub struct Ticket<K: Ord + Hash + Clone = Key>(
    #[expect(dead_code, reason = "held for its drop")] Arc<ParkGuard<K>>,
);

impl<K: Ord + Hash + Clone> fmt::Debug for Ticket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

struct ParkGuard<K: Ord + Hash + Clone> {
    queue: Queue<K>,
    /// The parked key, `None` if the queue was closed.
    parked: Option<(super::slots::SlotId, Timer)>,
}

impl<K: Ord + Hash + Clone> Drop for ParkGuard<K> {
    fn drop(&mut self) {
        if let Some((at, timer)) = self.parked {
            self.queue.release(at, timer);
        }
    }
}
