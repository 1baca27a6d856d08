//! Arithmetic on timestamps without overflow, and Kubernetes' text forms of times. No clock.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// `at` plus `by`, at most the largest timestamp.
pub(crate) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// The duration from `from` to `to`; zero if `to` is not later.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

/// The last multiple of `step` since 1970 that is not after `at`. A step of less than a millisecond counts as one.
pub(crate) fn tick_at(at: Timestamp, step: Duration) -> Timestamp {
    let step = i64::try_from(step.as_millis()).unwrap_or(i64::MAX).max(1);
    let millis = at.as_millisecond();
    Timestamp::from_millisecond(millis - millis.rem_euclid(step)).unwrap_or(Timestamp::MIN)
}

/// The API's timestamp: whole seconds, so that a written and a read object compare equal.
pub(crate) fn api_time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(Timestamp::MAX))
}

/// A duration in Go's notation, cut to milliseconds: `0s`, `812ms`, `1.5s`, `2m0s`.
pub(crate) fn go_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_owned();
    }
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let mut seconds = format!("{}.{:03}", rest / 1000, rest % 1000);
    seconds.truncate(seconds.trim_end_matches('0').trim_end_matches('.').len());
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
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
    fn a_tick_is_the_last_multiple_of_its_step() {
        let tick = |millis| {
            let at = Timestamp::from_millisecond(millis).unwrap();
            tick_at(at, Duration::from_millis(250)).as_millisecond()
        };
        assert_eq!([0, 249, 250, 10_999, -1].map(tick), [0, 0, 250, 10_750, -250]);
    }

    #[test]
    fn time_does_not_overflow() {
        assert_eq!(later(Timestamp::MAX, Duration::MAX), Timestamp::MAX);
        assert_eq!(between(Timestamp::MAX, Timestamp::MIN), Duration::ZERO);
        assert!(tick_at(Timestamp::MIN, Duration::MAX) <= tick_at(Timestamp::MAX, Duration::ZERO));
    }
}
