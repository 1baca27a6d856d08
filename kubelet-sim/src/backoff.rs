//! Back-off before a crashed container is restarted or a failed pull is repeated: 0, 10, 20, 40, 80, 160,
//! 300, 300 … s.

use crate::limits::{BACKOFF_BASE, BACKOFF_MAX, BACKOFF_RESET};
use jiff::Timestamp;
use kstore_container_sim::time::{between, later};
use std::time::Duration;

/// The back-off of one container. `Default` has no failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff(Option<BackoffEntry>);

const DELAYS: kstore_nondet::Backoff = kstore_nondet::Backoff::doubling(BACKOFF_BASE, BACKOFF_MAX);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BackoffEntry {
    /// Number of tries before the last.
    earlier: u32,
    updated: Timestamp,
}

impl Backoff {
    /// The end and the length of the wait after a failure at `failed`: zero for the first failure, and
    /// for a failure `BACKOFF_RESET` after the last try.
    pub fn wait(&self, failed: Timestamp) -> (Timestamp, Duration) {
        match self.live(failed) {
            Some(entry) => {
                let delay = DELAYS.wait(entry.earlier);
                (later(failed, delay), delay)
            }
            None => (failed, Duration::ZERO),
        }
    }

    /// Records a try at `now`: the wait after the next failure doubles.
    pub fn tried(&mut self, now: Timestamp) {
        let earlier = self.live(now).map_or(0, |entry| entry.earlier.saturating_add(1));
        self.0 = Some(BackoffEntry { earlier, updated: now });
    }

    fn live(&self, at: Timestamp) -> Option<BackoffEntry> {
        self.0.filter(|entry| between(entry.updated, at) <= BACKOFF_RESET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_crash_restarts_at_growing_intervals_and_a_long_run_resets_them() {
        let mut backoff = Backoff::default();
        let start = Timestamp::UNIX_EPOCH;
        let (mut now, mut starts) = (start, Vec::new());
        for _ in 0..8 {
            now = backoff.wait(now).0;
            backoff.tried(now);
            starts.push(between(start, now).as_secs());
        }
        assert_eq!(starts, [0, 10, 30, 70, 150, 310, 610, 910]);
        assert_eq!(backoff.wait(later(now, Duration::from_secs(601))).1, Duration::ZERO);
    }
}
