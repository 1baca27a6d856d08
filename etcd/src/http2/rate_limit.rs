//! A rate limit on expensive client behaviour: each event that costs the server more than the client takes a token, and
//! tokens are refilled over time. Pure: the caller passes the time.

use crate::limits::{ABUSE_TOKENS, ABUSE_TOKENS_PER_SECOND};
use tokio::time::Instant;

/// A token bucket.
#[derive(Debug)]
pub(super) struct RateLimiter {
    left: u32,
    /// Until when tokens were refilled.
    refilled_until: Instant,
}

impl RateLimiter {
    /// Creates a full bucket.
    pub(super) fn new(now: Instant) -> Self {
        Self { left: ABUSE_TOKENS, refilled_until: now }
    }

    /// Takes one token; returns false if none is left.
    pub(super) fn try_take(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.refilled_until).as_secs();
        if seconds > 0 {
            let more = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(ABUSE_TOKENS_PER_SECOND);
            self.left = self.left.saturating_add(more).min(ABUSE_TOKENS);
            self.refilled_until = now;
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
    fn a_burst_is_permitted_and_an_endless_one_is_not() {
        let start = Instant::now();
        let mut calm = RateLimiter::new(start);
        assert!((0..ABUSE_TOKENS).all(|_| calm.try_take(start)));
        assert!(!calm.try_take(start));
        let later = start + Duration::from_secs(1);
        assert!((0..ABUSE_TOKENS_PER_SECOND).all(|_| calm.try_take(later)));
        assert!(!calm.try_take(later));
    }
}
