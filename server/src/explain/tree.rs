//! Renders a causal tree as text: one write per line, indented under its cause, with the time since the first
//! write. Repeated writes, such as heartbeats, share one line with their count. Pure.

use super::trace::{Node, Trace};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write;

/// One line of the tree: a write, or repeated equal writes of one actor to one object.
struct Line<'a> {
    first: &'a Node,
    last: &'a Node,
    count: usize,
    children: Vec<Line<'a>>,
}

/// The fields in which repeated writes agree: user, agent, verb, effect and object.
type WriteKey<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

fn write_key(node: &Node) -> WriteKey<'_> {
    (&node.user, &node.agent, &node.verb, &node.effect, &node.object)
}

/// Renders the text: what led to the object, then one tree per root.
pub(crate) fn render(trace: &Trace) -> String {
    let mut out = String::new();
    let first = trace.writes.first();
    if let Some(known) =
        trace.known_from.as_ref().filter(|_| first.is_some_and(|first| first.effect != "created"))
    {
        let _ = writeln!(
            out,
            "earlier writes are no longer known (kept from #{}, {}); --explain-memory of the server keeps more",
            known.revision, known.time
        );
    }
    let order = WriteOrder::of(trace);
    if !trace.ancestors.is_empty() {
        out.push_str("what led to it:\n");
        for line in order.fold(&trace.ancestors) {
            let _ = writeln!(out, "  {}  {}", line.first.time, line.describe());
        }
    }
    for root in order.fold(&trace.writes) {
        let _ = writeln!(out, "{}  {}", root.first.time, root.describe());
        branches(&mut out, &root.children, "", root.first.time);
    }
    out
}

/// All writes of a trace by object and revision. Only writes that are neighbours in it are folded: a line for writes with
/// another one between them would tell another story.
struct WriteOrder<'a>(BTreeMap<(&'a str, i64), WriteKey<'a>>);

impl<'a> WriteOrder<'a> {
    fn of(trace: &'a Trace) -> Self {
        let mut order = Self(BTreeMap::new());
        trace.ancestors.iter().chain(&trace.writes).for_each(|node| order.add(node));
        order
    }

    fn add(&mut self, node: &'a Node) {
        self.0.insert((&node.object, node.revision), write_key(node));
        node.children.iter().for_each(|child| self.add(child));
    }

    /// Whether one of two equal writes follows the other without another kind of write to the object between them.
    fn are_neighbours(&self, one: &Node, other: &Node) -> bool {
        let (from, to) = (one.revision.min(other.revision), one.revision.max(other.revision));
        let key = write_key(one);
        write_key(other) == key
            && self.0.range((&*one.object, from)..=(&*one.object, to)).all(|(_, between)| *between == key)
    }

