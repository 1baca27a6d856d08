//! `lost-answer`: a distinct write is done, and the program learns nothing of it: 504, or a broken connection.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, RequestPhase};
use crate::record::RecordedWrite;

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let both = writes.iter().flat_map(|write| {
        ["504", "reset"].map(|how| {
            let trigger = traced.at_write(write, RequestPhase::Arrived);
            let lost = PlannedAction::at(trigger, Operation::LostAnswer { how: how.to_owned() });
            plan(PatternId::LostAnswer, Traced::subject(write), vec![lost])
        })
    });
    both.collect()
}
