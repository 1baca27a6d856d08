//! The causal tree as the server returns it, and the filter that selects parts of it. Pure; `tree` renders it as text.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The writes to an object, each with what followed from it.
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
    /// The writes that nothing in the tree caused, oldest first.
    pub writes: Vec<Node>,
}

/// One write.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Node {
    /// The revision it made.
    pub revision: i64,
    /// When.
    pub time: Timestamp,
    /// What changed, as the API names it: `pods/default/web-1`.
    pub object: String,
    /// `created`, `updated` or `deleted`.
    pub effect: String,
    /// The API verb, with the subresource behind a slash.
    pub verb: String,
    /// The user's name.
    pub user: String,
    /// The `User-Agent`.
    pub agent: String,
    /// The revisions that the writer named as causes.
    #[serde(default)]
    pub causes: Vec<i64>,
    /// What followed from it.
    pub children: Vec<Node>,
    /// More followed than is here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Which writes were asked for. Those that led to them are kept, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Plurals of the kinds; all if empty.
    pub kinds: Vec<String>,
    /// Users or programs; all if empty.
    pub by: Vec<String>,
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// How many writes deep below the first ones.
    pub depth: Option<usize>,
}

impl Trace {
    /// The part that the filter leaves.
    pub(crate) fn filtered(mut self, filter: &Filter) -> Self {
        self.writes = filter.keep(self.writes, filter.depth.unwrap_or(usize::MAX));
        self
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
        let is_asked = |asked: &[String], has: &[&str]| {
            asked.is_empty()
                || asked.iter().any(|asked| has.iter().any(|has| has.eq_ignore_ascii_case(asked)))
        };
        is_asked(&self.kinds, &[node.plural()])
            && is_asked(&self.by, &[&node.user, node.program()])
            && self.since.is_none_or(|since| node.time >= since)
    }
}

impl Node {
    fn len(&self) -> usize {
        1 + self.children.iter().map(Self::len).sum::<usize>()
    }

    /// The plural of the kind, without its group.
    pub(crate) fn plural(&self) -> &str {
        let kind = self.object.split('/').next().unwrap_or_default();
        kind.split('.').next().unwrap_or_default()
    }

    /// The program that wrote: the first word of its `User-Agent`.
    pub(crate) fn program(&self) -> &str {
        self.agent.split(['/', ' ']).next().unwrap_or_default()
    }

    /// The subresource that was written; empty for the object itself.
    pub(crate) fn subresource(&self) -> &str {
        self.verb.split_once('/').map_or("", |(_, subresource)| subresource)
    }

    /// The user and the program; of a component the program alone.
    pub(crate) fn actor(&self) -> String {
        match (self.program(), self.user.as_str()) {
            ("", user) => user.to_owned(),
            (program, user) if user.starts_with("system:") => program.to_owned(),
            (program, user) => format!("{user} ({program})"),
        }
    }
}
