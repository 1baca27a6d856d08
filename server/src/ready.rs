//! The block that is printed when the cluster answers. People read it; scripts should use `/readyz` or wait for the
//! kubeconfig file.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What to tell a person who has just started a cluster.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Where the API answers.
    pub address: SocketAddr,
    /// Where the etcd API answers, if it is served.
    pub etcd: Option<SocketAddr>,
    /// The admin kubeconfig.
    pub kubeconfig: PathBuf,
    /// Whether anything stays when the process ends.
    pub in_memory: bool,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kubeconfig = self.kubeconfig.display();
        let memory = if self.in_memory { " (in memory: nothing stays when this process ends)" } else { "" };
        writeln!(f, "kstore is ready{memory}")?;
        writeln!(f, "  address     https://{}", self.address)?;
        if let Some(etcd) = self.etcd {
            writeln!(f, "  etcd        http://{etcd}")?;
        }
        writeln!(f, "  kubeconfig  {kubeconfig}")?;
        write!(f, "  try         kubectl --kubeconfig {kubeconfig} get nodes")
    }
}
