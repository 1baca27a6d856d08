//! `recreate`: the user is quick. Each object that the steps apply is deleted and created again right after a write that follows from it.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction};
use crate::record::RecordedWrite;
use crate::traced::is_pair;

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for applied in traced.applied {
        let changes = || traced.run().writes.iter().filter(|change| change.key == *applied);
        for write in writes.iter().filter(|write| write.key != *applied) {
            if !changes().any(|change| is_pair(traced.run(), change, write)) {
                continue;
            }
            let recreate = Operation::Recreate { object: applied.to_string(), until: None };
            let trigger = traced.at_change(write, 0);
            plans.push(plan(
                PatternId::Recreate,
                Traced::subject(write),
                vec![PlannedAction::at(trigger, recreate)],
            ));
        }
    }
    plans
}
