//! The queue's state of one key.

use super::state::Run;
use super::timers::Timer;
use super::{Verdict, ready};
use crate::{Causes, Priority};
use tokio::time::Instant;

/// State of a key that is ready, waiting, running or parked. Other keys have no entry.
pub(super) struct KeyEntry {
    pub(super) phase: KeyPhase,
    /// Since when the key is ready or running.
    pub(super) since: Instant,
    /// Priority of the next run: the highest of its adds.
    pub(super) priority: Priority,
    /// Causes of the next run.
    pub(super) causes: Causes,
    /// Whether the next run follows a parking that timed out.
    pub(super) stale: bool,
    /// `None` after a success. Boxed, because few keys fail.
    pub(super) failing: Option<Box<FailureCount>>,
    pub(super) tenant: Option<u64>,
}

/// The phase of a key, exactly one at a time.
pub(super) enum KeyPhase {
    Ready,
    Waiting(Timer),
    /// Running, with the earliest due time that was added since the run started.
    Running(Option<Instant>),
    Parked(Box<ParkedRun>),
}

impl KeyPhase {
    /// Running, without adds.
    pub(super) const RUNNING: Self = Self::Running(None);
}

/// An ended run whose verdict waits for its ticket or this deadline.
pub(super) struct ParkedRun {
    pub(super) deadline: Timer,
    pub(super) ended: EndedRun,
}

/// An ended run.
pub(super) struct EndedRun {
    pub(super) run: Run,
    pub(super) verdict: Verdict,
    pub(super) started: Instant,
    /// The earliest due time that was added since the run started.
    pub(super) added: Option<Instant>,
}

/// Counted failures since the last success.
#[derive(Clone, Copy)]
pub(super) struct FailureCount {
    pub(super) count: u32,
    /// End of the newest back-off. A run that starts earlier comes from an add, and its failure does not
    /// count: many adds during an outage must not raise the back-off to its cap.
    pub(super) until: Instant,
}

/// The earlier of two optional times.
pub(super) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

impl KeyEntry {
    pub(super) fn new(priority: Priority, causes: Causes, tenant: Option<u64>, now: Instant) -> Self {
        Self { phase: KeyPhase::RUNNING, since: now, priority, causes, stale: false, failing: None, tenant }
    }

    /// When the next run is due, if one is wanted.
    pub(super) fn planned(&self) -> Option<Instant> {
        match &self.phase {
            KeyPhase::Ready => Some(self.since),
            KeyPhase::Waiting(timer) => Some(timer.at),
            KeyPhase::Running(added) => *added,
            KeyPhase::Parked(parked) => parked.ended.added,
        }
    }

    /// The position of the key among the ready keys.
    pub(super) fn rank(&self) -> ready::ReadyPosition {
        ready::ReadyPosition { priority: self.priority, tenant: self.tenant }
    }

    /// Merges an add: raises the priority and adds the causes.
    pub(super) fn join(&mut self, priority: Priority, causes: Causes) {
        self.priority = self.priority.max(priority);
        self.causes.absorb(causes);
    }
}
