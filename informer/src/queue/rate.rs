//! Rate limit as reservations: computes when the next request may proceed, without waiting (generic cell rate
//! algorithm).

use super::Rate;
use std::time::Duration;
use tokio::time::Instant;

/// Token schedule: one slot each `interval`, and a burst at once.
pub(super) struct Reservations {
    interval: Duration,
    /// How far the schedule may run ahead of the clock.
    slack: Duration,
    /// When the schedule has a free slot without using the burst.
    next: Option<Instant>,
}

impl Reservations {
    pub(super) fn new(rate: Rate) -> Self {
        let interval = Duration::from_secs(1) / rate.per_second.get();
        Self { interval, slack: interval.saturating_mul(rate.burst.get() - 1), next: None }
    }

    /// When a request that comes now may proceed. Reserves nothing.
    pub(super) fn when(&self, now: Instant) -> Instant {
        self.next.and_then(|next| next.checked_sub(self.slack)).map_or(now, |at| at.max(now))
    }

    /// Reserves a slot, and returns when the request may proceed.
    pub(super) fn reserve(&mut self, now: Instant) -> Instant {
        let at = self.when(now);
        self.next = Some(self.next.map_or(at, |next| next.max(at)) + self.interval);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::num::NonZeroU32;

    proptest! {
        /// Property: no window of time exceeds the burst plus the rate, and no request waits while there is a
        /// free slot.
        #[test]
        fn no_window_exceeds_burst_plus_rate(
            per_second in 1u32..1000, burst in 1u32..20, gaps in prop::collection::vec(0u64..3_000, 1..100)
        ) {
            let rate = Rate {
                per_second: NonZeroU32::new(per_second).unwrap(),
                burst: NonZeroU32::new(burst).unwrap(),
            };
            let (mut reservations, mut now, mut granted) = (Reservations::new(rate), Instant::now(), Vec::new());
            let interval = Duration::from_secs(1) / per_second;
            for gap in gaps {
                now += Duration::from_millis(gap);
                let at = reservations.reserve(now);
                granted.push(at);
                if let Some(first) = granted.len().checked_sub(1 + burst as usize) {
                    prop_assert!(at - granted[first] >= interval, "burst exceeded");
                    let waits = at > now;
                    prop_assert!(!waits || (granted.len() > burst as usize), "waited without need");
                } else {
                    prop_assert_eq!(at, now, "a burst has room");
                }
            }
        }
    }
}
