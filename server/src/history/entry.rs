//! [`HistoryEntry`]: one write to an object with what it changed, and how repeated status writes become one. Pure.

use super::change::Change;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// A write to an object, or repeated writes of its status by one program.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryEntry {
    /// Revision of the (newest) write.
    pub revision: i64,
    /// Revision at which its result can be read: its own, or the oldest one that can be read; `None`: none is retained.
    #[serde(skip)]
    pub read_at: Option<i64>,
    /// Its time, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// `created`, `updated` or `deleted`.
    pub effect: String,
    /// The API verb, followed by `/` and the subresource, if any.
    pub verb: String,
    /// Name of the user.
    pub user: String,
    /// The `User-Agent`.
    pub agent: String,
    /// User and program in a few words.
    pub actor: String,
    /// Revisions that the writer named as causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<i64>,
    /// Number of writes to all objects that followed from it.
    pub effects: usize,
    /// UID of the object; empty if its state is not retained.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// What it changed; `None`: a state before or after it is not retained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
    /// Number of writes, if it stands for several.
    #[serde(skip_serializing_if = "is_one")]
    pub count: usize,
    /// Revision and time of the first of several writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<(i64, Option<Timestamp>)>,
    /// Values that a member had between the first and the last of several writes, by its path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub between: BTreeMap<String, Vec<Option<serde_json::Value>>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one(count: &usize) -> bool {
    *count == 1
}

/// Makes one of neighbours that write the status, by one program, with nothing else between them. `entries` and the result have the oldest
/// first.
pub(super) fn folded(entries: Vec<HistoryEntry>) -> Vec<HistoryEntry> {
    let mut folded: Vec<HistoryEntry> = Vec::new();
    for entry in entries {
        match folded.last_mut().filter(|last| is_repeat(last, &entry)) {
            Some(last) => *last = merged(last.clone(), entry),
            None => folded.push(entry),
        }
    }
    folded
}

fn is_repeat(last: &HistoryEntry, next: &HistoryEntry) -> bool {
    let key = |entry: &HistoryEntry| {
        (entry.actor.clone(), entry.verb.clone(), entry.effect.clone(), entry.uid.clone())
    };
    next.verb.ends_with("/status")
        && key(last) == key(next)
        && last.changes.is_some()
        && next.changes.is_some()
}

/// Two neighbours as one: each member changes from its first value to its last one.
fn merged(last: HistoryEntry, next: HistoryEntry) -> HistoryEntry {
    let first = last.first.or(Some((last.revision, last.time)));
    let (mut changes, mut between) = (last.changes.unwrap_or_default(), last.between);
    for change in next.changes.unwrap_or_default() {
        match changes.iter_mut().find(|known| known.path == change.path) {
            Some(known) => {
                between.entry(change.path).or_default().push(known.to.take());
                known.to = change.to;
            }
            None => changes.push(change),
        }
    }
    let mut causes = last.causes;
    causes.extend(next.causes.iter().filter(|cause| !causes.contains(cause)).copied().collect::<Vec<_>>());
    HistoryEntry {
        first,
        changes: Some(changes),
        between,
        causes,
        effects: last.effects.max(next.effects),
        count: last.count + 1,
        ..next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(revision: i64, from: i64, to: i64) -> HistoryEntry {
        let change = Change { path: "status.ready".to_owned(), from: Some(json!(from)), to: Some(json!(to)) };
        HistoryEntry {
            revision,
            read_at: Some(revision),
            time: Timestamp::from_second(revision).ok(),
            effect: "updated".to_owned(),
            verb: "update/status".to_owned(),
            user: "system:c".to_owned(),
            agent: "c/1".to_owned(),
            actor: "c".to_owned(),
            causes: vec![revision - 1],
            effects: 0,
            uid: "u".to_owned(),
            changes: Some(vec![change]),
            count: 1,
            first: None,
            between: BTreeMap::new(),
        }
    }

    #[test]
    fn repeated_status_writes_of_one_program_become_one_with_the_values_between() {
        let other = HistoryEntry { actor: "d".to_owned(), ..status(5, 1, 3) };
        let all = folded(vec![status(2, 2, 1), status(3, 1, 2), status(4, 2, 1), other, status(6, 3, 4)]);
        let shown: Vec<_> = all.iter().map(|entry| (entry.revision, entry.count)).collect();
        assert_eq!(shown, [(4, 3), (5, 1), (6, 1)]);
        assert_eq!(all[0].first, Some((2, Timestamp::from_second(2).ok())));
        assert_eq!(all[0].changes, status(0, 2, 1).changes);
        assert_eq!(all[0].between["status.ready"], [Some(json!(1)), Some(json!(2))]);
        assert_eq!(all[0].causes, [1, 2, 3]);
    }

    #[test]
    fn writes_of_other_verbs_and_unknown_changes_stay_apart() {
        let patch = |revision| HistoryEntry { verb: "patch".to_owned(), ..status(revision, 1, 2) };
        assert_eq!(folded(vec![patch(1), patch(2)]).len(), 2);
        let unknown = |revision| HistoryEntry { changes: None, ..status(revision, 1, 2) };
        assert_eq!(folded(vec![unknown(1), unknown(2), status(3, 1, 2)]).len(), 3);
        let again = HistoryEntry { uid: "v".to_owned(), ..status(2, 1, 2) };
        assert_eq!(folded(vec![status(1, 1, 2), again]).len(), 2, "another life of the name");
    }
}
