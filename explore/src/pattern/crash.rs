//! `crash`: the program dies at a distinct write, before or after it, and starts again at once.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase, Restart};
use crate::record::RecordedWrite;

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let both = writes.iter().flat_map(|write| {
        [RequestPhase::Done, RequestPhase::Arrived].map(|phase| {
            let kill = Operation::Kill { program: write.client.clone(), start: Restart::Now, cache: None };
            let action = PlannedAction::at(traced.at_write(write, phase), kill);
            plan(PatternId::Crash, Traced::subject(write), vec![action])
        })
    });
    both.collect()
}
