//! [`Backoff`]: wait after a failure of the source.

use std::time::Duration;

use kstore_nondet::Rng;
use tokio::time::Instant;

use crate::limits::{LONGEST_RETRY_AFTER, SOURCE_BACKOFF_BASE, SOURCE_BACKOFF_CAP, SOURCE_BACKOFF_RESET};

/// Exponential back-off with jitter: a wait is between `d` and `2
/// d`, so that clients of one failed server do not reconnect together. Starts again after
/// [`SOURCE_BACKOFF_RESET`] without a failure.
pub(super) struct Backoff {
    rng: Rng,
    attempt: u32,
    /// End of the newest wait.
    until: Option<Instant>,
}

impl Backoff {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, attempt: 0, until: None }
    }

    /// The next wait: at least `asked`, the `retry_after` of the source, plus jitter, so that clients with
    /// the same `retry_after` do not retry together.
    pub(super) fn next(&mut self, asked: Option<Duration>, now: Instant) -> Duration {
        if self.until.is_some_and(|until| now > until + SOURCE_BACKOFF_RESET) {
            self.attempt = 0;
        }
        let least = SOURCE_BACKOFF_BASE.saturating_mul(1 << self.attempt.min(16)).min(SOURCE_BACKOFF_CAP);
        self.attempt = self.attempt.saturating_add(1);
        let wait = asked.unwrap_or(least).min(LONGEST_RETRY_AFTER) + least.mul_f64(self.rng.unit());
        self.until = Some(now + wait);
        wait
    }
}
