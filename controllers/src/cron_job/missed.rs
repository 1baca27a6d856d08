//! Missed schedule times of a CronJob, and its next time. Pure.
//!
//! For irregular intervals upstream estimates the latest missed time and may miss it. With `@every` upstream
//! counts from the starting deadline, which moves along with now. Both are exact here.

use jiff::{SignedDuration, Timestamp};
use kstore_api::schedule::Schedule;

/// Number of missed times beyond which a warning is recorded, as upstream.
const MANY: i64 = 100;

/// Times of a schedule since it last ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueTimes {
    /// The latest missed time.
    pub latest: Option<Timestamp>,
    /// Whether more than about a hundred times were missed.
    pub is_many: bool,
    /// The next time after now.
    pub next: Timestamp,
}

/// The times that are due at `now` for a schedule that last ran, or was created, at `met`. Times before the
/// `deadline` are dropped.
///
/// # Errors
/// A schedule without any future time.
pub(crate) fn due(
    schedule: &Schedule,
    met: Timestamp,
    deadline: Option<SignedDuration>,
    now: Timestamp,
) -> Result<DueTimes, String> {
    let oldest = deadline.and_then(|deadline| now.checked_sub(deadline).ok());
    let from = oldest.map_or(met, |oldest| oldest.max(met));
    let due = match schedule {
        Schedule::Every(span) => every(*span, met, from, now),
        Schedule::Calendar(_) => calendar(schedule, met, from, now),
    };
    due.ok_or_else(|| "time difference between two schedules is less than 1 second".to_owned())
}

fn every(span: SignedDuration, met: Timestamp, from: Timestamp, now: Timestamp) -> Option<DueTimes> {
    let met = Timestamp::from_second(met.as_second()).ok()?;
    let rounds = (now.duration_since(met).as_secs() / span.as_secs()).max(0);
    let after =
        |rounds: i64| met.checked_add(SignedDuration::from_secs(span.as_secs().checked_mul(rounds)?)).ok();
    let latest = after(rounds).filter(|latest| rounds > 0 && *latest >= from);
    let missed = now.duration_since(from).as_secs() / span.as_secs();
    Some(DueTimes { latest, is_many: missed > MANY, next: after(rounds + 1)? })
}

fn calendar(schedule: &Schedule, met: Timestamp, from: Timestamp, now: Timestamp) -> Option<DueTimes> {
    let first = schedule.next(from)?;
    if first > now {
        return Some(DueTimes { latest: None, is_many: false, next: schedule.next(met.max(now))? });
    }
    let next = schedule.next(now)?;
    let interval = schedule.next(first)?.duration_since(first);
    let missed = now.duration_since(first).as_secs() / interval.as_secs().max(1) + 1;
    Some(DueTimes { latest: Some(latest(schedule, first, interval, now)), is_many: missed > MANY, next })
}

/// The latest time of a schedule at or before `now`, starting from the known time `first`. Searches back in
/// growing spans, so that it iterates only over the times of the last span.
fn latest(schedule: &Schedule, first: Timestamp, interval: SignedDuration, now: Timestamp) -> Timestamp {
    let mut span = interval;
    loop {
        let from = now.checked_sub(span).map_or(first, |from| from.max(first));
        let times = std::iter::successors(schedule.next(from), |at| schedule.next(*at));
        if let Some(found) = times.take_while(|at| *at <= now).last() {
            return found;
        }
        if from == first {
            return first;
        }
        span = span.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::schedule::zone;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn parse(text: &str) -> Schedule {
        Schedule::parse(text, zone("UTC").unwrap()).unwrap()
    }

    fn seconds(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn the_latest_missed_time_counts_and_old_ones_are_dropped() {
        const HOUR: i64 = 3600;
        let table = [
            ("0 * * * *", 0, None, 100, None, false, HOUR),
            ("0 * * * *", 0, None, HOUR, Some(HOUR), false, 2 * HOUR),
            ("0 * * * *", 0, None, 100 * HOUR + 9, Some(100 * HOUR), false, 101 * HOUR),
            ("0 * * * *", 0, None, 101 * HOUR + 9, Some(101 * HOUR), true, 102 * HOUR),
            ("0 * * * *", 0, Some(60), HOUR + 59, Some(HOUR), false, 2 * HOUR),
            ("0 * * * *", 0, Some(60), HOUR + 61, None, false, 2 * HOUR),
            ("0 * * * *", 0, Some(7200), 101 * HOUR + 9, Some(101 * HOUR), false, 102 * HOUR),
            ("@every 90m", 60, None, 60 + 5400, Some(60 + 5400), false, 60 + 10800),
            ("@every 90m", 60, Some(10), 60 + 5405, Some(60 + 5400), false, 60 + 10800),
            ("@every 90m", 60, Some(10), 60 + 5411, None, false, 60 + 10800),
            ("@every 1m", 0, None, 101 * 60, Some(101 * 60), true, 102 * 60),
            // Created in the future, according to another clock.
            ("0 * * * *", 2 * HOUR, None, 0, None, false, 3 * HOUR),
        ];
        for (text, met, deadline, now, latest, is_many, next) in table {
            let found = due(&parse(text), at(met), deadline.map(seconds), at(now)).unwrap();
            let expected = DueTimes { latest: latest.map(at), is_many, next: at(next) };
            assert_eq!(found, expected, "{text} {met} {deadline:?} {now}");
        }
        let error = due(&parse("0 0 30 2 *"), at(0), None, at(9)).unwrap_err();
        assert_eq!(error, "time difference between two schedules is less than 1 second");
    }

    proptest! {
        #[test]
        fn the_latest_time_equals_an_exhaustive_search(
            text in prop_oneof![
                Just("* 9 * * 1"), Just("30 6-16/4 * * 1-5"), Just("0 0 1 * *"), Just("*/7 * * * *"), Just("@every 7m"),
            ],
            met in 0i64..500_000,
            passed in 0i64..2_000_000,
            deadline in proptest::option::of(1i64..100_000),
        ) {
            let (schedule, now) = (parse(text), at(met + passed));
            let walk = std::iter::successors(schedule.next(at(met)), |at| schedule.next(*at));
            let past: Vec<Timestamp> = walk.take_while(|at| *at <= now).collect();
            let oldest = deadline.map(|deadline| now.checked_sub(seconds(deadline)).unwrap());
            let is_new = |at: &Timestamp| match (text, oldest) {
                ("@every 7m", Some(oldest)) => *at >= oldest,
                (_, Some(oldest)) => *at > oldest,
                (_, None) => true,
            };
            let found = due(&schedule, at(met), deadline.map(seconds), now).unwrap();
            prop_assert_eq!(found.latest, past.last().copied().filter(is_new));
            prop_assert_eq!(found.next, schedule.next(past.last().copied().unwrap_or(at(met))).unwrap());
        }
    }
}
