//! How much bother a client may be: what costs us more than it costs the client is paid for from an allowance that grows
//! again with time. Pure: the caller says what time it is.

use tokio::time::Instant;

use crate::limits::{BOTHERS, BOTHERS_PER_SECOND};

/// See the module.
#[derive(Debug)]
pub(super) struct Calm {
    left: u32,
    /// Up to when it has grown.
    grown: Instant,
}

impl Calm {
    /// The whole allowance.
    pub(super) fn new(now: Instant) -> Self {
        Self { left: BOTHERS, grown: now }
    }

    /// Pays for one bother; false if nothing is left.
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
