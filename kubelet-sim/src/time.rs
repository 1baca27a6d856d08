//! Wall time as nodes report it: ticks, and timestamps of the API. No clock; `kstore_container_sim::time` has arithmetic
//! that cannot overflow.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(tick_at(Timestamp::MIN, Duration::MAX) <= tick_at(Timestamp::MAX, Duration::ZERO));
    }
}
