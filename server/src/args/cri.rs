//! [`CriSocket`]: the socket of a container runtime, as `--cri` names it; and what the other flags about it say.

use super::UsageError;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The usual name of the node of a container runtime.
const NODE: &str = "cri-0";

/// The socket of a container runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriSocket(pub PathBuf);

impl FromStr for CriSocket {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("unix://").unwrap_or(text);
        match path.starts_with('/') {
            true => Ok(Self(path.into())),
            false => Err("expected a socket such as unix:///run/containerd/containerd.sock".to_owned()),
        }
    }
}

impl fmt::Display for CriSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

/// The flags of the node of a container runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriFlags {
    /// The socket; `None`: there is no such node.
    pub socket: Option<CriSocket>,
    /// The name of the node; `None`: the usual one.
    pub node: Option<String>,
    /// The folder in which the pods' volumes are kept; `None`: the pods end with this process.
    pub folder: Option<PathBuf>,
}

impl CriFlags {
    /// The name of the node.
    pub fn node(&self) -> &str {
        self.node.as_deref().unwrap_or(NODE)
    }

    /// Checks that no flag is without effect.
    pub(super) fn check(&self, has_nodes: bool) -> Result<(), UsageError> {
        match &self.socket {
            Some(_) if !has_nodes => Err(UsageError::NeedsFlag("cri", "`kubelet-sim` in --components")),
            None if self.node.is_some() => Err(UsageError::NeedsFlag("cri-node", "--cri")),
            None if self.folder.is_some() => Err(UsageError::NeedsFlag("cri-dir", "--cri")),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_a_path_or_a_url_of_one() {
        for text in ["unix:///run/a.sock", "/run/a.sock"] {
            assert_eq!(text.parse::<CriSocket>().unwrap().to_string(), "unix:///run/a.sock");
        }
        for text in ["", "a.sock", "unix://a.sock", "tcp://127.0.0.1:1", "http:///run/a.sock"] {
            assert!(text.parse::<CriSocket>().is_err(), "{text}");
        }
    }
}
