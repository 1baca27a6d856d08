//! The network namespace of a pod, as descriptors of this process that keep it.

use serde::{Deserialize, Serialize};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

/// The network namespace of a pod. It ends when this is dropped and no process is in it.
#[derive(Debug)]
pub struct NetworkNamespace {
    network: OwnedFd,
    user: Option<OwnedFd>,
}

/// The network namespace that a container enters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkEntry {
    /// The namespace, as a descriptor of the process that starts the launcher.
    pub network: PathBuf,
    /// The user namespace that it belongs to, which is then that of the container, too; `None`: it belongs to that of the launcher.
    pub user: Option<PathBuf>,
}

impl NetworkNamespace {
    /// The namespace of these descriptors, and the user namespace that it belongs to unless that is the one of this process.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(network: OwnedFd, user: Option<OwnedFd>) -> Self {
        Self { network, user }
    }

    /// How another process finds it while this exists.
    pub(crate) fn entry(&self) -> NetworkEntry {
        let path = |fd: &OwnedFd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()).into();
        NetworkEntry { network: path(&self.network), user: self.user.as_ref().map(path) }
    }
}
