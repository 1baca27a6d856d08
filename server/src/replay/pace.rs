//! [`Pace`]: when each recorded revision is due. Pure.

use crate::args::ReplaySpeed;
use std::time::Duration;

/// Turns the times of recorded revisions, in their order, into times since the start of the replay.
#[derive(Debug)]
pub(super) struct Pace {
    speed: ReplaySpeed,
    /// The newest recorded time so far, in microseconds since 1970.
    newest_us: Option<i64>,
    due: Duration,
}

impl Pace {
    /// The pace of a replay that begins at a recorded time, in microseconds since 1970; `None`: at that of the first revision.
    pub(super) fn new(speed: ReplaySpeed, begin_us: Option<i64>) -> Self {
        Self { speed, newest_us: begin_us, due: Duration::ZERO }
    }

    /// When the next revision is due, since the start of the replay. One without a time, or with an older one, is due with the revision
    /// before.
    pub(super) fn next(&mut self, time_us: Option<i64>) -> Duration {
        let Some(time_us) = time_us else { return self.due };
        let newest = self.newest_us.unwrap_or(time_us);
        let passed = Duration::from_micros(u64::try_from(time_us.saturating_sub(newest)).unwrap_or(0));
        self.newest_us = Some(newest.max(time_us));
        if let ReplaySpeed::Times(factor) = self.speed {
            let waited = Duration::try_from_secs_f64(passed.as_secs_f64() / factor).unwrap_or(Duration::MAX);
            self.due = self.due.saturating_add(waited);
        }
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of revisions with these recorded seconds, in milliseconds.
    fn times(speed: ReplaySpeed, begin: Option<i64>, seconds: &[Option<i64>]) -> Vec<u128> {
        let microseconds = |seconds: i64| seconds * 1_000_000;
        let mut pace = Pace::new(speed, begin.map(microseconds));
        seconds.iter().map(|seconds| pace.next(seconds.map(microseconds)).as_millis()).collect()
    }

    #[test]
    fn revisions_are_due_at_a_multiple_of_the_recorded_speed_and_never_before_earlier_ones() {
        let recorded = [Some(100), None, Some(104), Some(102), Some(104), Some(110)];
        assert_eq!(times(ReplaySpeed::Times(2.0), Some(100), &recorded), [0, 0, 2000, 2000, 2000, 5000]);
        assert_eq!(times(ReplaySpeed::Times(0.5), Some(99), &recorded[..3]), [2000, 2000, 10_000]);
        assert_eq!(times(ReplaySpeed::Times(1.0), None, &[Some(7), Some(8)]), [0, 1000]);
        assert_eq!(times(ReplaySpeed::Max, Some(0), &recorded), [0; 6]);
        let extremes = [Some(i64::MIN / 1_000_000), Some(i64::MAX / 1_000_000)];
        assert_eq!(times(ReplaySpeed::Times(1e-9), None, &extremes)[0], 0);
    }
}
