//! `orphan`: at the end an object has an owner that does not exist, or one that a tested program made is in no reference.

use super::{Evidence, OracleId, Verdict};
use crate::record::{Effect, RunEnd, StoredObject};
use std::collections::BTreeSet;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    if !matches!(evidence.run.ended, RunEnd::Converged | RunEnd::Quiet) {
        return Vec::new();
    }
    let known: BTreeSet<&String> =
        evidence.references.iter().flat_map(|reference| reference.end.objects.keys()).collect();
    // Without a garbage collector references leave such objects, too.
    let ownerless: BTreeSet<String> = evidence
        .references
        .iter()
        .flat_map(|reference| without_owner(evidence, &reference.record.end))
        .map(|(stored, _)| evidence.normaliser.slot_of(&stored.key(), &stored.object))
        .collect();
    let mut verdicts = Vec::new();
    for (stored, owner) in without_owner(evidence, &evidence.run.end) {
        let slot = evidence.normaliser.slot_of(&stored.key(), &stored.object);
        if !ownerless.contains(&slot) {
            let summary = format!("{} has the owner {owner}, which does not exist", stored.key());
            verdicts.push(Verdict::new(OracleId::Orphan, format!("{slot} owner"), summary));
        }
    }
    let made: BTreeSet<String> = evidence
        .program_writes()
        .filter(|write| write.effect == Effect::Created)
        .map(|write| write.uid().to_owned())
        .collect();
    // In the whole state owners and UIDs in labels have their slots, which a single object does not show.
    let is_known = |slot: &String| known.iter().any(|known| without_ordinal(known) == without_ordinal(slot));
    if evidence.end.objects.keys().all(is_known) {
        return verdicts;
    }
    let surplus = evidence.run.end.iter().filter(|stored| made.contains(stored.uid()));
    for stored in surplus.filter(|stored| evidence.normaliser.keeps(stored)) {
        let slot = evidence.normaliser.slot_of(&stored.key(), &stored.object);
        // Slots of generated names end with an ordinal.
        let is_slot = |known: &&String| {
            known.strip_prefix(slot.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
        };
        if !known.iter().any(is_slot) {
            let summary = format!("{} was made by a tested program and is in no reference", stored.key());
            verdicts.push(Verdict::new(OracleId::Orphan, format!("{slot} surplus"), summary));
        }
    }
    verdicts
}

/// A slot without the number that it has among equal generated names.
fn without_ordinal(slot: &str) -> &str {
    slot.rsplit_once('#').map_or(slot, |(name, _)| name)
}

/// Objects of an end state that have an owner which does not exist, with its kind and name.
fn without_owner<'s>(evidence: &Evidence<'_>, end: &'s [StoredObject]) -> Vec<(&'s StoredObject, String)> {
    let uids: BTreeSet<&str> = end.iter().map(StoredObject::uid).collect();
    let owner = |stored: &'s StoredObject| {
        let owners = stored.object["metadata"]["ownerReferences"].as_array();
        let missing = owners.into_iter().flatten().find(|owner| {
            let uid = owner["uid"].as_str().unwrap_or_default();
            !uid.is_empty() && !uids.contains(uid)
        })?;
        let text = |name: &str| missing[name].as_str().unwrap_or_default();
        Some((stored, format!("{} {}", text("kind"), text("name"))))
    };
    end.iter().filter(|stored| evidence.normaliser.keeps(stored)).filter_map(owner).collect()
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
        let ownerless = with(vec![child("owner")]);
        table(judge, &ownerless, &[("as a reference without a garbage collector", ownerless.clone(), false)]);
    }
}
