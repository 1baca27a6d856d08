//! Arithmetic on wall time that cannot overflow, and durations as Go prints them, which logs and statuses show. No clock.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// `at` plus `by`; the latest timestamp if the sum overflows.
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// The time from `from` until `to`; zero if `to` is not later.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

/// A duration in Go's notation, truncated to milliseconds: `0s`, `812ms`, `1.5s`, `2m0s`.
pub fn go_duration(duration: Duration) -> String {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    kstore_go_duration::format(millis.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_prints_them() {
        let cases = [
            (0, "0s"),
            (812, "812ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (120_000, "2m0s"),
            (3_661_010, "1h1m1.01s"),
        ];
        for (millis, text) in cases {
            assert_eq!(go_duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn sums_and_differences_do_not_overflow() {
        assert_eq!(later(Timestamp::MAX, Duration::MAX), Timestamp::MAX);
        assert_eq!(between(Timestamp::MAX, Timestamp::MIN), Duration::ZERO);
    }
}
