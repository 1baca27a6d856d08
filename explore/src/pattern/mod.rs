//! Patterns: each makes plans of what a reference run did. One file a pattern. Pure.

mod burst;
mod crash;
mod down;
mod errors;
mod flip;
mod freeze;
mod leader;
mod leap;
mod lost_answer;
mod node;
mod order;
mod recreate;
mod skip;
mod stale;
#[cfg(test)]
mod tests;
mod touch;
mod watches;
mod webhook;

pub use crate::pattern_id::PatternId;
pub use crate::traced::{Traced, TracedProgram};

use crate::limits;
use crate::plan::{Plan, PlannedAction, Subject};
use crate::prune::{self, PrunedCounts};
use crate::record::{Effect, RecordedWrite};
use serde_json::Value;
use std::collections::BTreeSet;

/// Whether a write deletes something, or begins to: finalizers may keep it for a while.
fn is_loss(write: &RecordedWrite) -> bool {
    let is_marked = |object: &Option<Value>| {
        object.as_ref().is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null())
    };
    write.effect == Effect::Deleted || (!is_marked(&write.before) && is_marked(&write.after))
}

/// A plan of actions.
fn plan(pattern: PatternId, subject: Subject, actions: Vec<PlannedAction>) -> Plan {
    Plan { pattern, subject, actions }
}

/// The plans of these patterns, pruned, in the order of the search.
pub fn plans(traced: &Traced<'_>, patterns: &[PatternId]) -> (Vec<Plan>, PrunedCounts) {
    let mut counts = PrunedCounts::default();
    let writes = prune::distinct_writes(traced, &mut counts);
    let mut all = Vec::new();
    for pattern in patterns {
        all.extend(match pattern {
            PatternId::Crash => crash::plans(traced, &writes),
            PatternId::Freeze => freeze::plans(traced, &writes),
            PatternId::Skip => skip::plans(traced),
            PatternId::LostAnswer => lost_answer::plans(traced, &writes),
            PatternId::Touch => touch::plans(traced, &writes),
            PatternId::Errors => errors::plans(traced, &writes),
            PatternId::Expire => watches::expired(traced),
            PatternId::Cut => watches::cut(traced),
            PatternId::Down => down::plans(traced),
            PatternId::Stale => stale::plans(traced),
            PatternId::Burst => burst::plans(traced, &writes),
            PatternId::Recreate => recreate::plans(traced, &writes),
            PatternId::Flip => flip::plans(traced, &writes),
            PatternId::Leader => leader::plans(traced, &writes),
            PatternId::Leap => leap::plans(traced, &writes),
            PatternId::Node => node::plans(traced),
            PatternId::Webhook => webhook::plans(traced, &writes),
            PatternId::Order => order::plans(traced),
        });
    }
    let mut plans = prune::without_equals(all, &mut counts);
    plans = crate::order::round_robin(plans);
    plans.truncate(limits::PLANS);
    (plans, counts)
}

/// The plans that are not among `known`: of a further run without a fault, which is the first reference of `traced`.
pub fn further_plans(traced: &Traced<'_>, patterns: &[PatternId], known: &[Plan]) -> Vec<Plan> {
    let known: BTreeSet<String> = known.iter().map(Plan::key).collect();
    let (plans, _) = plans(traced, patterns);
    plans.into_iter().filter(|plan| !known.contains(&plan.key())).collect()
}
