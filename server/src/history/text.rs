//! The history of an object, and a difference, as text for people. Pure.

use super::change::Change;
use super::entry::HistoryEntry;
use jiff::Timestamp;
use serde_json::Value;
use std::fmt::Write as _;

/// Characters of a value.
const WIDTH: usize = 120;
/// Columns of a path, after which its values begin.
const PATH: usize = 44;
/// Changes of an entry that are shown unless all are wanted.
const SHORT: usize = 3;
/// Values between the first and the last that a line has.
const BETWEEN: usize = 4;

/// What is shown of each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Some changes.
    Short,
    /// All changes.
    All,
    /// None.
    None,
}

/// One line for each write, the newest first, with what it changed below it.
pub(super) fn history(title: &str, entries: &[HistoryEntry], uid: Option<&str>, detail: Detail) -> String {
    let mut out = String::new();
    let revisions: usize = entries.iter().map(|entry| entry.count).sum();
    let oldest =
        entries.last().map_or(0, |entry| entry.first.map_or(entry.revision, |(revision, _)| revision));
    let newest = entries.first().map_or(0, |entry| entry.revision);
    let life = uid.map_or_else(|| "does not exist now".to_owned(), |uid| format!("exists · uid {uid}"));
    let plural = if revisions == 1 { "" } else { "s" };
    let _ = writeln!(out, "{title} · {revisions} revision{plural}, #{oldest} to #{newest} · {life}");
    for entry in entries {
        out.push('\n');
        let _ = writeln!(out, "{}", head(entry));
        below(&mut out, entry, detail);
    }
    out
}

fn head(entry: &HistoryEntry) -> String {
    let mut parts = vec![
        format!("#{}", entry.revision),
        time(entry.time),
        format!("{:<38}", entry.actor),
        format!("{:<8}", entry.verb),
    ];
    if let Some((revision, since)) = entry.first {
        let took = entry.time.zip(since).map(|(last, first)| last.duration_since(first).as_secs_f64());
        let took = took.map(|took| format!(", in {took:.2} s")).unwrap_or_default();
        parts.push(format!("×{} from #{revision}{took}", entry.count));
    }
    match entry.causes.as_slice() {
        [] if entry.effects > 0 => parts.push(format!("led to {} writes", entry.effects)),
        [] => {}
        [first @ .., newest] => {
            let more = if first.is_empty() { String::new() } else { format!(" and {} more", first.len()) };
            parts.push(format!("because of #{newest}{more}"));
        }
    }
    parts.join("  ").trim_end().to_owned()
}

fn below(out: &mut String, entry: &HistoryEntry, detail: Detail) {
    if detail == Detail::None {
        return;
    }
    let Some(changes) = &entry.changes else {
        let why = match &*entry.effect {
            "deleted" => "deleted",
            _ => "what it changed is not retained: a longer --history of the server keeps more",
        };
        let _ = writeln!(out, "        {why}");
        return;
    };
    let most = if detail == Detail::All { usize::MAX } else { SHORT };
    for change in changes.iter().take(most) {
        let between = entry.between.get(&change.path).map_or(&[][..], Vec::as_slice);
        let _ = writeln!(out, "        {}", line(change, between));
    }
    if changes.is_empty() {
        let _ = writeln!(out, "        {}", if entry.effect == "created" { "created" } else { "no member" });
    }
    if let Some(more @ 1..) = changes.len().checked_sub(most) {
        let _ = writeln!(out, "        … and {more} more (-p paths shows all)");
    }
}

/// The changes of a difference, a line each.
pub(super) fn difference(changes: &[Change]) -> String {
    changes.iter().fold(String::new(), |out, change| out + &line(change, &[]) + "\n")
}

/// A change in a line: its path and its values.
pub(super) fn line(change: &Change, between: &[Option<Value>]) -> String {
    let path = if change.path.is_empty() { "object" } else { &change.path };
    let mut values = vec![shown(change.from.as_ref())];
    match between.len() > BETWEEN {
        true => values.push(format!("… {} values …", between.len())),
        false => values.extend(between.iter().map(|value| shown(value.as_ref()))),
    }
    let last = shown(change.to.as_ref());
    values.push(last.clone());
    values.dedup();
    // Hidden values look equal.
    if values.len() == 1 {
        values.push(last);
    }
    format!("{path:<PATH$}  {}", values.join(" → "))
}

