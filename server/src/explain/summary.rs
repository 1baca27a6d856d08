//! Summary of a large causal tree: its first writes, and the number of other writes by actor and kind. Pure.

use super::trace::{Node, Trace};
use super::tree;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Number of lines from which a tree is summarized by default.
pub(crate) const SUMMARY_FROM: usize = 200;
/// Number of first writes that a summary shows.
const ROOTS: usize = 20;

/// The writes counted in one row.
struct RowCounts {
    count: usize,
    first: Timestamp,
    last: Timestamp,
}

/// Kind, actor and effect of the writes in one row.
type RowKey = (String, String, String);

/// Renders the summary.
pub(crate) fn render(trace: Trace) -> String {
    let total = trace.len();
    let mut rows = BTreeMap::new();
    trace.writes.iter().for_each(|node| count(node, &mut rows));
    let mut rows: Vec<(RowKey, RowCounts)> = rows.into_iter().collect();
    // Rows are ordered by their first write.
    rows.sort_by_key(|(_, row)| row.first);
    let start = rows.first().map(|(_, row)| row.first).unwrap_or_default();

    let (mut out, mut roots) = (String::new(), trace);
    let hidden = roots.writes.len().saturating_sub(ROOTS);
    roots.writes.truncate(ROOTS);
    roots.writes.iter_mut().for_each(|root| root.children.clear());
    out.push_str(&tree::render(&roots));
    if hidden > 0 {
        let _ = writeln!(out, "… and {hidden} more first writes");
    }
    let head = ["KIND", "ACTOR", "WRITE", "COUNT", "FROM", "TO"].map(str::to_owned);
    let since = |time: Timestamp| format!("{:+.3}s", time.duration_since(start).as_secs_f64());
    let cells = rows.into_iter().map(|((kind, actor, write), row)| {
        [kind, actor, write, row.count.to_string(), since(row.first), since(row.last)]
    });
    table(&mut out, std::iter::once(head).chain(cells).collect());
    let _ = writeln!(
        out,
        "{total} writes. --all shows each; --depth, --kind, --by and --since show some; -o json everything."
    );
    out
}

fn count(node: &Node, rows: &mut BTreeMap<RowKey, RowCounts>) {
    let write = match node.subresource() {
        "" => node.effect.clone(),
        subresource => format!("{} [{subresource}]", node.effect),
    };
    let group = (node.plural().to_owned(), node.actor(), write);
    let row = rows.entry(group).or_insert(RowCounts { count: 0, first: node.time, last: node.time });
    row.count += 1;
    row.first = row.first.min(node.time);
    row.last = row.last.max(node.time);
    node.children.iter().for_each(|child| count(child, rows));
}

fn table(out: &mut String, rows: Vec<[String; 6]>) {
    let widths: [usize; 6] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in rows {
        let line = row.iter().zip(widths).fold(String::new(), |mut line, (cell, width)| {
            let _ = write!(line, "{cell:width$}   ");
            line
        });
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_large_tree_is_counted_by_kind_and_actor() {
        let time = |n: i64| Timestamp::from_millisecond(1_767_225_600_000 + n).unwrap().to_string();
        let node = |n: i64, agent: &str, verb: &str, effect: &str, object: String, children| {
            json!({ "revision": n, "time": time(n), "object": object, "effect": effect, "verb": verb,
                "user": "system:x", "agent": agent, "causes": [], "children": children })
        };
        let bind = |n: i64| {
            node(n + 1000, "scheduler", "create/binding", "updated", format!("pods/a/{n}"), json!([]))
        };
        let pods = (1..=300).map(|n| {
            node(n, "replicaset-controller", "create", "created", format!("pods/a/{n}"), json!([bind(n)]))
        });
        let root = node(0, "kubectl", "create", "created", "replicasets/a/web".to_owned(), pods.collect());
        let trace: Trace = serde_json::from_value(json!({ "writes": [root] })).unwrap();
        assert!(trace.len() > SUMMARY_FROM);
        let expected = "\
2026-01-01T00:00:00Z  #0  kubectl created replicasets/a/web
KIND          ACTOR                   WRITE               COUNT   FROM      TO
replicasets   kubectl                 created             1       +0.000s   +0.000s
pods          replicaset-controller   created             300     +0.001s   +0.300s
pods          scheduler               updated [binding]   300     +1.001s   +1.300s
601 writes. --all shows each; --depth, --kind, --by and --since show some; -o json everything.
";
        assert_eq!(render(trace), expected);
    }
}
