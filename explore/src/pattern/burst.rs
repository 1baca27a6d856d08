//! `burst`: as `freeze`, but the delayed changes come in portions of 2 and 5.

use super::{PatternId, Traced, freeze, plan};
use crate::plan::{Operation, Plan, PlannedAction, Trigger};
use crate::record::RecordedWrite;

/// Changes of a portion.
const PORTIONS: [u64; 2] = [2, 5];

pub(super) fn plans(traced: &Traced<'_>, writes: &[&RecordedWrite]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (write, kind) in freeze::lagging(traced, writes) {
        for portion in PORTIONS {
            let thaw = |step| {
                let thaw = Operation::Thaw { cache: freeze::CACHE.to_owned(), step };
                PlannedAction::at(Trigger::quiet(), thaw)
            };
            let begin = freeze::begin(traced, write, kind).into_iter();
            let actions = begin.chain([thaw(Some(portion)), thaw(None)]).collect();
            plans.push(plan(PatternId::Burst, freeze::subject(write, kind), actions));
        }
    }
    plans
}
