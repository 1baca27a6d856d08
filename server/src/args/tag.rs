//! Flags of `kstore-server tag`, which the module `history` carries out.

use super::explain::AnswerOutput;
use super::flag::{Flag, chosen, parsed, put, words};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
A tag is a name of a revision, for `history`, `diff`, `at` and the page: lower-case letters, digits and dashes. Automatic compaction keeps \
the states from the oldest tag on, whatever --history says, until the tag is deleted. Tags are the members of the ConfigMap \
kube-system/kstore-tags: its permissions are theirs.

Examples:
  kstore-server tag before-upgrade
  kstore-server tag yesterday 24h
  kstore-server tag --list
  kstore-server diff before-upgrade now
  kstore-server tag --delete before-upgrade";

pub(super) const FLAGS: &[Flag<TagArgs>] = &[
    Flag::value(
        "name",
        "NAME",
        |o: &mut TagArgs, text| put(&mut o.name, parsed(text).map(Some)),
        "Name of the tag; an existing one is moved",
    )
    .positional()
    .shaped(|arg| arg.required_unless_present_any(["list", "delete"])),
    Flag::value(
        "revision",
        "REVISION",
        |o: &mut TagArgs, text| put(&mut o.revision, parsed(text).map(Some)),
        "Revision that it names: a number, 5m, 23:38:56, now~2 [default: now]",
    )
    .positional(),
    Flag::switch("list", |o: &mut TagArgs| o.lists = true, "Print all tags with their revisions and times")
        .shaped(|arg| arg.conflicts_with_all(["name", "delete"])),
    Flag::value(
        "delete",
        "NAME",
        |o: &mut TagArgs, text| put(&mut o.deleted, parsed(text).map(Some)),
        "Delete a tag",
    )
    .shaped(|arg| arg.conflicts_with("name")),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut TagArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    ),
    Flag::choice(
        ("output", "FORMAT"),
        words::<AnswerOutput>,
        |o: &mut TagArgs, word| put(&mut o.output, chosen(word)),
        "Output format of --list",
    )
    .default("text")
    .shaped(|arg| arg.short('o')),
];

/// Arguments of `tag`.
#[derive(Debug, Default)]
pub struct TagArgs {
    /// Name of the tag to set.
    pub name: Option<String>,
    /// Its revision; `None`: the newest.
    pub revision: Option<String>,
    /// Whether all tags are listed.
    pub lists: bool,
    /// Name of the tag to delete.
    pub deleted: Option<String>,
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
    /// Output format of the list.
    pub output: AnswerOutput,
}
