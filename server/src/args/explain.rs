//! Flags of `kstore-server explain`, which the module `explain` carries out.

use super::flag::{Choice, Flag, add, chosen, list, parsed, put, required, words};
use super::{external, number};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const HELP: &str = "\
Prints first what led to the object, then the writes to it and what followed from them. Each line is one write: the time since \
the first, the revision, the actor, and the change. A write is indented under the write that caused it; repeated writes, such as \
heartbeats, are one line with their number. A large tree is summarized by kind and actor. The exit code is 1 if no write matches.

For a pod the tree follows what the scheduler says: why the pod is pending, what each node lacks and the smallest changes that help; or \
the scores by which its node was chosen.

Examples:
  kstore-server explain deployment/web
  kstore-server explain deployment/web --kind pods --by scheduler --since 10m
  kstore-server explain node/node-0 --depth 1 -o yaml
  kstore-server explain pod/web-6d4cf56db6-x2x5v -n shop
  kstore-server explain pod/db-1 --placement --all-nodes";

pub(super) const FLAGS: &[Flag<ExplainArgs>] = &[
    Flag::value(
        "object",
        "KIND/NAME",
        |o: &mut ExplainArgs, text| put(&mut o.object, parsed(text)),
        "Object to explain; the kind as kubectl takes it: deployment, deploy, deployments.apps",
    )
    .positional()
    .shaped(required),
    Flag::value(
        "namespace",
        "NAMESPACE",
        |o: &mut ExplainArgs, text| put(&mut o.namespace, parsed(text).map(Some)),
        "Namespace of the object [default: the kubeconfig's]",
    )
    .shaped(|arg| arg.short('n')),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut ExplainArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    ),
    Flag::choice(
        ("output", "FORMAT"),
        words::<AnswerOutput>,
        |o: &mut ExplainArgs, word| put(&mut o.output, chosen(word)),
        "Output format",
    )
    .default("text")
    .shaped(|arg| arg.short('o')),
    Flag::value(
        "depth",
        "N",
        |o: &mut ExplainArgs, text| put(&mut o.depth, number::count(text).map(Some)),
        "Show writes up to N causes below the first ones",
    ),
    Flag::value(
        "since",
        "TIME",
        |o: &mut ExplainArgs, text| put(&mut o.since, external::time(text).map(Some)),
        "Show writes of the last TIME, such as 30s or 5m, and what led to them",
    ),
    Flag::value(
        "kind",
        "KIND",
        |o: &mut ExplainArgs, text| add(&mut o.kind, parsed(text)),
        "Show writes to these kinds, and what led to them",
    )
    .shaped(list),
    Flag::value(
        "by",
        "ACTOR",
        |o: &mut ExplainArgs, text| add(&mut o.by, parsed(text)),
        "Show writes by users or programs with ACTOR in their names, and what led to them",
    )
    .shaped(list),
    Flag::switch(
        "placement",
        |o: &mut ExplainArgs| o.placement = true,
        "Of a pod: print only why it is on its node or on none, without the tree",
    ),
    Flag::switch("tree", |o: &mut ExplainArgs| o.tree = true, "Of a pod: print only the tree"),
    Flag::switch(
        "all-nodes",
        |o: &mut ExplainArgs| o.all_nodes = true,
        "Of a pod: print what each node lacks or scores, and not only the nearest ten",
    ),
    Flag::value(
        "at",
        "REVISION",
        |o: &mut ExplainArgs, text| put(&mut o.at, parsed(text).map(Some)),
        "Of a pod: explain its place as of a revision, such as 412 or 5m",
    ),
    Flag::path(
        "scheduler-config",
        "FILE",
        |o: &mut ExplainArgs, path| o.scheduler_config = Some(path),
        "Of a pod: the configuration of its scheduler [default: kube-scheduler's default profile]",
    ),
    Flag::switch(
        "all",
        |o: &mut ExplainArgs| o.all = true,
        "Show each write of a large tree instead of a summary",
    ),
];

/// Arguments of `explain`.
#[derive(Debug, Default)]
pub struct ExplainArgs {
    /// Object to explain: KIND/NAME.
    pub object: String,
    /// Namespace of the object; `None`: the kubeconfig's.
    pub namespace: Option<String>,
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
    /// Output format.
    pub output: AnswerOutput,
    /// Number of causes below the first writes.
    pub depth: Option<usize>,
    /// Age of the oldest writes to show.
    pub since: Option<Duration>,
    /// Kinds to show writes to.
    pub kind: Vec<String>,
    /// Parts of the names of actors.
    pub by: Vec<String>,
    /// Whether each write of a large tree is shown.
    pub all: bool,
    /// Whether only the place of a pod is explained.
    pub placement: bool,
    /// Whether only the tree of a pod is shown.
    pub tree: bool,
    /// Whether each node is shown.
    pub all_nodes: bool,
    /// The revision at which the placement of a pod is explained; `None`: the present one.
    pub at: Option<String>,
    /// File with the configuration of the pod's scheduler.
    pub scheduler_config: Option<PathBuf>,
}

impl ExplainArgs {
    /// Whether a flag is given that has a meaning for pods alone.
    pub(crate) fn is_about_placement(&self) -> bool {
        self.placement || self.all_nodes || self.at.is_some() || self.scheduler_config.is_some()
    }
}

/// Output format of commands that ask a running server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerOutput {
    /// Text for people.
    #[default]
    Text,
    /// JSON for programs.
    Json,
    /// YAML with the fields of the JSON.
    Yaml,
}

impl Choice for AnswerOutput {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("text", Self::Text, "Text for people"),
        ("json", Self::Json, "JSON for programs"),
        ("yaml", Self::Yaml, "YAML with the fields of the JSON"),
    ];
}
