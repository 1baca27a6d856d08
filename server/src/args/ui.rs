//! Flags of `kstore-server ui`, which the modules `ui` and `file_page` carry out.

use super::flag::{Flag, parsed, put};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Shows the server of a kubeconfig in a browser: workloads, pods by node, each write with its author and its cause, and the cluster as it \
was at any retained revision. The page comes from this process, on a port of loopback only, and sees what the kubeconfig's user may see; \
it changes nothing. The printed link works once, within a minute. Ctrl-C ends it.

With FILE it shows a data directory on which no server runs, a recording, or a snapshot of kstore or of an etcd, with its history: this process \
serves a copy of it, which cannot be changed and is gone afterwards. Reports need no command: a browser opens them.

Examples:
  kstore-server ui
  kstore-server ui backup.db
  kstore-server ui --kubeconfig kstore-data/admin.kubeconfig --no-browser --port 8001";

pub(super) const FLAGS: &[Flag<UiArgs>] = &[
    Flag::path(
        "file",
        "FILE",
        |o: &mut UiArgs, path| o.file = Some(path),
        "Data directory, recording or snapshot to show instead of a server",
    )
    .positional(),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut UiArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    )
    .shaped(|arg| arg.conflicts_with("file")),
    Flag::value(
        "port",
        "PORT",
        |o: &mut UiArgs, text| put(&mut o.port, parsed(text)),
        "Port of 127.0.0.1 and ::1; 0 picks a free one",
    )
    .default("0"),
    Flag::switch("no-browser", |o: &mut UiArgs| o.prints_only = true, "Print the link, and open no browser"),
];

/// Arguments of `ui`.
#[derive(Debug, Default)]
pub struct UiArgs {
    /// Data directory or snapshot to show instead of a server.
    pub file: Option<PathBuf>,
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
    /// Port of the page.
    pub port: u16,
    /// Whether no browser is opened.
    pub prints_only: bool,
}
