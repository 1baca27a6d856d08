//! Flags of `kstore-server ui`, which the module `ui` carries out.

use super::flag::{Flag, parsed, put};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Shows the server of a kubeconfig in a browser: workloads, pods by node, each write with its author and its cause, and the cluster as it \
was at any retained revision. The page comes from this process, on a port of loopback only, and sees what the kubeconfig's user may see; \
it changes nothing. The printed link works once, within a minute. Ctrl-C ends it.

Examples:
  kstore-server ui
  kstore-server ui --kubeconfig kstore-data/admin.kubeconfig --no-browser --port 8001";

pub(super) const FLAGS: &[Flag<UiArgs>] = &[
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut UiArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    ),
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
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
    /// Port of the page.
    pub port: u16,
    /// Whether no browser is opened.
    pub prints_only: bool,
}
