//! [`Chaos`]: faults that come at random, as often as one says, and the same for one seed.

use std::time::Duration;

use kstore_nondet::Rng;

use super::fault::{Cut, Fault};
use crate::{Capability, SourceError};

/// Random faults, each with a chance in percent for every item of a stream or call.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// Where the chances come from.
    pub rng: Rng,
    /// The seed of `rng`, for the message of a test that fails.
    pub seed: Option<u64>,
    /// A call fails.
    pub refuse: u64,
    /// A stream ends or fails, at any point.
    pub cut: u64,
    /// A stream says nothing more, at any point. Only for sources that promise progress: nobody notices otherwise.
    pub silence: u64,
    /// An item is delivered again, at once or after the next ones.
    pub repeat: u64,
    /// A whole state is older than the newest; never many times in a row.
    pub lag: u64,
    /// An item comes late.
    pub delay: u64,
}

impl Chaos {
    /// Every fault about as often as the other.
    pub fn new(rng: Rng) -> Self {
        Self { rng, seed: None, refuse: 20, cut: 15, silence: 0, repeat: 15, lag: 25, delay: 15 }
    }

    /// The same, of a seed that a failing test can name.
    pub fn seeded(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::new(Rng::seeded(seed)) }
    }

    pub(super) fn happens(&self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// What goes wrong with the next call; `lag` if it may be told of an old state. What goes wrong with its stream is drawn
    /// item by item.
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

    /// How late the next item of a stream is, and whether the stream breaks before it.
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
