//! `skip`: an unobserved state. The program's watch is cut before a change and expires; it reads again only after the next change of what
//! this one changed.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, Subject};

pub(super) fn plans(traced: &Traced<'_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    for program in traced.programs {
        for change in traced.shown(&program.name) {
            let Some(next) = traced.next_of_the_same(change) else { continue };
            // What the program writes itself after it saw the change cannot happen while it does not see it.
            if next.client == program.name || !traced.has_reaction(&program.name, change) {
                continue;
            }
            let until = Box::new(traced.at_unseen_change(&program.name, next, change.revision));
            let subject = Subject { resource: change.key.resource.clone(), verb: "event".to_owned() };
            let trigger = traced.at_event(&program.name, change);
            let skip = PlannedAction::at(trigger, Operation::Skip { until });
            plans.push(plan(PatternId::Skip, subject, vec![skip]));
        }
    }
    plans
}
