//! The difference of two states of the cluster as text for people. Pure.

use super::compared::{ClusterDiff, DiffEffect, KindDiff, ObjectDiff};
use super::text::line;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Changes of an object that are shown unless all are wanted.
const SHORT: usize = 3;
/// Columns of the name of a kind, or of an object.
const NAME: usize = 28;

/// What a summary shows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SummaryDetail {
    /// Only the numbers of each kind.
    pub is_stat: bool,
    /// All changes, and each object that a controller owns.
    pub is_verbose: bool,
}

/// A line for each kind, with its objects below it.
pub(super) fn summary(title: &str, diff: &ClusterDiff, detail: SummaryDetail) -> String {
    let mut out = format!("{title}\n");
    for kind in &diff.kinds {
        let _ = writeln!(out, "{:<NAME$}  {}", kind.resource, numbers(kind));
        if detail.is_stat {
            continue;
        }
        let objects: Vec<&ObjectDiff> =
            diff.objects.iter().filter(|object| object.resource == kind.resource).collect();
        let is_folded = |object: &ObjectDiff| {
            !detail.is_verbose
                && (object.is_status_only() || (object.resource == "pods" && object.owner.is_some()))
        };
        objects.iter().filter(|object| !is_folded(object)).for_each(|object| show(&mut out, object, detail));
        let folded: Vec<&ObjectDiff> = objects.into_iter().filter(|object| is_folded(object)).collect();
        show_folded(&mut out, &folded);
    }
    if diff.kinds.is_empty() {
        out.push_str("nothing differs\n");
    }
    let mut hidden: Vec<String> =
        diff.heartbeats.iter().map(|(kind, count)| format!("{count} {kind} (--all-kinds)")).collect();
    hidden.extend(diff.hidden_kinds.iter().map(|kind| format!("{kind} (no permission)")));
    if !hidden.is_empty() {
        let _ = writeln!(out, "not shown: {}", hidden.join(" · "));
    }
    out
}

fn numbers(kind: &KindDiff) -> String {
    let KindDiff { added, changed, removed, status_only, .. } = *kind;
    let changed = changed - status_only;
    let parts = [(added, "added"), (changed, "changed"), (removed, "removed"), (status_only, "status only")];
    let shown: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    shown.join(", ")
}

fn show(out: &mut String, object: &ObjectDiff, detail: SummaryDetail) {
    let name = [&*object.namespace, &*object.name];
    let name: Vec<&str> = name.into_iter().filter(|part| !part.is_empty()).collect();
    let name = name.join("/");
    let owner = object.owner.as_deref().map(|owner| format!(" (owner {owner})")).unwrap_or_default();
    match object.effect {
        DiffEffect::Removed => {
            let _ = writeln!(out, "  {name:<NAME$}  removed{owner}");
            return;
        }
        DiffEffect::Added => {
            let _ = writeln!(out, "  {name:<NAME$}  added{owner}");
        }
        DiffEffect::Changed => {
            let _ = writeln!(out, "  {name}");
        }
    }
    let most = if detail.is_verbose { usize::MAX } else { SHORT };
    for change in object.changes.iter().take(most) {
        let _ = writeln!(out, "      {}", line(change, &[]));
    }
    if let Some(more @ 1..) = object.changes.len().checked_sub(most) {
        let _ = writeln!(out, "      … and {more} more (-v shows all)");
    }
}

/// One line for objects that are counted by what happened to them and by the kinds of their owners.
fn show_folded(out: &mut String, objects: &[&ObjectDiff]) {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for object in objects.iter().filter(|object| !object.is_status_only()) {
        let what = match object.effect {
            DiffEffect::Added => "added",
            DiffEffect::Changed => "changed",
            DiffEffect::Removed => "removed",
        };
        *counts.entry((object.owner_kind().unwrap_or_default(), what)).or_default() += 1;
    }
    for ((owner, what), count) in counts {
        let _ = writeln!(out, "  {count} {what}, owner {owner}; -v lists them");
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::Change;
    use super::*;
    use serde_json::json;

    fn object(
        resource: &str,
        name: &str,
        effect: DiffEffect,
        owner: Option<&str>,
        paths: &[&str],
    ) -> ObjectDiff {
        let change =
            |path: &&str| Change { path: (*path).to_owned(), from: Some(json!(1)), to: Some(json!(2)) };
        ObjectDiff {
            resource: resource.to_owned(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            effect,
            owner: owner.map(str::to_owned),
            changes: paths.iter().map(change).collect(),
        }
    }

    #[test]
    fn a_summary_folds_what_controllers_own_and_what_is_status_only() {
        use DiffEffect::{Added, Changed, Removed};
        let mut diff = ClusterDiff { hidden_kinds: vec!["secrets".to_owned()], ..ClusterDiff::default() };
        diff.heartbeats.insert("events".to_owned(), 62);
        diff.add(
            "deployments.apps",
            vec![
                object("deployments.apps", "web", Changed, None, &["spec.a", "spec.b", "spec.c", "spec.d"]),
                object("deployments.apps", "idle", Changed, None, &["status.x"]),
            ],
        );
        diff.add(
            "pods",
            vec![
                object("pods", "web-1", Added, Some("ReplicaSet/web"), &[]),
                object("pods", "web-2", Removed, Some("ReplicaSet/web"), &[]),
                object("pods", "alone", Removed, None, &[]),
            ],
        );
        let expected = "\
cluster #1 → #2
deployments.apps              1 changed, 1 status only
  ns/web
      spec.a                                        1 → 2
      spec.b                                        1 → 2
      spec.c                                        1 → 2
      … and 1 more (-v shows all)
pods                          1 added, 2 removed
  ns/alone                      removed
  1 added, owner ReplicaSet; -v lists them
  1 removed, owner ReplicaSet; -v lists them
not shown: 62 events (--all-kinds) · secrets (no permission)
";
        assert_eq!(summary("cluster #1 → #2", &diff, SummaryDetail::default()), expected);
        let verbose = summary("x", &diff, SummaryDetail { is_verbose: true, is_stat: false });
        for part in ["ns/web-1", "added (owner ReplicaSet/web)", "spec.d", "ns/idle"] {
            assert!(verbose.contains(part), "{part}: {verbose}");
        }
        let stat = summary("x", &diff, SummaryDetail { is_verbose: false, is_stat: true });
        assert!(!stat.contains("ns/") && stat.contains("1 added, 2 removed"), "{stat}");
        assert!(summary("x", &ClusterDiff::default(), SummaryDetail::default()).contains("nothing differs"));
    }
}
