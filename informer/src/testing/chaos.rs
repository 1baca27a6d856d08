//! [`Chaos`]: random faults with given probabilities, reproducible by seed.

use super::fault::{Cut, Fault};
use crate::{Capability, SourceError};
use kstore_nondet::Rng;
use std::time::Duration;

/// Random faults, each with a probability in per cent for every call or stream item.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// Source of randomness.
    pub rng: Rng,
    /// The seed of `rng`, for the message of a failing test.
    pub seed: Option<u64>,
    /// Probability that a call fails.
    pub refuse: u64,
    /// Probability that a stream ends or fails at an item.
    pub cut: u64,
    /// Probability that a stream falls silent at an item. Only for sources that promise progress: otherwise a
    /// reader cannot notice.
    pub silence: u64,
    /// Probability that an item is delivered again, at once or after the next ones.
    pub repeat: u64,
    /// Probability that a complete state is outdated; never many times in a row.
    pub lag: u64,
    /// Probability that an item is late.
    pub delay: u64,
}

impl Chaos {
    /// All faults with similar probabilities.
    pub fn new(rng: Rng) -> Self {
        Self { rng, seed: None, refuse: 20, cut: 15, silence: 0, repeat: 15, lag: 25, delay: 15 }
    }

    /// Like [`Chaos::new`], with a seed that a failing test can report.
    pub fn seeded(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::new(Rng::seeded(seed)) }
    }

    pub(super) fn happens(&self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// Draws the fault of the next call; `lag` if it may return an outdated state. Faults of its stream are
    /// drawn item by item.
    pub(super) fn call(&self, lag: bool) -> Fault {
        let mut fault = Fault::none();
        if self.happens(self.refuse) {
            fault = Fault::refuse(self.error());
        }
        if lag && self.happens(self.lag) {
            fault = fault.and_lag(self.rng.below(12));
        }
        fault.drawn_from(self.clone())
    }

    /// Draws the delay of the next item, and whether the stream breaks before it.
    pub(super) fn item(&self) -> (Duration, Option<Cut>) {
        let late = if self.happens(self.delay) { self.rng.below(2_000) } else { 0 };
        let cut = match () {
            () if self.happens(self.cut) => match self.happens(50) {
                true => Some(Cut::Fail(self.error())),
                false => Some(Cut::End),
            },
            () if self.happens(self.silence) => Some(Cut::Silence),
            () => None,
        };
        (Duration::from_millis(late), cut)
    }

    fn error(&self) -> SourceError {
        match self.rng.below(8) {
            0 => SourceError::Expired,
            1 => SourceError::Ahead { retry_after: None },
            2 => SourceError::Throttled { retry_after: Some(Duration::from_millis(self.rng.below(500))) },
            3 => SourceError::Internal("chaos".into()),
            4 => SourceError::Fatal("chaos".into()),
            5 => SourceError::Unsupported(match self.rng.below(3) {
                0 => Capability::StreamingList,
                1 => Capability::Paging,
                _ => Capability::ExactList,
            }),
            _ => SourceError::Unreachable("chaos".into()),
        }
    }
}
