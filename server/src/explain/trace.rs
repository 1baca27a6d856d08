//! The causal tree as the server sends it, and its filter. Pure; `tree` renders it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// All writes to an object, each with the writes that it caused.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trace {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    /// The writes to other objects that led to the writes in the tree, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<Node>,
    /// The writes that nothing in the tree caused, oldest first.
    pub writes: Vec<Node>,
    /// The oldest write in the server's memory, if there were older ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_from: Option<KnownFrom>,
    /// Kinds of objects that the user may not list: writes to them are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_kinds: Vec<String>,
    /// Why a pod is where it is; of this command and not of the server.
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub placement: Option<Value>,
}

/// The write with which the server's memory begins.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct KnownFrom {
    /// Its revision.
    pub revision: i64,
    /// Its time.
    pub time: Timestamp,
}

/// One write.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Node {
    /// The revision of the write.
    pub revision: i64,
    /// Time of the write.
    pub time: Timestamp,
    /// The written object, as the API names it: `pods/default/web-1`.
    pub object: String,
    /// `created`, `updated` or `deleted`.
    pub effect: String,
    /// What an update changed, in words, if the server knows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The API verb, followed by `/` and the subresource, if any.
    pub verb: String,
    /// Name of the user.
    pub user: String,
    /// The `User-Agent`.
    pub agent: String,
    /// The revisions that the writer named as causes.
    #[serde(default)]
    pub causes: Vec<i64>,
    /// The writes that this write caused.
    pub children: Vec<Node>,
    /// Whether the server left out further children.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Which writes are kept. Writes that led to a kept write are kept as well.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Plurals of the kinds; empty for all.
    pub kinds: Vec<String>,
    /// Parts of the names of users or programs; empty for all.
    pub by: Vec<String>,
    /// The earliest time.
    pub since: Option<Timestamp>,
    /// Largest depth below the first writes.
    pub depth: Option<usize>,
}

impl Trace {
    /// The part of the tree that the filter keeps.
    pub(crate) fn filtered(mut self, filter: &Filter) -> Self {
        self.writes = filter.keep(self.writes, filter.depth.unwrap_or(usize::MAX));
        self
    }

    /// Everybody who wrote, sorted.
    pub(crate) fn actors(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.writes.iter().for_each(|node| node.add_actors(&mut found));
        found
    }

    /// Number of writes in the tree.
    pub(crate) fn len(&self) -> usize {
        self.writes.iter().map(Node::len).sum()
    }
}

impl Filter {
    fn keep(&self, nodes: Vec<Node>, depth: usize) -> Vec<Node> {
        nodes.into_iter().filter_map(|node| self.keep_node(node, depth)).collect()
    }

    fn keep_node(&self, mut node: Node, depth: usize) -> Option<Node> {
        let children = std::mem::take(&mut node.children);
        if depth == 0 {
            node.truncated |= !children.is_empty();
        } else {
            node.children = self.keep(children, depth - 1);
        }
        (self.matches(&node) || !node.children.is_empty()).then_some(node)
    }

    fn matches(&self, node: &Node) -> bool {
        let is_named = |part: &String| {
            let part = part.to_ascii_lowercase();
            [&node.user, node.program()].iter().any(|name| name.to_ascii_lowercase().contains(&part))
        };
        (self.kinds.is_empty() || self.kinds.iter().any(|kind| node.plural() == kind))
            && (self.by.is_empty() || self.by.iter().any(is_named))
            && self.since.is_none_or(|since| node.time >= since)
    }
}

impl Node {
    /// Number of writes: this one and those that followed from it.
    pub(crate) fn len(&self) -> usize {
        1 + self.children.iter().map(Self::len).sum::<usize>()
    }

    fn add_actors(&self, found: &mut BTreeSet<String>) {
        found.insert(self.actor());
        self.children.iter().for_each(|child| child.add_actors(found));
    }

    /// The plural of the kind, without its group.
    pub(crate) fn plural(&self) -> &str {
        let kind = self.object.split('/').next().unwrap_or_default();
        kind.split('.').next().unwrap_or_default()
    }

    /// The program that wrote: the first word of its `User-Agent`.
    pub(crate) fn program(&self) -> &str {
        program(&self.agent)
    }

    /// The subresource that was written; empty for the object itself.
    pub(crate) fn subresource(&self) -> &str {
        self.verb.split_once('/').map_or("", |(_, subresource)| subresource)
    }

    /// User and program; for a component of the control plane only the program.
    pub(crate) fn actor(&self) -> String {
        actor(&self.user, &self.agent)
    }
}

/// The program of a `User-Agent`: its first word.
fn program(agent: &str) -> &str {
    agent.split(['/', ' ']).next().unwrap_or_default()
}

/// A user and the program of its `User-Agent`; for a component of the control plane only the program.
pub(crate) fn actor(user: &str, agent: &str) -> String {
    match (program(agent), user) {
        ("", user) => user.to_owned(),
        (program, user) if user.starts_with("system:") => program.to_owned(),
        (program, user) => format!("{user} ({program})"),
    }
}
