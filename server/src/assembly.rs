//! Which function of which crate starts which part. Called by `wiring`, which knows the order and the end.

use crate::args::Config;
use crate::phase::Phase;
use anyhow::bail;
use kstore_nondet::Nondet;
use rustls::ServerConfig;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;

/// What the machine gives to a cluster.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    /// The checked command line.
    pub config: &'a Config,
    /// Time and chance.
    pub nondet: Nondet,
    /// Where clients come in, if the apiserver is here.
    pub door: Option<Door>,
    /// The data directory, if there is one.
    pub data_dir: Option<PathBuf>,
}

/// The one port.
#[derive(Debug)]
pub(crate) struct Door {
    /// Already bound.
    pub listener: TcpListener,
    /// Our certificate, and which clients we know.
    pub tls: Arc<ServerConfig>,
}

/// Store, apiserver and the configured loops; returns when the API answers. The store closes at the end of `core`.
pub(crate) async fn everything(
    parts: Parts<'_>,
    core: &Phase,
    doors: &Phase,
    loops: &Phase,
) -> anyhow::Result<()> {
    let _ = (parts, core, doors, loops);
    bail!("the apiserver is not wired in yet")
}

/// The configured loops, as clients of the apiserver that the kubeconfig names.
pub(crate) async fn loops_only(parts: Parts<'_>, kubeconfig: &Path, loops: &Phase) -> anyhow::Result<()> {
    let _ = (parts, kubeconfig, loops);
    bail!("the client is not wired in yet")
}
