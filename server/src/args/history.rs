//! Flags of `kstore-server history` and `kstore-server diff`, which the module `history` carries out.

use super::explain::AnswerOutput;
use super::flag::{Choice, Flag, add, chosen, list, parsed, put, required, words};
use super::number;
use std::path::PathBuf;

/// Revisions that are shown if nothing is said.
const LIMIT: usize = 50;

pub(super) const HISTORY_HELP: &str = "\
Prints each retained revision of an object, the newest first: when it was written, by whom, because of which revision, and what \
changed. Repeated status writes of one program are one entry. Values of Secrets are hidden. A deleted object has its history, too. \
Revisions that are left out are counted. Without the permission to read /kstore/v1/history (ClusterRole kstore:see) it shows the present \
object alone, with its field managers. The exit code is 1 if no revision matches.

Examples:
  kstore-server history deployment/web
  kstore-server history deployment/web --field spec.replicas
  kstore-server history configmap/settings -n shop -p paths --all
  kstore-server history pod/web-6d4cf56db6-x2x5v --from 300 -o json";

pub(super) const DIFF_HELP: &str = "\
Prints what differs between two revisions of an object, a line for each member, or between two states of the whole cluster, by kind. \
The second revision is the newest one if it is not said. A revision is a number such as 244 or #244, `now`, `oldest`, the state of a \
time ago (5m) or at a time (23:38:56), or N writes from outside of the control plane before another one (now~2). Of a cluster, pods \
of controllers are counted, and so are Events and Leases. The exit code is 0 if nothing differs, 1 if something does, as of kubectl \
diff.

Examples:
  kstore-server diff deployment/web@244
  kstore-server diff deployment/web@244 262
  kstore-server diff configmap/a configmap/b@now
  kstore-server diff 5m
  kstore-server diff 244 313 -n shop --kind deployments,pods
  kstore-server diff 244..313 --stat";

pub(super) const HISTORY: &[Flag<HistoryArgs>] = &[
    Flag::value(
        "object",
        "KIND/NAME",
        |o: &mut HistoryArgs, text| put(&mut o.object, parsed(text)),
        "Object; the kind as kubectl takes it: deployment, deploy, deployments.apps",
    )
    .positional()
    .shaped(required),
    Flag::value(
        "namespace",
        "NAMESPACE",
        |o: &mut HistoryArgs, text| put(&mut o.namespace, parsed(text).map(Some)),
        "Namespace of the object [default: the kubeconfig's]",
    )
    .shaped(|arg| arg.short('n')),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut HistoryArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    ),
    Flag::choice(
        ("output", "FORMAT"),
        words::<AnswerOutput>,
        |o: &mut HistoryArgs, word| put(&mut o.output, chosen(word)),
        "Output format",
    )
    .default("text")
    .shaped(|arg| arg.short('o')),
    Flag::choice(
        ("diff", "FORM"),
        words::<HistoryDetail>,
        |o: &mut HistoryArgs, word| put(&mut o.detail, chosen(word).map(Some)),
        "Changes of each revision [default: the first three]",
    )
    .shaped(|arg| arg.short('p')),
    Flag::value(
        "from",
        "REVISION",
        |o: &mut HistoryArgs, text| put(&mut o.from, parsed(text).map(Some)),
        "Oldest revision to show: a number, 5m, 23:38:56, now~2",
    ),
    Flag::value(
        "to",
        "REVISION",
        |o: &mut HistoryArgs, text| put(&mut o.to, parsed(text).map(Some)),
        "Newest revision to show",
    ),
    Flag::value(
        "limit",
        "N",
        |o: &mut HistoryArgs, text| {
            put(&mut o.limit, number::count(text).map(|most| (most > 0).then_some(most)))
        },
        "Newest revisions to show; 0: all",
    )
    .default("50"),
    Flag::value(
        "field",
        "PATH",
        |o: &mut HistoryArgs, text| put(&mut o.field, parsed(text).map(Some)),
        "Show only revisions that changed this member, one below it or the one above it, such as spec.replicas",
    ),
    Flag::switch("all", |o: &mut HistoryArgs| o.all = true, "Show each of repeated status writes"),
    Flag::switch(
        "all-fields",
        |o: &mut HistoryArgs| o.fields = true,
        "Show managed fields, generation and resource version, too",
    ),
    Flag::switch("show-secrets", |o: &mut HistoryArgs| o.secrets = true, "Show values of Secrets"),
];

