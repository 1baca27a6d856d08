//! What a queue knows of one key.

use tokio::time::Instant;

use super::{Priority, Verdict, ready, state::Run, timers::Timer};
use crate::Causes;

/// A key that is ready, waiting, running or parked. Of other keys nothing is known.
pub(super) struct Entry {
    pub(super) place: Place,
    /// Since when it is ready, or running.
    pub(super) since: Instant,
    /// Priority of the next run: the highest that was asked for.
    pub(super) priority: Priority,
    /// Causes of the next run.
    pub(super) causes: Causes,
    /// Whether the next run follows a parking that its deadline ended.
    pub(super) stale: bool,
    /// Nothing after a success. Apart, because few keys fail.
    pub(super) failing: Option<Box<Failing>>,
    pub(super) tenant: Option<u64>,
}

/// The one place where a key is.
pub(super) enum Place {
    Ready,
    Waiting(Timer),
    /// With the earliest time that was added since it began.
    Running(Option<Instant>),
    Parked(Box<Parked>),
}

impl Place {
    /// Running, and nothing was added yet.
    pub(super) const RUNNING: Self = Self::Running(None);
}

/// A run that is over, whose verdict waits for a ticket or this time.
pub(super) struct Parked {
    pub(super) deadline: Timer,
    pub(super) ended: Ended,
}

/// A run that is over.
pub(super) struct Ended {
    pub(super) run: Run,
    pub(super) verdict: Verdict,
    pub(super) started: Instant,
    /// The earliest time that was added since the run began.
    pub(super) added: Option<Instant>,
}

/// Failures that count since the last success.
#[derive(Clone, Copy)]
pub(super) struct Failing {
    pub(super) count: u32,
    /// End of the newest back-off. A run that starts before it was made by an add, and its failure does not count: an outage
    /// must not drive the wait to its cap by being noticed often.
    pub(super) until: Instant,
}

/// The earlier of two times, of which either may be missing.
pub(super) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

impl Entry {
    pub(super) fn new(priority: Priority, causes: Causes, tenant: Option<u64>, now: Instant) -> Self {
        Self { place: Place::RUNNING, since: now, priority, causes, stale: false, failing: None, tenant }
    }

    /// When the next run is to be, if one is wanted.
    pub(super) fn planned(&self) -> Option<Instant> {
        match &self.place {
            Place::Ready => Some(self.since),
            Place::Waiting(timer) => Some(timer.at),
            Place::Running(added) => *added,
            Place::Parked(parked) => parked.ended.added,
        }
    }

    /// Where it is among the ready.
    pub(super) fn rank(&self) -> ready::Place {
        ready::Place { priority: self.priority, tenant: self.tenant }
    }

    /// The next run is at least this important, and has these causes, too.
    pub(super) fn join(&mut self, priority: Priority, causes: Causes) {
        self.priority = self.priority.max(priority);
        self.causes.absorb(causes);
    }
}
