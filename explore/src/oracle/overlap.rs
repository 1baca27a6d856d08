//! `overlap`: two instances of a program wrote to the same object in turns.

use super::{Evidence, OracleId, Verdict};
use crate::record::ObjectKey;
use std::collections::BTreeMap;

/// Changes of the writing instance from which on they take turns: a handover is one.
const TURNS: usize = 2;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut writers: BTreeMap<(&str, &ObjectKey), Vec<(u32, i64)>> = BTreeMap::new();
    for write in evidence.program_writes() {
        let instances = writers.entry((&write.client, &write.key)).or_default();
        if instances.last().is_none_or(|(last, _)| *last != write.incarnation) {
            instances.push((write.incarnation, write.revision));
        }
    }
    let taking_turns = writers.into_iter().filter(|(_, instances)| instances.len() > TURNS);
    taking_turns
        .map(|((client, key), instances)| {
            let revision = instances.last().map_or(0, |(_, revision)| *revision);
            let summary =
                format!("two instances of {client} wrote {key} in turns, up to revision {revision}");
            Verdict::new(OracleId::Overlap, format!("{client} {key}"), summary).at(revision)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, table, write};
    use super::*;
    use crate::record::RunRecord;
    use serde_json::json;

    #[test]
    fn instances_that_write_in_turns_overlap_and_a_handover_does_not() {
        let by = |instances: &[u32]| {
            let writes = instances.iter().enumerate().map(|(nth, instance)| {
                let mut write = write(
                    nth as i64 + 1,
                    "op",
                    "configmaps/default/a",
                    json!({"n": nth}),
                    json!({"n": nth + 1}),
                );
                write.incarnation = *instance;
                write
            });
            run(writes.collect())
        };
        let rows = [
            ("one", by(&[0, 0, 0]), false),
            ("handover", by(&[0, 0, 1, 1]), false),
            ("turns", by(&[0, 1, 0]), true),
        ];
        table(judge, &RunRecord::empty(), &rows);
    }
}
