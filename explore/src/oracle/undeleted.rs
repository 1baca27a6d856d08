//! `undeleted`: an object that has a time of deletion still exists after the run came to rest, although no reference leaves it so.

use super::{Evidence, OracleId, Verdict};
use crate::record::{RunEnd, StoredObject};

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if !matches!(evidence.run.ended, RunEnd::Converged | RunEnd::Quiet) {
        return Vec::new();
    }
    let is_deleted = |stored: &&StoredObject| stored.object["metadata"].get("deletionTimestamp").is_some();
    let in_reference = |stored: &StoredObject| {
        let ends = evidence.references.iter().flat_map(|reference| reference.record.end.iter());
        ends.filter(|other| is_deleted(other)).any(|other| other.key() == stored.key())
    };
    let left = evidence.run.end.iter().filter(is_deleted).filter(|stored| evidence.normaliser.keeps(stored));
    left.filter(|stored| !in_reference(stored))
        .map(|stored| {
            let finalizers = stored.object["metadata"]["finalizers"].as_array();
            let finalizers: Vec<&str> =
                finalizers.into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
            let slot = evidence.normaliser.slot_of(&stored.key(), &stored.object);
            let summary = format!(
                "{} was deleted and still exists, with finalizers {}",
                stored.key(),
                finalizers.join(", ")
            );
            Verdict::new(OracleId::Undeleted, slot, summary)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{stored, table};
    use super::*;
    use crate::record::RunRecord;
    use serde_json::json;

    #[test]
    fn a_deleted_object_does_not_stay() {
        let with = |is_deleted: bool| {
            let mut stored = stored("things.example.com/default/a", "u", json!({}));
            stored.object["metadata"]["finalizers"] = json!(["op/f"]);
            if is_deleted {
                stored.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            RunRecord { end: vec![stored], ..RunRecord::empty() }
        };
        let rows =
            [("kept", with(false), false), ("gone", RunRecord::empty(), false), ("stays", with(true), true)];
        table(judge, &with(false), &rows);
        table(judge, &with(true), &[("as in the reference", with(true), false)]);
    }
}
