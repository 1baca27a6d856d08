//! The messages printed when a cluster or a store is ready, and when it has stopped. They are for people;
//! scripts should poll `/readyz` or wait for the kubeconfig file, and read the exit code.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The message printed after an orderly end.
pub(crate) const FAREWELL: &str = "kstore has stopped";

/// Addresses and paths in the message printed after a start.
#[derive(Debug, Default)]
pub(crate) struct ReadyMessage {
    /// Address of the API, and path of the admin kubeconfig, if the API is served.
    pub api: Option<(SocketAddr, PathBuf)>,
    /// URL of the etcd API, if it is served.
    pub etcd: Option<String>,
    /// The lab, if it is served: URL, clock and seed.
    pub lab: Option<String>,
    /// Addresses of this machine that lead into the cluster, each with its target.
    pub forwards: Vec<String>,
    /// Whether all data is lost when the process ends.
    pub in_memory: bool,
}

impl fmt::Display for ReadyMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = if self.in_memory { " (in memory: nothing stays when this process ends)" } else { "" };
        write!(f, "kstore is ready{memory}")?;
        if let Some((address, _)) = &self.api {
            write!(f, "\n  address     https://{address}")?;
        }
        if let Some(etcd) = &self.etcd {
            write!(f, "\n  etcd        {etcd}")?;
        }
        for forward in &self.forwards {
            write!(f, "\n  forward     {forward}")?;
        }
        match (&self.api, &self.etcd) {
            (Some((_, kubeconfig)), _) => {
                let kubeconfig = kubeconfig.display();
                write!(
                    f,
                    "\n  kubeconfig  {kubeconfig}\n  try         kubectl --kubeconfig {kubeconfig} get nodes"
                )?;
                self.lab.as_ref().map_or(Ok(()), |lab| write!(f, "\n  lab         {lab}"))
            }
            (None, Some(etcd)) => {
                write!(f, "\n  try         etcdctl --endpoints {etcd} endpoint status -w table")
            }
            (None, None) => Ok(()),
        }
    }
}
