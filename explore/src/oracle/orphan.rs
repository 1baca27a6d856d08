//! `orphan`: at the end an object has an owner that does not exist, or one that a tested program made is in no reference.

use super::{Evidence, OracleId, Verdict};
use crate::record::{Effect, RunEnd, StoredObject};
use std::collections::BTreeSet;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if !matches!(evidence.run.ended, RunEnd::Converged | RunEnd::Quiet) {
        return Vec::new();
    }
    let uids: BTreeSet<&str> = evidence.run.end.iter().map(StoredObject::uid).collect();
    let known: BTreeSet<&String> =
        evidence.references.iter().flat_map(|reference| reference.end.objects.keys()).collect();
    let made: BTreeSet<String> = evidence
        .program_writes()
        .filter(|write| write.effect == Effect::Created)
        .map(|write| write.uid().to_owned())
        .collect();
    let mut verdicts = Vec::new();
    for stored in evidence.run.end.iter().filter(|stored| evidence.normaliser.keeps(stored)) {
        let key = stored.key();
        let owners = stored.object["metadata"]["ownerReferences"].as_array();
        let missing = owners.into_iter().flatten().find(|owner| {
            let uid = owner["uid"].as_str().unwrap_or_default();
            !uid.is_empty() && !uids.contains(uid)
        });
        let slot = evidence.normaliser.slot_of(&key, &stored.object);
        if let Some(owner) = missing {
            let (kind, name) =
                (owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default());
            let summary = format!("{key} has the owner {kind} {name}, which does not exist");
            verdicts.push(Verdict::new(OracleId::Orphan, format!("{slot} owner"), summary));
            continue;
        }
        let is_known = known.iter().any(|known| known.starts_with(&slot));
        if made.contains(stored.uid()) && !is_known {
            let summary = format!("{key} was made by a tested program and is in no reference");
            verdicts.push(Verdict::new(OracleId::Orphan, format!("{slot} surplus"), summary));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, stored, table, write};
    use super::*;
    use crate::record::RunRecord;
    use serde_json::json;

    #[test]
    fn an_object_without_its_owner_or_in_no_reference_is_an_orphan() {
        let owner = || stored("things.example.com/default/t", "owner", json!({}));
        let child = |uid: &str| {
            let mut child = stored("configmaps/default/a", "u1", json!({}));
            child.object["metadata"]["ownerReferences"] = json!([{"uid": uid, "kind": "Thing", "name": "t"}]);
            child
        };
        let with = |end: Vec<StoredObject>| RunRecord { end, ..RunRecord::empty() };
        let reference = with(vec![owner(), child("owner")]);
        let mut surplus = run(vec![write(1, "op", "configmaps/default/b", json!(null), json!({}))]);
        surplus.end = vec![owner(), child("owner"), stored("configmaps/default/b", "u1", json!({}))];
        let mut by_user = surplus.clone();
        by_user.writes[0].client = "user".to_owned();
        let rows = [
            ("as the reference", reference.clone(), false),
            ("without the owner", with(vec![child("owner")]), true),
            ("made by the operator, in no reference", surplus, true),
            ("made by the user", by_user, false),
        ];
        table(judge, &reference, &rows);
    }
}
