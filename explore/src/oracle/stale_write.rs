//! `stale-write`: a write that no reference makes, whose basis lacks a change of a related object. It explains findings and is none.

use super::{Evidence, OracleId, Verdict};
use crate::record::{RecordedWrite, WriteShape};
use std::collections::BTreeSet;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let explained = stale_read(evidence);
    explained
        .map(|StaleRead { write, change, seen }| {
            let behind = change.revision - seen;
            let summary = format!(
                "{} did {} {} at revision {}, and had seen {} only up to revision {seen}: {} was changed by {} at revision {} \
                 ({behind} revisions later)",
                write.client, write.verb, write.key, write.revision, change.key.resource, change.key, change.client, change.revision
            );
            let fingerprint = format!("{} {}", evidence.slot(write), change.key.resource);
            Verdict::new(OracleId::StaleWrite, fingerprint, summary).at(write.revision)
        })
        .into_iter()
        .collect()
}

/// The stale read behind a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StaleRead<'e> {
    /// The write.
    pub(crate) write: &'e RecordedWrite,
    /// The newest related change that the writer had not been shown.
    pub(crate) change: &'e RecordedWrite,
    /// The newest revision of that kind which it had been shown.
    pub(crate) seen: i64,
}

/// The first write of a program that no reference makes.
pub(crate) fn first_foreign<'e>(evidence: &Evidence<'e>) -> Option<&'e RecordedWrite> {
    let known: BTreeSet<WriteShape> = evidence
        .references
        .iter()
        .flat_map(|reference| &reference.record.writes)
        .map(|write| general(evidence, write))
        .collect();
    evidence.program_writes().find(|write| !known.contains(&general(evidence, write)))
}

/// The stale read behind the first write that no reference makes, if there is one.
pub(crate) fn stale_read<'e>(evidence: &Evidence<'e>) -> Option<StaleRead<'e>> {
    let write = first_foreign(evidence)?;
    let unseen = evidence.run.writes.iter().rev().filter(|change| change.revision < write.revision);
    for change in unseen {
        let Some(seen) = write.seen(&change.key.resource).filter(|seen| *seen < change.revision) else {
            continue;
        };
        if is_related(change, write) {
            return Some(StaleRead { write, change, seen });
        }
    }
    None
}

/// The shape of a write with its slot in the place of the name.
fn general(evidence: &Evidence<'_>, write: &RecordedWrite) -> WriteShape {
    let mut shape = write.shape();
    shape.key.name = evidence.slot(write);
    shape
}

/// Whether a changed object is the written one, its owner, what it owns, or one of its name.
fn is_related(change: &RecordedWrite, write: &RecordedWrite) -> bool {
    let owners = |write: &RecordedWrite| {
        let owners = write.object()["metadata"]["ownerReferences"].as_array();
        let uids = owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str().map(str::to_owned));
        uids.collect::<Vec<_>>()
    };
    change.key == write.key
        || owners(write).iter().any(|uid| uid == change.uid())
        || owners(change).iter().any(|uid| uid == write.uid())
        || (change.key.namespace == write.key.namespace && write.key.name.contains(&change.key.name))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, run, scenario, write};
    use super::*;
    use crate::record::{RunRecord, ViewedRevision};
    use serde_json::json;

    #[test]
    fn a_foreign_write_on_an_old_view_names_the_change_that_it_had_not_seen() {
        let thing = write(5, "user", "things.example.com/default/a", json!(null), json!({}));
        let delete = |seen: i64| {
            let mut write = write(9, "op", "configmaps/default/a", json!({}), json!(null));
            write.views = vec![ViewedRevision {
                resource: "things.example.com".to_owned(),
                delivered: seen,
                partial: false,
            }];
            write
        };
        let found = |seen: i64, reference: &RunRecord| {
            let run = run(vec![thing.clone(), delete(seen)]);
            judged(&scenario(""), std::slice::from_ref(reference), &run, judge)
        };
        let none = RunRecord::empty();
        let stale = found(4, &none);
        assert!(
            stale[0].summary.contains("up to revision 4") && stale[0].summary.contains("at revision 5"),
            "{stale:?}"
        );
        assert!(found(5, &none).is_empty(), "it had seen the change");
        let mut partial = delete(4);
        partial.views[0].partial = true;
        let partial =
            judged(&scenario(""), std::slice::from_ref(&none), &run(vec![thing.clone(), partial]), judge);
        assert!(partial.is_empty(), "it may have seen the change");
        assert!(found(4, &run(vec![delete(4)])).is_empty(), "a reference makes the write, too");
    }
}
