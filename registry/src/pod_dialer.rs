//! [`PodDialer`]: the way from an API server to programs in the pods of its own nodes. An API server has no address in the pods' network:
//! nodes connect to it, and it opens connections to pods through those.

use futures::future::BoxFuture;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncRead, AsyncWrite};

/// A port of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPort {
    /// The name of the pod's node.
    pub node: String,
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
    /// The uid of the pod, so that a later pod of the same name is not reached.
    pub uid: String,
    /// The port.
    pub port: u16,
}

/// Bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A connection to a port of a pod. It may end at once: the node says only after it has begun whether something listens at the port.
pub struct PodConnection {
    /// The bytes.
    pub stream: Box<dyn ByteStream>,
    /// The node's reason for which nothing listens, once it has said so.
    pub refused: Arc<OnceLock<String>>,
}

impl fmt::Debug for PodConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodConnection").field("refused", &self.refused).finish_non_exhaustive()
    }
}

/// Opens connections to pods.
pub trait PodDialer: Send + Sync {
    /// Whether a node can be reached now.
    fn reaches(&self, node: &str) -> bool;

    /// Connects to a port of a pod.
    ///
    /// # Errors
    /// Why the node does not begin the connection.
    fn dial(&self, to: PodPort) -> BoxFuture<'static, Result<PodConnection, String>>;
}

impl fmt::Debug for dyn PodDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodDialer")
    }
}