/// A value in a line: without control characters, which a terminal would obey.
pub(super) fn shown(value: Option<&Value>) -> String {
    let text = match value {
        None => "–".to_owned(),
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(value) => value.to_string(),
    };
    let plain = |c: char| match c {
        '\n' => '⏎',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    let mut short: String = text.chars().take(WIDTH).map(plain).collect();
    if text.chars().nth(WIDTH).is_some() {
        short.push('…');
    }
    short
}

/// A time to the millisecond, in UTC; as wide if it is not known.
fn time(time: Option<Timestamp>) -> String {
    time.map_or_else(|| format!("{:<24}", "–"), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn entry() -> HistoryEntry {
        HistoryEntry {
            revision: 313,
            read_at: Some(313),
            time: "2026-03-01T23:38:57.327Z".parse().ok(),
            effect: "updated".to_owned(),
            verb: "update/status".to_owned(),
            user: "system:x".to_owned(),
            agent: "deployment-controller".to_owned(),
            actor: "deployment-controller".to_owned(),
            causes: vec![300, 312],
            effects: 0,
            uid: "u".to_owned(),
            changes: Some(vec![Change {
                path: "status.readyReplicas".to_owned(),
                from: Some(json!(2)),
                to: Some(json!(2)),
            }]),
            count: 3,
            first: Some((265, "2026-03-01T23:38:56.407Z".parse().ok())),
            between: BTreeMap::from([("status.readyReplicas".to_owned(), vec![Some(json!(1))])]),
        }
    }

    #[test]
    fn a_history_names_writer_cause_and_values() {
        let patch = HistoryEntry {
            revision: 244,
            verb: "patch".to_owned(),
            actor: "kubernetes-admin (kubectl)".to_owned(),
            causes: Vec::new(),
            effects: 49,
            changes: Some(vec![Change { path: "a".to_owned(), from: None, to: Some(json!("x\u{1b}[1m\n")) }]),
            count: 1,
            first: None,
            between: BTreeMap::new(),
            ..entry()
        };
        let gone = HistoryEntry { changes: None, ..patch.clone() };
        let text =
            history("deployments.apps default/web", &[entry(), patch, gone], Some("5c9f"), Detail::Short);
        let expected = "\
deployments.apps default/web · 5 revisions, #244 to #313 · exists · uid 5c9f

#313  2026-03-01T23:38:57.327Z  deployment-controller                   update/status  ×3 from #265, in 0.92 s  because of #312 and 1 more
        status.readyReplicas                          2 → 1 → 2

#244  2026-03-01T23:38:57.327Z  kubernetes-admin (kubectl)              patch     led to 49 writes
        a                                             – → x\u{fffd}[1m⏎

#244  2026-03-01T23:38:57.327Z  kubernetes-admin (kubectl)              patch     led to 49 writes
        what it changed is not retained: a longer --history of the server keeps more
";
        assert_eq!(text, expected);
        let none = history("x", &[entry()], None, Detail::None);
        assert!(none.contains("does not exist now") && !none.contains("readyReplicas"), "{none}");
    }

    #[test]
    fn long_values_and_many_changes_are_cut_unless_all_are_wanted() {
        let change =
            |path: &str| Change { path: path.to_owned(), from: None, to: Some(json!("y".repeat(500))) };
        let many = HistoryEntry { changes: Some(["a", "b", "c", "d"].map(change).to_vec()), ..entry() };
        let short = history("x", std::slice::from_ref(&many), None, Detail::Short);
        assert!(
            short.contains("… and 1 more") && short.lines().all(|line| line.chars().count() < 200),
            "{short}"
        );
        assert!(!history("x", &[many], None, Detail::All).contains("more ("));
    }
}
