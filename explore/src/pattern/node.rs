//! `node`: each node on which a pod of a program's objects runs loses its power, and has it again after eviction.

use super::{PatternId, Traced, plan};
use crate::plan::{Operation, Plan, PlannedAction, Trigger};
use crate::record::{Effect, RecordedWrite};
use std::collections::BTreeSet;

/// Time of the cluster without power: pods are evicted after five minutes.
const AWAY: &str = "10m";

pub(super) fn plans(traced: &Traced<'_>) -> Vec<Plan> {
    let names: Vec<&str> = traced.programs.iter().map(|program| program.name.as_str()).collect();
    let run = traced.run();
    let created =
        |uid: &str| run.writes.iter().find(|write| write.effect == Effect::Created && write.uid() == uid);
    let is_made = |write: &RecordedWrite| {
        created(write.uid()).is_some_and(|made| run.caused_by(made, &names).is_some())
    };
    let mut seen = BTreeSet::new();
    let mut plans = Vec::new();
    for write in
        run.writes.iter().filter(|write| write.key.resource == "pods" && write.effect == Effect::Updated)
    {
        let Some(node) = write.object()["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
            continue;
        };
        if !is_made(write) || !seen.insert(node) {
            continue;
        }
        let stop = Operation::NodeStop { node: node.to_owned(), until: Box::new(Trigger::after(AWAY)) };
        let action = PlannedAction::at(traced.at_change(write, 0), stop);
        plans.push(plan(PatternId::Node, Traced::subject(write), vec![action]));
    }
    plans
}
