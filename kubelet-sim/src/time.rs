//! Wall time as nodes report it: ticks, timestamps of the API, and clocks that are wrong. No clock; `kstore_container_sim::time` has
//! arithmetic that cannot overflow.

use crate::limits::CLOCK_CHANGES;
use jiff::{SignedDuration, Timestamp};
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

/// What is wrong with a node's clock. `Default` is a clock that is right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockError {
    /// How much it is ahead.
    pub(crate) skew: SignedDuration,
    /// Since when it is how many millionths too fast; each adds to the others.
    pub(crate) drifts: Vec<(Timestamp, i32)>,
}

impl ClockError {
    /// How much the clock is ahead at `at`.
    fn offset(&self, at: Timestamp) -> SignedDuration {
        let drifted = self.drifts.iter().map(|(since, millionths)| {
            let nanos = at.duration_since(*since).as_nanos().max(0) * i128::from(*millionths) / 1_000_000;
            SignedDuration::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
        });
        drifted.fold(self.skew, SignedDuration::saturating_add)
    }
}

/// The clock of a node: what it showed at each moment of the cluster's clock. A time that the node noted keeps the error of its moment.
#[derive(Clone, Debug, Default)]
pub struct NodeClock {
    /// The errors, each with its beginning, ascending; before the first one the clock was right.
    changes: Vec<(Timestamp, ClockError)>,
}

/// A clock that is right.
#[cfg(test)]
pub(crate) static RIGHT: NodeClock = NodeClock { changes: Vec::new() };

impl NodeClock {
    /// From `now` on the clock has this error.
    pub(crate) fn set(&mut self, error: ClockError, now: Timestamp) {
        let is_known = match self.changes.last() {
            Some((_, last)) => *last == error,
            None => error == ClockError::default(),
        };
        if is_known {
            return;
        }
        if self.changes.len() >= CLOCK_CHANGES {
            self.changes.remove(0);
        }
        self.changes.push((now, error));
    }

    /// What the clock showed at `at`.
    pub(crate) fn show(&self, at: Timestamp) -> Timestamp {
        let error = self.changes.iter().rev().find(|(from, _)| *from <= at).map(|(_, error)| error);
        error.map_or(at, |error| match at.checked_add(error.offset(at)) {
            Ok(shown) => shown,
            Err(_) => at,
        })
    }

    /// What the clock showed at `at`, as the API has it.
    pub(crate) fn api_time(&self, at: Timestamp) -> Time {
        api_time(self.show(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_time_keeps_the_error_that_the_clock_had_then() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut clock = NodeClock::default();
        clock.set(ClockError::default(), at(5));
        assert!(clock.changes.is_empty());
        clock.set(ClockError { skew: SignedDuration::from_secs(-60), drifts: Vec::new() }, at(100));
        clock.set(ClockError { skew: SignedDuration::ZERO, drifts: vec![(at(200), 100_000)] }, at(200));
        clock.set(ClockError::default(), at(400));
        let shown = [99, 100, 199, 200, 300, 399, 400].map(|second| clock.show(at(second)).as_second());
        assert_eq!(shown, [99, 40, 139, 200, 310, 418, 400]);
        for round in 0..200 {
            clock.set(
                ClockError { skew: SignedDuration::from_secs(round), drifts: Vec::new() },
                at(500 + round),
            );
        }
        assert_eq!(clock.changes.len(), CLOCK_CHANGES);
        assert_eq!(clock.show(Timestamp::MAX), Timestamp::MAX);
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
        assert!(tick_at(Timestamp::MIN, Duration::MAX) <= tick_at(Timestamp::MAX, Duration::ZERO));
    }
}
