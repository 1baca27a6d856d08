//! The text that is printed when the cluster answers. It is for people; scripts should use `/readyz` or wait for the
//! kubeconfig file.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The addresses and files that the program prints after the start of a cluster or a store.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Where the API answers, and the admin kubeconfig, if there is one.
    pub api: Option<(SocketAddr, PathBuf)>,
    /// Where the etcd API answers, if it is served.
    pub etcd: Option<String>,
    /// Whether anything stays when the process ends.
    pub in_memory: bool,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = if self.in_memory { " (in memory: nothing stays when this process ends)" } else { "" };
        write!(f, "kstore is ready{memory}")?;
        if let Some((address, _)) = &self.api {
            write!(f, "\n  address     https://{address}")?;
        }
        if let Some(etcd) = &self.etcd {
            write!(f, "\n  etcd        {etcd}")?;
        }
        match (&self.api, &self.etcd) {
            (Some((_, kubeconfig)), _) => {
                let kubeconfig = kubeconfig.display();
                write!(
                    f,
                    "\n  kubeconfig  {kubeconfig}\n  try         kubectl --kubeconfig {kubeconfig} get nodes"
                )
            }
            (None, Some(etcd)) => {
                write!(f, "\n  try         etcdctl --endpoints {etcd} endpoint status -w table")
            }
            (None, None) => Ok(()),
        }
    }
}
