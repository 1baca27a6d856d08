//! `down`: the program dies before it is shown a change, and starts only after the next change of what this one changed, which undoes it or
//! follows it.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, Restart, Subject};

pub(super) fn plans(traced: &Traced<'_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    for program in traced.programs {
        for change in traced.shown(&program.name) {
            // What the program writes itself cannot happen while it is down.
            let next = traced.next_of_the_same(change).filter(|next| next.client != program.name);
            let Some(next) = next.filter(|_| traced.has_reaction(&program.name, change)) else { continue };
            let start =
                Restart::When(Box::new(traced.at_unseen_change(&program.name, next, change.revision)));
            let kill = Operation::Kill { program: program.name.clone(), start, cache: None };
            let subject = Subject { resource: change.key.resource.clone(), verb: "event".to_owned() };
            let trigger = traced.at_event(&program.name, change);
            plans.push(plan(PatternId::Down, subject, vec![PlannedAction::at(trigger, kill)]));
        }
    }
    plans
}
