//! `order`: requests of programs and events to them happen in another order. Each kind of them has a priority by a seed, which one to three
//! of them lose during the run: most bugs of interleavings need no more.

use super::{PatternId, Traced, plan};
use crate::limits;
use crate::plan::{Operation, Plan, PlannedAction, Subject};
use kstore_nondet::Rng;
use std::collections::BTreeSet;

/// Most turns of a plan at which priorities change.
const CHANGES: u64 = 3;

pub(super) fn plans(traced: &Traced<'_>) -> Vec<Plan> {
    let turns = traced.references.iter().map(|reference| reference.record.turns).min().unwrap_or(0);
    if turns < 2 {
        // Nothing has an order.
        return Vec::new();
    }
    let plan_of = |seed: u64| {
        let rng = Rng::seeded(seed);
        let changes = 1 + seed % CHANGES;
        let swaps: BTreeSet<u64> = (0..changes).map(|_| 1 + rng.below(turns)).collect();
        let order = PlannedAction::at_once(Operation::Order { seed: Some(seed), swaps });
        let subject = Subject { resource: "all".to_owned(), verb: "order".to_owned() };
        plan(PatternId::Order, subject, vec![order])
    };
    (1..=limits::ORDERS).map(plan_of).collect()
}
