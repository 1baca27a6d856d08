//! `touch`: a real conflict at each distinct update and patch, once and three times.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase};
use crate::record::RecordedWrite;

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let updates =
        writes.iter().filter(|write| write.verb.starts_with("update") || write.verb.starts_with("patch"));
    let both = updates.flat_map(|write| {
        [1, 3].map(|times| {
            let trigger = traced.at_write(write, RequestPhase::Arrived);
            let touch = PlannedAction { times, ..PlannedAction::at(trigger, Operation::Touch {}) };
            plan(PatternId::Touch, Traced::subject(write), vec![touch])
        })
    });
    both.collect()
}
