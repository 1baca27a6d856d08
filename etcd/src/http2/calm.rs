//! A rate limit on expensive client behaviour: each event that costs the server more than the client takes a token, and
//! tokens are refilled over time. Pure: the caller passes the time.

use tokio::time::Instant;

use crate::limits::{BOTHERS, BOTHERS_PER_SECOND};

/// A token bucket.
#[derive(Debug)]
pub(super) struct Calm {
    left: u32,
    /// Until when tokens were refilled.
    grown: Instant,
}

impl Calm {
    /// Creates a full bucket.
    pub(super) fn new(now: Instant) -> Self {
        Self { left: BOTHERS, grown: now }
    }

    /// Takes one token; returns false if none is left.
    pub(super) fn spend(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.grown).as_secs();
        if seconds > 0 {
            let more = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(BOTHERS_PER_SECOND);
            self.left = self.left.saturating_add(more).min(BOTHERS);
            self.grown = now;
        }
        let paid = self.left > 0;
        self.left = self.left.saturating_sub(1);
        paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_is_borne_and_an_endless_one_is_not() {
        let start = Instant::now();
        let mut calm = Calm::new(start);
        assert!((0..BOTHERS).all(|_| calm.spend(start)));
        assert!(!calm.spend(start));
        let later = start + Duration::from_secs(1);
        assert!((0..BOTHERS_PER_SECOND).all(|_| calm.spend(later)));
        assert!(!calm.spend(later));
    }
}