    /// Folds writes with one cause into lines. Equal neighbours without children share one line, and so does a chain of
    /// equal neighbours in which each write has only the next as its child.
    fn fold(&self, nodes: &'a [Node]) -> Vec<Line<'a>> {
        let mut lines: Vec<Line<'a>> = Vec::new();
        let mut leaves: BTreeMap<WriteKey<'a>, usize> = BTreeMap::new();
        for node in nodes {
            let (mut last, mut count) = (node, 1);
            while let [only] = last.children.as_slice()
                && self.are_neighbours(last, only)
            {
                (last, count) = (only, count + 1);
            }
            let is_leaf = last.children.is_empty() && !last.truncated;
            let joined = leaves.get(&write_key(node)).copied().filter(|_| is_leaf);
            if let Some(at) = joined.filter(|at| self.are_neighbours(lines[*at].last, node)) {
                let line = &mut lines[at];
                line.count += count;
                line.last = if last.time > line.last.time { last } else { line.last };
            } else {
                if is_leaf {
                    leaves.insert(write_key(node), lines.len());
                }
                lines.push(Line { first: node, last, count, children: self.fold(&last.children) });
            }
        }
        lines
    }
}

fn branches(out: &mut String, children: &[Line<'_>], indent: &str, start: Timestamp) {
    for (index, child) in children.iter().enumerate() {
        let is_last = index + 1 == children.len();
        let (knot, below) = if is_last { ("└─", "   ") } else { ("├─", "│  ") };
        let since = seconds(start, child.first.time);
        let _ = writeln!(out, "{indent}{knot} {since:+.3}s  {}", child.describe());
        branches(out, &child.children, &format!("{indent}{below}"), start);
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

impl Line<'_> {
    /// The line without its indentation: `#45  deployment-controller created replicasets/default/web-5d7`.
    fn describe(&self) -> String {
        let Node { revision, effect, object, .. } = self.first;
        let actor = self.first.actor();
        let part = match self.first.subresource() {
            "" => String::new(),
            subresource => format!(" [{subresource}]"),
        };
        let times = match self.count {
            1 => String::new(),
            count => {
                let span = seconds(self.first.time, self.last.time);
                format!("  ×{count} in {span:.3}s, to #{}", self.last.revision)
            }
        };
        let changes = match (self.last.changes.join(", "), self.count) {
            (none, _) if none.is_empty() => none,
            (changes, 1) => format!("  {changes}"),
            (changes, _) => format!("; last: {changes}"),
        };
        let more = if self.last.truncated { "  … and more; explain this object to see it" } else { "" };
        format!("#{revision}  {actor} {effect} {object}{part}{times}{changes}{more}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::Filter;
    use super::*;
    use serde_json::{Value, json};

    fn node(revision: i64, micros: i64, what: [&str; 5], children: Value) -> Value {
        let [user, agent, verb, effect, object] = what;
        let time = Timestamp::from_microsecond(1_767_225_600_000_000 + micros).unwrap().to_string();
        json!({ "revision": revision, "time": time, "object": object, "effect": effect, "verb": verb,
            "user": user, "agent": agent, "causes": [], "children": children })
    }

    fn trace(writes: Vec<Value>) -> Trace {
        serde_json::from_value(json!({ "kind": "Trace", "writes": writes })).unwrap()
    }

    const MANAGER: &str = "system:kube-controller-manager";

    fn rollout() -> Trace {
        let pod = |n: i64, name: &str, children| {
            node(n, n * 1000, [MANAGER, "replicaset-controller/kstore", "create", "created", name], children)
        };
        let bound = node(
            9,
            9000,
            ["system:kube-scheduler", "scheduler/kstore", "create/binding", "updated", "pods/a/x"],
            json!([]),
        );
        let set = node(
            6,
            6000,
            [MANAGER, "deployment-controller/kstore", "create", "created", "replicasets/a/web-1"],
            json!([pod(7, "pods/a/x", json!([bound])), pod(8, "pods/a/y", json!([]))]),
        );
        let status = |n: i64, micros| {
            let what =
                [MANAGER, "deployment-controller/kstore", "update/status", "updated", "deployments/a/web"];
            node(n, micros, what, json!([]))
        };
        let kubectl = ["kubernetes-admin", "kubectl/v1.32 (linux)", "create", "created", "deployments/a/web"];
        trace(vec![node(5, 0, kubectl, json!([set, status(10, 10_500), status(12, 20_500)]))])
    }

    #[test]
    fn a_tree_reads_from_cause_to_effect_and_repeated_writes_are_one_line() {
        let expected = "\
2026-01-01T00:00:00Z  #5  kubernetes-admin (kubectl) created deployments/a/web
├─ +0.006s  #6  deployment-controller created replicasets/a/web-1
│  ├─ +0.007s  #7  replicaset-controller created pods/a/x
│  │  └─ +0.009s  #9  scheduler updated pods/a/x [binding]
│  └─ +0.008s  #8  replicaset-controller created pods/a/y
└─ +0.011s  #10  deployment-controller updated deployments/a/web [status]  ×2 in 0.010s, to #12
";
        assert_eq!(render(&rollout()), expected);
    }

    #[test]
    fn a_line_says_what_changed_and_a_folded_one_what_changed_last() {
        let write = |n: i64, changes: Value| {
            let what = [MANAGER, "deployment-controller", "update/status", "updated", "deployments/a/web"];
            let mut write = node(n, n * 1000, what, json!([]));
            write["changes"] = changes;
            write
        };
        let text = render(&trace(vec![write(1, json!(["replicas 3→2", "Available=True"]))]));
        assert!(text.ends_with("deployments/a/web [status]  replicas 3→2, Available=True\n"), "{text}");
        let folded = vec![write(1, json!(["readyReplicas=1"])), write(2, json!(["readyReplicas 1→2"]))];
        let text = render(&trace(folded));
        assert!(text.ends_with("[status]  ×2 in 0.001s, to #2; last: readyReplicas 1→2\n"), "{text}");
    }

    #[test]
    fn heartbeats_are_folded_as_roots_and_as_chains() {
        let beat = |n: i64, children| {
            let what = ["system:node:n", "kubelet/kstore", "update/status", "updated", "nodes/n"];
            node(n, n * 1_000_000, what, children)
        };
        let chain = beat(3, json!([beat(4, json!([beat(5, json!([]))]))]));
        let text = render(&trace(vec![beat(1, json!([])), beat(2, json!([])), chain]));
        assert_eq!(text, "2026-01-01T00:00:01Z  #1  kubelet updated nodes/n [status]  ×5 in 4.000s, to #5\n");
    }

    #[test]
    fn filters_keep_matching_writes_and_their_causes() {
        let shown = |filter: Filter| render(&rollout().filtered(&filter));
        let of = |text: &str| vec![text.to_owned()];
        let pods = shown(Filter { kinds: of("pods"), ..Filter::default() });
        assert!(pods.contains("pods/a/y") && pods.contains("replicasets/a/web-1"), "{pods}");
        assert!(!pods.contains("[status]"), "{pods}");
        let scheduler = shown(Filter { by: of("scheduler"), ..Filter::default() });
        assert!(scheduler.contains("[binding]") && !scheduler.contains("pods/a/y"), "{scheduler}");
        let since = Some("2026-01-01T00:00:00.0085Z".parse().unwrap());
        let late = shown(Filter { since, ..Filter::default() });
        assert!(late.contains("[binding]") && !late.contains("pods/a/y"), "{late}");
        assert_eq!(shown(Filter { by: of("someone-else"), ..Filter::default() }), "");
        let shallow = shown(Filter { depth: Some(1), ..Filter::default() });
        assert_eq!(shallow.lines().count(), 3, "{shallow}");
        assert!(shallow.contains("web-1  … and more"), "{shallow}");
    }

    /// Regression: an object that was created, deleted and created again read as created twice and then deleted.
    #[test]
    fn only_neighbouring_writes_to_an_object_share_a_line() {
        let write = |n: i64, verb: &str, effect: &str| {
            node(n, n * 1000, ["admin", "kubectl/v1", verb, effect, "configmaps/a/gone"], json!([]))
        };
        let text = render(&trace(vec![
            write(1, "create", "created"),
            write(2, "update", "updated"),
            write(3, "update", "updated"),
            write(4, "delete", "deleted"),
            write(5, "create", "created"),
            write(6, "update", "updated"),
        ]));
        let changes: Vec<_> = text.lines().map(|line| line.split("  ").skip(1).collect::<Vec<_>>()).collect();
        let expected = [
            vec!["#1", "admin (kubectl) created configmaps/a/gone"],
            vec!["#2", "admin (kubectl) updated configmaps/a/gone", "×2 in 0.001s, to #3"],
            vec!["#4", "admin (kubectl) deleted configmaps/a/gone"],
            vec!["#5", "admin (kubectl) created configmaps/a/gone"],
            vec!["#6", "admin (kubectl) updated configmaps/a/gone"],
        ];
        assert_eq!(changes, expected);
        // A chain across another write is none.
        let beat =
            |n: i64, children| node(n, n * 1000, ["n", "kubelet", "update", "updated", "nodes/n"], children);
        let other = node(2, 2000, ["admin", "kubectl", "patch", "updated", "nodes/n"], json!([]));
        let text = render(&trace(vec![beat(1, json!([beat(3, json!([]))])), other]));
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn what_led_to_the_object_and_where_the_memory_begins_come_first() {
        let object = |n: i64, what: [&str; 2]| {
            let [agent, object] = what;
            node(n, n * 1000, [MANAGER, agent, "create", "created", object], json!([]))
        };
        let mut pod: Trace = trace(vec![object(7, ["replicaset-controller/kstore", "pods/a/x"])]);
        pod.ancestors = [["deployment-controller", "replicasets/a/web"]]
            .map(|what| serde_json::from_value(object(6, what)).unwrap())
            .into();
        let expected = "\
what led to it:
  2026-01-01T00:00:00.006Z  #6  deployment-controller created replicasets/a/web
2026-01-01T00:00:00.007Z  #7  replicaset-controller created pods/a/x
";
        assert_eq!(render(&pod), expected);
        let known = json!({"revision": 6, "time": "2026-01-01T00:00:00Z"});
        pod.known_from = serde_json::from_value(known).unwrap();
        assert_eq!(render(&pod), expected, "the creation is known");
        pod.writes[0].effect = "updated".into();
        let text = render(&pod);
        assert!(
            text.starts_with("earlier writes are no longer known (kept from #6, 2026-01-01T00:00:00Z); "),
            "{text}"
        );
    }
}
