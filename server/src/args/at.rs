//! Flags of `kstore-server at`, which the module `at` carries out.

use super::flag::{Flag, parsed, put, required};
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Runs a command with a kubeconfig whose server shows the cluster as of a revision. Any client can read it: kubectl, informers, \
controllers. Nothing can be changed. With two revisions, as in 244..313, lists show the first one and watches the changes up to the \
second one. Kubeconfig and discovery cache of the command are temporary.

A revision is a number such as 244 or #244, `now`, `oldest`, the state of a time ago (5m, 2h30m) or at a time (23:38:56, \
2026-11-27T23:38:56Z), or N writes from outside of the control plane before another one (now~2).

Examples:
  kstore-server at 5m -- kubectl get pods -o wide
  kstore-server at 244 -- kubectl describe deployment/web
  kstore-server at 244..313 -- kubectl get pods --watch
  kstore-server at 23:38:56 --print-kubeconfig > then.kubeconfig";

pub(super) const FLAGS: &[Flag<AtArgs>] = &[
    Flag::value(
        "revision",
        "REVISION[..REVISION]",
        |o: &mut AtArgs, text| put(&mut o.revision, parsed(text)),
        "Revision to show, or two of them",
    )
    .positional()
    .shaped(required),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut AtArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    ),
    Flag::switch(
        "print-kubeconfig",
        |o: &mut AtArgs| o.prints_kubeconfig = true,
        "Print the kubeconfig instead of running a command",
    ),
    Flag::word("command", "CMD", |o: &mut AtArgs, word| o.command.push(word), "Command and its arguments")
        .shaped(|arg| arg.num_args(1..).last(true).required_unless_present("print-kubeconfig")),
];

/// Arguments of `at`.
#[derive(Debug, Default)]
pub struct AtArgs {
    /// The revision, or a range of them.
    pub revision: String,
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
    /// Whether the kubeconfig is printed, and no command runs.
    pub prints_kubeconfig: bool,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}
