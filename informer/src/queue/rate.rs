//! A rate as a reservation: it says when the next one may go, and nobody waits here (the generic cell rate algorithm).

use std::time::Duration;

use tokio::time::Instant;

use super::Rate;

/// Room for one more each `interval`, and for `burst` at once.
pub(super) struct Reservations {
    interval: Duration,
    /// How far the schedule may be ahead of the clock.
    slack: Duration,
    /// When the schedule has room for one without any burst.
    next: Option<Instant>,
}

impl Reservations {
    pub(super) fn new(rate: Rate) -> Self {
        let interval = Duration::from_secs(1) / rate.per_second.get();
        Self { interval, slack: interval.saturating_mul(rate.burst.get() - 1), next: None }
    }

    /// When one that asks now may go. Takes nothing.
    pub(super) fn when(&self, now: Instant) -> Instant {
        self.next.and_then(|next| next.checked_sub(self.slack)).map_or(now, |at| at.max(now))
    }

    /// When one that asks now may go. The room is taken.
    pub(super) fn reserve(&mut self, now: Instant) -> Instant {
        let at = self.when(now);
        self.next = Some(self.next.map_or(at, |next| next.max(at)) + self.interval);
        at
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However they come, no window of time holds more than the burst and what the rate gives in it; and nobody waits
        /// while there is room.
        #[test]
        fn no_window_holds_more_than_burst_and_rate(
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
