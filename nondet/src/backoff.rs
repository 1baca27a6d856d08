//! [`Backoff`]: waits between attempts that grow with each failure. Jitter is [`Rng::scaled`](crate::Rng::scaled).

use std::time::Duration;

/// Exponential back-off: the wait after a failure grows by a factor with each earlier failure, up to a cap. Pure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    base: Duration,
    factor: f64,
    cap: Duration,
}

impl Backoff {
    /// Waits of `base`, doubled for each earlier failure, and at most `cap`.
    pub const fn doubling(base: Duration, cap: Duration) -> Self {
        Self { base, factor: 2.0, cap }
    }

    /// Waits of `base`, multiplied by `factor` for each earlier failure, without a cap.
    pub const fn growing(base: Duration, factor: f64) -> Self {
        Self { base, factor, cap: Duration::MAX }
    }

    /// The wait after a failure with `failures` earlier ones. Exact while it doubles below a hundred days.
    pub fn wait(&self, failures: u32) -> Duration {
        if self.base.is_zero() {
            return Duration::ZERO;
        }
        let growth = self.factor.powi(i32::try_from(failures).unwrap_or(i32::MAX));
        let nanos = self.base.as_nanos() as f64 * growth;
        // A float above the range becomes the largest number.
        Duration::from_nanos_u128((nanos as u128).min(self.cap.as_nanos()))
    }

    /// The waits of consecutive failures, from the first.
    pub const fn waits(self) -> Waits {
        Waits { backoff: self, failures: 0 }
    }
}

/// The waits of consecutive failures. A success resets them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    backoff: Backoff,
    failures: u32,
}

impl Waits {
    /// The wait after one more failure.
    pub fn advance(&mut self) -> Duration {
        let wait = self.backoff.wait(self.failures);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Forgets the failures: the next wait is the first again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Number of failures since the last reset.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_for_any_number_of_failures() {
        let backoff = Backoff::doubling(Duration::from_millis(500), Duration::from_secs(60));
        let waits = [0, 1, 2, 6, 7, 8, 63, 64, 128, 2000, u32::MAX].map(|n| backoff.wait(n).as_millis());
        assert_eq!(waits, [500, 1000, 2000, 32_000, 60_000, 60_000, 60_000, 60_000, 60_000, 60_000, 60_000]);
        assert_eq!(
            Backoff::doubling(Duration::from_secs(9), Duration::from_secs(5)).wait(0),
            Duration::from_secs(5)
        );
        assert_eq!(Backoff::doubling(Duration::ZERO, Duration::from_secs(5)).wait(u32::MAX), Duration::ZERO);
        assert_eq!(Backoff::growing(Duration::from_secs(1), 2.0).wait(u32::MAX), Duration::MAX);
        let odd = Backoff::doubling(Duration::from_nanos(123_456_789_123), Duration::MAX);
        assert_eq!(odd.wait(4), Duration::from_nanos(123_456_789_123 << 4), "exact");
    }

    #[test]
    fn waits_grow_by_any_factor() {
        let backoff = Backoff::growing(Duration::from_secs(10), 1.5);
        assert_eq!([0, 1, 2, 3].map(|n| backoff.wait(n).as_millis()), [10_000, 15_000, 22_500, 33_750]);
    }

    #[test]
    fn a_success_resets_the_waits() {
        let mut waits = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(3)).waits();
        assert_eq!([(); 4].map(|()| waits.advance().as_secs()), [1, 2, 3, 3]);
        assert_eq!(waits.failures(), 4);
        waits.reset();
        assert_eq!((waits.failures(), waits.advance().as_secs()), (0, 1));
    }
}
