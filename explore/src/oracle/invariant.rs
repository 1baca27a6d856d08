//! `invariant`: a condition of the scenario is false at a revision that touches one of its kinds, or at the end for those that hold at
//! settled moments.

use super::{Evidence, OracleId, Verdict};
use crate::record::{ObjectKey, RecordedWrite, RunRecord};
use crate::scenario::Invariant;
use kstore_api::expression::plain::Expression;
use serde_json::Value;
use std::collections::BTreeMap;

/// Objects by key.
type State = BTreeMap<ObjectKey, Value>;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let broken = evidence.scenario.invariants.iter().filter_map(|invariant| check(evidence.run, invariant));
    broken.collect()
}

fn check(run: &RunRecord, invariant: &Invariant) -> Option<Verdict> {
    let names: Vec<&str> = invariant.objects.keys().map(String::as_str).collect();
    // The scenario was refused if it does not compile.
    let expression = Expression::condition(&invariant.expression, &names).ok()?;
    let mut state: State = run.initial.iter().map(|stored| (stored.key(), stored.object.clone())).collect();
    let mut at = 0;
    while at < run.writes.len() {
        let revision = run.writes[at].revision;
        let end = run.writes[at..].iter().position(|write| write.revision != revision);
        let writes = &run.writes[at..end.map_or(run.writes.len(), |end| at + end)];
        at += writes.len();
        for write in writes {
            apply(&mut state, write);
        }
        let touches =
            |write: &RecordedWrite| invariant.objects.values().any(|set| set.resource == write.key.resource);
        let is_judged = !invariant.is_settled && writes.iter().any(touches);
        if let Some(problem) = is_judged.then(|| problem(&expression, invariant, &state)).flatten() {
            let writer = &writes[0];
            let summary = format!(
                "invariant {} is false at revision {revision}, after {} did {} {}: {problem}",
                invariant.name, writer.client, writer.verb, writer.key
            );
            return Some(Verdict::new(OracleId::Invariant, invariant.name.clone(), summary).at(revision));
        }
    }
    if !invariant.is_settled {
        return None;
    }
    let end: State = run.end.iter().map(|stored| (stored.key(), stored.object.clone())).collect();
    let problem = problem(&expression, invariant, &end)?;
    let summary = format!("invariant {} is false at the end: {problem}", invariant.name);
    Some(Verdict::new(OracleId::Invariant, invariant.name.clone(), summary))
}

fn apply(state: &mut State, write: &RecordedWrite) {
    match &write.after {
        Some(after) => drop(state.insert(write.key.clone(), after.clone())),
        None => drop(state.remove(&write.key)),
    }
}

/// Why the condition is not true.
fn problem(expression: &Expression, invariant: &Invariant, state: &State) -> Option<String> {
    let sets = invariant.objects.iter().map(|(name, set)| {
        let members = state.iter().filter(|(key, object)| set.contains(&key.resource, object));
        (name.as_str(), Value::Array(members.map(|(_, object)| object.clone()).collect()))
    });
    let sets: Vec<(&str, Value)> = sets.collect();
    let variables: Vec<(&str, &Value)> = sets.iter().map(|(name, value)| (*name, value)).collect();
    match expression.is_true(&variables) {
        Ok(true) => None,
        Ok(false) => {
            let counts: Vec<String> = sets
                .iter()
                .map(|(name, value)| format!("{name} has {} objects", value.as_array().map_or(0, Vec::len)))
                .collect();
            Some(format!("{} ({})", invariant.expression, counts.join(", ")))
        }
        Err(error) => Some(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, run, scenario, stored, write};
    use super::*;
    use serde_json::json;

    #[test]
    fn an_invariant_must_hold_at_every_revision_or_at_the_end() {
        let scenario = |when: &str| {
            scenario(&format!(
                "invariants: [{{name: one, objects: {{all: {{resource: configmaps}}}}, \
                 expression: all.size() <= 1, when: {when}}}]\n"
            ))
        };
        let create = |revision, name: &str| {
            write(revision, "op", &format!("configmaps/default/{name}"), json!(null), json!({}))
        };
        let delete = |revision, name: &str| {
            write(revision, "op", &format!("configmaps/default/{name}"), json!({}), json!(null))
        };
        let overlapping = run(vec![create(1, "a"), create(2, "b"), delete(3, "a")]);
        let in_turn = run(vec![create(1, "a"), delete(2, "a"), create(3, "b")]);
        let together = run(vec![create(1, "a"), delete(1, "a"), create(1, "b")]);
        let mut two_at_end = overlapping.clone();
        two_at_end.end = vec![
            stored("configmaps/default/a", "u", json!({})),
            stored("configmaps/default/b", "v", json!({})),
        ];
        for (when, run, is_rejected) in [
            ("always", &overlapping, true),
            ("always", &in_turn, false),
            ("always", &together, false),
            ("settled", &overlapping, false),
            ("settled", &two_at_end, true),
        ] {
            let found = judged(&scenario(when), &[], run, judge);
            assert_eq!(!found.is_empty(), is_rejected, "{when}: {found:?}");
        }
        let found = judged(&scenario("always"), &[], &overlapping, judge);
        assert_eq!((found[0].revision, found[0].fingerprint.as_str()), (Some(2), "one"));
    }
}
