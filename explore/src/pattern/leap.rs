//! `leap`: the cluster's clock jumps an hour forward at each distinct write, while the program runs, and while it is down.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase, Restart, Trigger};
use crate::record::RecordedWrite;

/// How far the clock jumps.
const BY: &str = "1h";

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let both = writes.iter().flat_map(|write| {
        let leap = || Operation::Leap { by: BY.to_owned() };
        let trigger = || traced.at_write(write, RequestPhase::Done);
        // The program starts once the clock has jumped.
        let start = Restart::When(Box::new(Trigger::after("30m")));
        let kill = Operation::Kill { program: write.client.clone(), start, cache: None };
        let running = vec![PlannedAction::at(trigger(), leap())];
        let down = vec![PlannedAction::at(trigger(), kill), PlannedAction::at_once(leap())];
        [running, down].map(|actions| plan(PatternId::Leap, Traced::subject(write), actions))
    });
    both.collect()
}
