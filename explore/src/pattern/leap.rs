//! `leap`: the cluster's clock jumps forward at a write, while the program runs and while it is down: by an hour at each distinct write,
//! and by 200 periods of each schedule that an object has at the first and the last one of each program.

use super::{PatternId, Traced, plan};
use crate::limits;
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase, Restart, Trigger};
use crate::record::RecordedWrite;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use kstore_api::schedule::Schedule;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How far the clock jumps at each distinct write.
const HOUR: Duration = Duration::from_secs(3600);
/// Periods of a schedule by which the clock jumps: more than the hundred missed times that controllers count.
const PERIODS: u32 = 200;

pub(super) fn plans<'t>(traced: &Traced<'t>, writes: &[&'t RecordedWrite]) -> Vec<Plan> {
    let mut plans: Vec<Plan> = writes.iter().flat_map(|write| both(traced, write, HOUR)).collect();
    let by_client = |write: &&'t RecordedWrite| (write.client.as_str(), write.revision);
    let last: BTreeMap<&str, i64> = writes.iter().map(by_client).collect();
    let first: BTreeMap<&str, i64> = writes.iter().rev().map(by_client).collect();
    let is_either = |write: &&&RecordedWrite| {
        [&first, &last].iter().any(|of| of.get(write.client.as_str()) == Some(&write.revision))
    };
    for by in schedules(traced) {
        plans.extend(writes.iter().filter(is_either).flat_map(|write| both(traced, write, by)));
    }
    plans
}

/// A jump while the program runs, and one while it is down.
fn both(traced: &Traced<'_>, write: &RecordedWrite, by: Duration) -> [Plan; 2] {
    let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    let leap = || Operation::Leap { by: kstore_go_duration::format(nanoseconds(by)) };
    let trigger = || traced.at_write(write, RequestPhase::Done);
    // The program starts once the clock has jumped.
    let start = Restart::When(Box::new(Trigger::after(&kstore_go_duration::format(nanoseconds(by / 2)))));
    let kill = Operation::Kill { program: write.client.clone(), start, cache: None };
    let running = vec![PlannedAction::at(trigger(), leap())];
    let down = vec![PlannedAction::at(trigger(), kill), PlannedAction::at_once(leap())];
    [running, down].map(|actions| plan(PatternId::Leap, Traced::subject(write), actions))
}

/// So many periods of each schedule that objects have in `spec.schedule`.
fn schedules(traced: &Traced<'_>) -> BTreeSet<Duration> {
    let run = traced.run();
    let written = run.writes.iter().filter_map(|write| write.after.as_ref());
    let objects = written.chain(run.initial.iter().map(|stored| &stored.object));
    let texts: BTreeSet<&str> = objects.filter_map(|object| object["spec"]["schedule"].as_str()).collect();
    texts.into_iter().filter_map(period).map(|period| (PERIODS * period).min(limits::DURATION)).collect()
}

/// The time between two occurrences.
fn period(text: &str) -> Option<Duration> {
    let schedule = Schedule::parse(text, TimeZone::UTC).ok()?;
    let first = schedule.next(Timestamp::UNIX_EPOCH)?;
    let second = schedule.next(first)?;
    second.duration_since(first).try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_of_a_schedule_is_the_time_between_two_occurrences() {
        let minutes = |text: &str| period(text).map(|period| period.as_secs() / 60);
        assert_eq!(
            (minutes("*/5 * * * *"), minutes("@hourly"), minutes("@every 2h")),
            (Some(5), Some(60), Some(120))
        );
        assert_eq!(minutes("never"), None);
    }
}
