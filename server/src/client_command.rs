//! What the commands that ask a running server share: the connection of a kubeconfig, and the output.

use crate::kubeconfig::kubeconfig_path;
use anyhow::{Context, anyhow};
use kstore_client::{Client, Kubeconfig};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// A connection to the server of a kubeconfig.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The namespace of the command: that of its flag, else the kubeconfig's, else `default`.
    pub(crate) namespace: String,
}

impl Connection {
    /// Connects to the server of the kubeconfig that a flag names, else of `KUBECONFIG`, else of `./kstore-data`.
    ///
    /// # Errors
    /// There is no usable kubeconfig, or the server cannot be reached.
    pub(crate) async fn open(
        kubeconfig: Option<PathBuf>,
        namespace: Option<&str>,
        agent: &str,
    ) -> anyhow::Result<Self> {
        let path = kubeconfig_path(kubeconfig, std::env::var_os("KUBECONFIG"))?;
        let kubeconfig =
            Kubeconfig::read(&path).map_err(|error| anyhow!("cannot use the kubeconfig: {error}"))?;
        let namespace = match (namespace, kubeconfig.namespace.as_str()) {
            (Some(namespace), _) => namespace,
            (None, "") => "default",
            (None, namespace) => namespace,
        };
        let client = Client::connect(&kubeconfig, agent).await;
        let client = client.with_context(|| format!("cannot reach {}", kubeconfig.server))?;
        Ok(Self { client, namespace: namespace.to_owned() })
    }
}

/// Prints the text. The reader of standard output may have exited, such as a pager.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write the answer"),
        _ => Ok(()),
    }
}
