//! `flip`: the user changes an object as a step of the scenario does, and changes it back at once, right after a write that follows from
//! it.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction};
use crate::record::RecordedWrite;
use crate::scenario::StepAction;
use crate::traced::is_pair;

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for step in &traced.scenario.steps {
        let StepAction::Patch { object, merge } = &step.action else { continue };
        let shown = object.to_string();
        let changes = || traced.run().writes.iter().filter(|change| change.key.to_string() == shown);
        for write in writes.iter().filter(|write| write.key.to_string() != shown) {
            if !changes().any(|change| is_pair(traced.run(), change, write)) {
                continue;
            }
            let flip = Operation::Flip { object: shown.clone(), merge: merge.clone() };
            let action = PlannedAction::at(traced.at_change(write, 0), flip);
            plans.push(plan(PatternId::Flip, Traced::subject(write), vec![action]));
        }
    }
    plans
}