pub(super) const DIFF: &[Flag<DiffArgs>] = &[
    Flag::value(
        "from",
        "REVISION|KIND/NAME@REVISION",
        |o: &mut DiffArgs, text| put(&mut o.from, parsed(text)),
        "First revision of the cluster, or an object and its first revision",
    )
    .positional()
    .shaped(required),
    Flag::value(
        "to",
        "REVISION|KIND/NAME[@REVISION]",
        |o: &mut DiffArgs, text| put(&mut o.to, parsed(text).map(Some)),
        "Second revision, or another object [default: now]",
    )
    .positional(),
    Flag::value(
        "namespace",
        "NAMESPACE",
        |o: &mut DiffArgs, text| put(&mut o.namespace, parsed(text).map(Some)),
        "Namespace of the objects [default: the kubeconfig's; of a cluster, all]",
    )
    .shaped(|arg| arg.short('n')),
    Flag::value(
        "selector",
        "SELECTOR",
        |o: &mut DiffArgs, text| put(&mut o.labels, parsed(text).map(Some)),
        "Compare objects of a cluster with these labels",
    )
    .shaped(|arg| arg.short('l')),
    Flag::value(
        "kind",
        "KIND",
        |o: &mut DiffArgs, text| add(&mut o.kinds, parsed(text)),
        "Compare objects of a cluster of these kinds",
    )
    .shaped(list),
    Flag::switch(
        "all-kinds",
        |o: &mut DiffArgs| o.all_kinds = true,
        "Compare Events and Leases of a cluster, too",
    ),
    Flag::switch("stat", |o: &mut DiffArgs| o.stat = true, "Show only the numbers of objects of each kind"),
    Flag::switch(
        "ignore-status",
        |o: &mut DiffArgs| o.ignores_status = true,
        "Leave out objects of a cluster whose status alone differs",
    ),
    Flag::switch(
        "verbose",
        |o: &mut DiffArgs| o.verbose = true,
        "Show each object and all changes of a cluster",
    )
    .shaped(|arg| arg.short('v')),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut DiffArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    ),
    Flag::choice(
        ("output", "FORMAT"),
        words::<AnswerOutput>,
        |o: &mut DiffArgs, word| put(&mut o.output, chosen(word)),
        "Output format",
    )
    .default("text")
    .shaped(|arg| arg.short('o')),
    Flag::switch(
        "all-fields",
        |o: &mut DiffArgs| o.fields = true,
        "Show managed fields, generation and resource version, too",
    ),
    Flag::switch("show-secrets", |o: &mut DiffArgs| o.secrets = true, "Show values of Secrets"),
];

/// Arguments of `history`.
#[derive(Debug)]
pub struct HistoryArgs {
    /// Object: KIND/NAME.
    pub object: String,
    /// Namespace of the object; `None`: the kubeconfig's.
    pub namespace: Option<String>,
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
    /// Output format.
    pub output: AnswerOutput,
    /// Changes of each revision; `None`: a few.
    pub detail: Option<HistoryDetail>,
    /// Oldest revision.
    pub from: Option<String>,
    /// Newest revision.
    pub to: Option<String>,
    /// Most revisions; `None`: all.
    pub limit: Option<usize>,
    /// Path of a member that must have changed.
    pub field: Option<String>,
    /// Whether repeated status writes are shown one by one.
    pub all: bool,
    /// Whether members are shown that every write changes.
    pub fields: bool,
    /// Whether values of Secrets are shown.
    pub secrets: bool,
}

impl Default for HistoryArgs {
    fn default() -> Self {
        Self {
            object: String::new(),
            namespace: None,
            kubeconfig: None,
            output: AnswerOutput::default(),
            detail: None,
            from: None,
            to: None,
            limit: Some(LIMIT),
            field: None,
            all: false,
            fields: false,
            secrets: false,
        }
    }
}

/// Arguments of `diff`.
#[derive(Debug, Default)]
pub struct DiffArgs {
    /// The first state: REVISION, or KIND/NAME@REVISION.
    pub from: String,
    /// The second one.
    pub to: Option<String>,
    /// Namespace of the objects; `None`: the kubeconfig's, or of a cluster all.
    pub namespace: Option<String>,
    /// Label selector of the objects of a cluster.
    pub labels: Option<String>,
    /// Kinds of the objects of a cluster; empty: all.
    pub kinds: Vec<String>,
    /// Whether Events and Leases of a cluster are compared.
    pub all_kinds: bool,
    /// Whether only numbers are shown.
    pub stat: bool,
    /// Whether objects are left out whose status alone differs.
    pub ignores_status: bool,
    /// Whether each object and change is shown.
    pub verbose: bool,
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
    /// Output format.
    pub output: AnswerOutput,
    /// Whether members are shown that every write changes.
    pub fields: bool,
    /// Whether values of Secrets are shown.
    pub secrets: bool,
}

/// Changes of each revision of `history`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryDetail {
    /// All of them, by path.
    Paths,
    /// None.
    None,
}

impl Choice for HistoryDetail {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("paths", Self::Paths, "All of them, by path"), ("none", Self::None, "None")];
}
