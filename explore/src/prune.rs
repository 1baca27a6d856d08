//! Pruning: which writes are worth a plan, and which plans equal another. Pure.

use crate::limits;
use crate::plan::Plan;
use crate::record::{Effect, RecordedWrite, WriteShape};
use crate::traced::{Traced, is_looked_at};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What was dropped, by rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrunedCounts {
    /// Writes that changed nothing.
    pub unchanged: usize,
    /// Writes of ignored objects, Leases and Events.
    pub ignored: usize,
    /// Writes left out because enough writes have the same shape.
    pub repeated: usize,
    /// Writes that not every reference has.
    pub unsteady: usize,
    /// Plans that equal another one.
    pub equal: usize,
}

/// The writes of programs that are worth a plan: those that change something, at most [`limits::OF_A_SHAPE`] of a shape, and only shapes
/// that every reference has.
pub fn distinct_writes<'t>(traced: &Traced<'t>, counts: &mut PrunedCounts) -> Vec<&'t RecordedWrite> {
    let shapes: Vec<BTreeSet<WriteShape>> = traced
        .references
        .iter()
        .map(|reference| reference.record.writes.iter().map(|write| general(traced, write)).collect())
        .collect();
    let mut of_shape: BTreeMap<WriteShape, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for write in traced.run().writes.iter().filter(|write| traced.program(&write.client).is_some()) {
        if !is_looked_at(traced.scenario, write) {
            counts.ignored += 1;
            continue;
        }
        if write.effect == Effect::Updated && write.changed().is_empty() {
            counts.unchanged += 1;
            continue;
        }
        let shape = general(traced, write);
        if !shapes.iter().all(|shapes| shapes.contains(&shape)) {
            counts.unsteady += 1;
            continue;
        }
        let count = of_shape.entry(shape).or_default();
        *count += 1;
        match *count <= limits::OF_A_SHAPE {
            true => found.push(write),
            false => counts.repeated += 1,
        }
    }
    found
}

/// The shape of a write with its slot in the place of the name.
fn general(traced: &Traced<'_>, write: &RecordedWrite) -> WriteShape {
    let mut shape = write.shape();
    shape.key.name = traced.normaliser.slot_of(&write.key, write.object());
    shape
}

/// The plans without those that equal an earlier one.
pub fn without_equals(plans: Vec<Plan>, counts: &mut PrunedCounts) -> Vec<Plan> {
    let before = plans.len();
    let mut seen = BTreeSet::new();
    let plans: Vec<Plan> = plans.into_iter().filter(|plan| seen.insert(plan.key())).collect();
    counts.equal += before - plans.len();
    plans
}
