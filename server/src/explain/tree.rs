//! A causal tree as text: one write per line, indented under its cause, with the time since the first. Pure.

use jiff::Timestamp;
use serde::Deserialize;
use std::fmt::Write;

/// What the server knows about an object.
#[derive(Debug, Deserialize)]
pub(crate) struct Trace {
    writes: Vec<Node>,
}

/// One write.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    revision: i64,
    time: Timestamp,
    object: String,
    effect: String,
    verb: String,
    user: String,
    agent: String,
    children: Vec<Node>,
    #[serde(default)]
    truncated: bool,
}

/// The text, one tree per root.
pub(crate) fn render(trace: &Trace) -> String {
    let mut out = String::new();
    for root in &trace.writes {
        let _ = writeln!(out, "{}  {}", root.time, root.describe());
        branches(&mut out, &root.children, "", root.time);
    }
    out
}

fn branches(out: &mut String, children: &[Node], indent: &str, start: Timestamp) {
    for (index, child) in children.iter().enumerate() {
        let last = index + 1 == children.len();
        let (knot, below) = if last { ("└─", "   ") } else { ("├─", "│  ") };
        let since = child.time.duration_since(start).as_secs_f64();
        let _ = writeln!(out, "{indent}{knot} {since:+.3}s  {}", child.describe());
        branches(out, &child.children, &format!("{indent}{below}"), start);
    }
}

impl Node {
    /// `#45  deployment-controller created replicasets/default/web-5d7`
    fn describe(&self) -> String {
        let program = self.agent.split(['/', ' ']).next().unwrap_or_default();
        let who = match (program, self.user.as_str()) {
            ("", user) => user.to_owned(),
            (program, user) if user.starts_with("system:") => program.to_owned(),
            (program, user) => format!("{user} ({program})"),
        };
        let (_, subresource) = self.verb.split_once('/').unwrap_or_default();
        let part = if subresource.is_empty() { String::new() } else { format!(" [{subresource}]") };
        let more = if self.truncated { "  … and more; explain this object to see it" } else { "" };
        format!("#{}  {who} {} {}{part}{more}", self.revision, self.effect, self.object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(revision: i64, micros: i64, what: [&str; 5], children: Value) -> Value {
        let [user, agent, verb, effect, object] = what;
        let time = Timestamp::from_microsecond(1_767_225_600_000_000 + micros).unwrap().to_string();
        json!({ "revision": revision, "time": time, "object": object, "effect": effect, "verb": verb,
            "user": user, "agent": agent, "causes": [], "children": children })
    }

    #[test]
    fn a_tree_reads_from_cause_to_effect() {
        let manager = "system:kube-controller-manager";
        let pod = |n: i64, name: &str, children| {
            node(n, n * 1000, [manager, "replicaset-controller/kstore", "create", "created", name], children)
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
            [manager, "deployment-controller/kstore", "create", "created", "replicasets/a/web-1"],
            json!([pod(7, "pods/a/x", json!([bound])), pod(8, "pods/a/y", json!([]))]),
        );
        let status = node(
            10,
            10_500,
            [manager, "deployment-controller/kstore", "update/status", "updated", "deployments/a/web"],
            json!([]),
        );
        let root = node(
            5,
            0,
            ["kubernetes-admin", "kubectl/v1.32 (linux)", "create", "created", "deployments/a/web"],
            json!([set, status]),
        );
        let trace: Trace = serde_json::from_value(json!({ "kind": "Trace", "writes": [root] })).unwrap();
        let expected = "\
2026-01-01T00:00:00Z  #5  kubernetes-admin (kubectl) created deployments/a/web
├─ +0.006s  #6  deployment-controller created replicasets/a/web-1
│  ├─ +0.007s  #7  replicaset-controller created pods/a/x
│  │  └─ +0.009s  #9  scheduler updated pods/a/x [binding]
│  └─ +0.008s  #8  replicaset-controller created pods/a/y
└─ +0.011s  #10  deployment-controller updated deployments/a/web [status]
";
        assert_eq!(render(&trace), expected);
    }
}
