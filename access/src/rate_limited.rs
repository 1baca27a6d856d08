//! [`RateLimited`]: limits how often a repeated message is logged.

use std::time::Duration;
use tokio::time::Instant;

/// Allows a message at most once in an interval, and counts those that it suppresses.
#[derive(Debug)]
pub struct RateLimited {
    interval: Duration,
    latest: Option<Instant>,
    suppressed: u64,
}

impl RateLimited {
    /// A limit of one message in each `interval`.
    pub fn every(interval: Duration) -> Self {
        Self { interval, latest: None, suppressed: 0 }
    }

    /// Whether a message may be logged now: the number of messages suppressed since the last one, or `None`.
    pub fn allow(&mut self) -> Option<u64> {
        if self.latest.is_some_and(|latest| latest.elapsed() < self.interval) {
            self.suppressed += 1;
            return None;
        }
        self.latest = Some(Instant::now());
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_message_per_interval_is_allowed_and_the_others_are_counted() {
        let mut limited = RateLimited::every(Duration::from_secs(10));
        assert_eq!([limited.allow(), limited.allow(), limited.allow()], [Some(0), None, None]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!([limited.allow(), limited.allow()], [Some(2), None]);
    }
}
