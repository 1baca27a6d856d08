//! [`CriSocket`]: the socket of a container runtime, as `--cri` names it; what the other flags about it say; and [`CriListen`]: where the
//! simulated runtime is served, as `--cri-listen` names it.

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

/// Where the simulated runtime is served to clients of CRI: `SOCKET[,node=NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriListen {
    /// The path of the socket.
    pub socket: PathBuf,
    /// The node whose pods clients see; `None`: the first simulated one.
    pub node: Option<String>,
}

impl FromStr for CriListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let socket = parts.next().unwrap_or_default();
        let socket = socket.strip_prefix("unix://").unwrap_or(socket);
        if socket.is_empty() {
            return Err("expected SOCKET[,node=NAME], such as unix:///run/kstore.sock".to_owned());
        }
        if socket.contains("://") {
            return Err(format!("{socket}: only Unix sockets are served, such as unix:///run/kstore.sock"));
        }
        let mut node = None;
        for part in parts {
            match part.split_once('=') {
                Some(("node", name)) if !name.is_empty() && node.is_none() => node = Some(name.to_owned()),
                _ => return Err(format!("{part:?} after the socket: expected node=NAME, once")),
            }
        }
        Ok(Self { socket: socket.into(), node })
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
    fn the_simulated_runtime_is_served_at_a_socket_for_one_node() {
        let read = |text: &str| {
            let CriListen { socket, node } = text.parse().ok()?;
            Some(format!("{} {}", socket.display(), node.unwrap_or_default()))
        };
        assert_eq!(read("unix:///run/a.sock").as_deref(), Some("/run/a.sock "));
        assert_eq!(read("a.sock,node=real-1").as_deref(), Some("a.sock real-1"));
        for text in ["", ",node=a", "tcp://127.0.0.1:1", "/a,b", "/a,node=", "/a,node=b,node=c", "/a,nodes=b"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

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
