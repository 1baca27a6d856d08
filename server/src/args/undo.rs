//! Flags of `kstore-server undo`, which the module `history` carries out.

use super::explain::AnswerOutput;
use super::flag::{Choice, Flag, add, chosen, list, parsed, put, words};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Takes back one write, or what happened to an object, by new writes; nothing leaves the history. What the write changed goes back to \
what was before it, and later changes of other members stay. An object that it created is deleted, and one that it deleted, or began \
to delete, is created again, with a new uid. Status is left alone, and consequences are left to the controllers.

Without --yes the plan is printed, and the server checks it without storing anything. With --as-planned-at an object that has changed \
since keeps everything from being written. Up to 128 objects are written together or not at all, more in several steps. The exit code is 1 if a conflict \
or the server keeps it from being done.

Examples:
  kstore-server undo 263
  kstore-server undo 263 --as-planned-at 313 --yes
  kstore-server undo deployment/web
  kstore-server undo configmap/settings --to 5m --conflicts overwrite
  kstore-server undo --since 10m --by jane -n shop";

pub(super) const FLAGS: &[Flag<UndoArgs>] = &[
    Flag::value(
        "what",
        "REVISION|KIND/NAME",
        |o: &mut UndoArgs, text| put(&mut o.what, parsed(text)),
        "Write to undo; or an object, whose newest write from outside of the control plane is undone",
    )
    .positional()
    .shaped(|arg| arg.required_unless_present("since")),
    Flag::value(
        "since",
        "REVISION",
        |o: &mut UndoArgs, text| put(&mut o.since, parsed(text).map(Some)),
        "Undo all writes since this revision from outside of the control plane, of the namespace, kinds and writers that are named",
    ),
    Flag::value(
        "kind",
        "KIND",
        |o: &mut UndoArgs, text| add(&mut o.kinds, parsed(text)),
        "Undo writes of --since to these kinds",
    )
    .shaped(list),
    Flag::value(
        "by",
        "ACTOR",
        |o: &mut UndoArgs, text| add(&mut o.by, parsed(text)),
        "Undo writes of --since by users or programs with ACTOR in their names",
    )
    .shaped(list),
    Flag::value(
        "to",
        "REVISION",
        |o: &mut UndoArgs, text| put(&mut o.to, parsed(text).map(Some)),
        "Undo everything that happened to the object since this revision",
    ),
    Flag::switch("yes", |o: &mut UndoArgs| o.yes = true, "Write, instead of printing what would be written"),
    Flag::value(
        "as-planned-at",
        "REVISION",
        |o: &mut UndoArgs, text| put(&mut o.planned_at, parsed::<i64>(text).map(Some)),
        "Write only if the objects are as they were at this revision, that of the plan",
    ),
    Flag::choice(
        ("conflicts", "POLICY"),
        words::<ConflictPolicy>,
        |o: &mut UndoArgs, word| put(&mut o.conflicts, chosen(word)),
        "Members that changed again since",
    )
    .default("fail"),
    Flag::value(
        "namespace",
        "NAMESPACE",
        |o: &mut UndoArgs, text| put(&mut o.namespace, parsed(text).map(Some)),
        "Namespace of the object [default: the kubeconfig's; with --since, all]",
    )
    .shaped(|arg| arg.short('n')),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut UndoArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    ),
    Flag::choice(
        ("output", "FORMAT"),
        words::<AnswerOutput>,
        |o: &mut UndoArgs, word| put(&mut o.output, chosen(word)),
        "Output format",
    )
    .default("text")
    .shaped(|arg| arg.short('o')),
    Flag::switch("show-secrets", |o: &mut UndoArgs| o.secrets = true, "Show values of Secrets"),
];

/// Arguments of `undo`.
#[derive(Debug, Default)]
pub struct UndoArgs {
    /// A revision, or KIND/NAME; empty with `since`.
    pub what: String,
    /// The revision since which writes are undone.
    pub since: Option<String>,
    /// Kinds of the objects of these writes; empty: all.
    pub kinds: Vec<String>,
    /// Parts of the names of their users or programs; empty: all.
    pub by: Vec<String>,
    /// The revision to which an object goes back; `None`: before its newest outside write.
    pub to: Option<String>,
    /// Whether it is written.
    pub yes: bool,
    /// The revision of the plan, since which the objects must not have changed.
    pub planned_at: Option<i64>,
    /// What happens to members that changed again since.
    pub conflicts: ConflictPolicy,
    /// Namespace of the object; `None`: the kubeconfig's.
    pub namespace: Option<String>,
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
    /// Output format.
    pub output: AnswerOutput,
    /// Whether values of Secrets are shown.
    pub secrets: bool,
}

/// What `undo` does with a member that the undone write and a later one changed differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// The value of now stays, and nothing is written.
    #[default]
    Fail,
    /// The value of now stays.
    Skip,
    /// The value of before is restored.
    Overwrite,
}

impl Choice for ConflictPolicy {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("fail", Self::Fail, "Nothing is written"),
        ("skip", Self::Skip, "They stay as they are"),
        ("overwrite", Self::Overwrite, "They go back, too"),
    ];
}
