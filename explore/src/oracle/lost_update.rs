//! `lost-update`: a write puts back a value that another client had changed after the writer's view.

use super::{Evidence, OracleId, Reference, Verdict};
use crate::limits::DEPTH;
use crate::record::{Effect, RecordedWrite, RunRecord};
use serde_json::Value;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let of_reference = |reference: &Reference| lost(evidence, &reference.record);
    let known: Vec<Verdict> = evidence.references.iter().flat_map(of_reference).collect();
    let mut verdicts: Vec<Verdict> = Vec::new();
    for verdict in lost(evidence, evidence.run) {
        if !known.iter().chain(&verdicts).any(|known| known.fingerprint == verdict.fingerprint) {
            verdicts.push(verdict);
        }
    }
    verdicts
}

/// The lost updates of a run.
fn lost(evidence: &Evidence<'_>, run: &RunRecord) -> Vec<Verdict> {
    let mut found = Vec::new();
    for write in run.writes.iter().filter(|write| write.effect == Effect::Updated) {
        let is_judged =
            evidence.is_program(&write.client) && !evidence.scenario.ignores_client(&write.client);
        let Some(seen) = write.seen(&write.key.resource).filter(|_| is_judged) else { continue };
        let Some((path, other)) = put_back(run, write, seen) else { continue };
        let slot = evidence.slot(write);
        let summary = format!(
            "{} put back {path} of {} at revision {}, which {} had changed at revision {} and {} had not seen",
            write.client, write.key, write.revision, other.client, other.revision, write.client
        );
        found.push(Verdict::new(OracleId::LostUpdate, format!("{slot} {path}"), summary).at(write.revision));
    }
    found
}

/// A path that a write restores to what it was before a change by another client that the writer had not seen, with that change.
fn put_back<'r>(run: &'r RunRecord, write: &RecordedWrite, seen: i64) -> Option<(String, &'r RecordedWrite)> {
    // Writes are in the order of their revisions: a run of a loop has thousands.
    let begin = run.writes.partition_point(|other| other.revision <= seen);
    let end = run.writes.partition_point(|other| other.revision < write.revision).max(begin);
    let unseen = run.writes[begin..end].iter().filter(|other| {
        other.key == write.key
            && other.effect == Effect::Updated
            && other.client != write.client
            && other.uid() == write.uid()
    });
    for other in unseen {
        for path in other.changed() {
            let (Some(old), Some(new)) = (&other.before, &other.after) else { continue };
            let at = |object: &Value| value_at(object, &path);
            let is_back = write.after.as_ref().map(at) == Some(at(old))
                && write.before.as_ref().map(at) == Some(at(new))
                && at(old) != at(new);
            if is_back {
                return Some((path, other));
            }
        }
    }
    None
}

fn value_at(object: &Value, path: &str) -> Value {
    let value = path.split('.').take(DEPTH).try_fold(object, |value, name| value.get(name));
    value.cloned().unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, table, write};
    use super::*;
    use crate::record::ViewedRevision;
    use serde_json::json;

    const A: &str = "things.example.com/default/a";

    #[test]
    fn a_value_that_another_changed_unseen_and_a_write_puts_back_is_lost() {
        let case = |seen: i64, other: &str, last: Value| {
            let first = write(5, other, A, json!({"n": 1}), json!({"n": 2}));
            let mut second = write(7, "op", A, json!({"n": 2}), last);
            second.views = vec![ViewedRevision {
                resource: "things.example.com".to_owned(),
                delivered: seen,
                partial: false,
            }];
            run(vec![first, second])
        };
        let rows = [
            ("put back, unseen", case(4, "other", json!({"n": 1})), true),
            ("put back, seen", case(6, "other", json!({"n": 1})), false),
            ("another value", case(4, "other", json!({"n": 3})), false),
            ("kept", case(4, "other", json!({"n": 2, "m": 1})), false),
            ("its own change", case(4, "op", json!({"n": 1})), false),
        ];
        table(judge, &RunRecord::empty(), &rows);
        let reference = case(4, "other", json!({"n": 1}));
        table(judge, &reference, &[("as the reference", reference.clone(), false)]);
    }
}
