//! Connections to ports of pods and to kubelets: bytes in both directions over a stream of the node's tunnel.

use super::{FromNode, OpenError, Reader, StreamOwner, Tunnels, Writer};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::pod_dialer::{PodConnection, PodDialer, PodPort};
use kstore_storage::limits::{PROXY_LINGER, STREAM_BEGIN, STREAM_FRAME_BYTES};
use pb::stream_open::What;
use std::sync::{Arc, OnceLock, Weak};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// The node's reason for refusing the connection, once it is received.
pub type Refused = Arc<OnceLock<String>>;

/// A connection was not begun: the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// No stream could be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The node refused the stream.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The tunnel ended before the node answered.
    #[error("the tunnel ended")]
    Ended,
    /// The node did not answer in time.
    #[error("i/o timeout")]
    Silent,
}

impl Tunnels {
    /// Connects to what `open` names, as a stream of `owner`. Returns the caller's end, and the copying of bytes, which must run beside it.
    /// `refused` gets the node's reason if it then refuses the connection, which ends it.
    ///
    /// # Errors
    /// Why the node has not begun the stream.
    pub async fn connect(
        &self,
        owner: impl Into<StreamOwner>,
        open: pb::StreamOpen,
        refused: Refused,
    ) -> Result<(DuplexStream, BoxFuture<'static, ()>), DialError> {
        let stream = self.open(owner, open)?;
        let (reader, writer) = match tokio::time::timeout(STREAM_BEGIN, stream.begun()).await {
            Ok(Ok(halves)) => halves,
            Ok(Err(Some(status))) => return Err(DialError::Refused(status)),
            Ok(Err(None)) => return Err(DialError::Ended),
            Err(_) => return Err(DialError::Silent),
        };
        let (near, far) = tokio::io::duplex(STREAM_FRAME_BYTES);
        Ok((near, copy_both_ways(far, reader, writer, refused).boxed()))
    }
}

/// Copies bytes in both directions until the node ends the stream or the receiver of its data is dropped.
async fn copy_both_ways(far: DuplexStream, mut reader: Reader, writer: Writer, refused: Refused) {
    let (mut from_client, mut to_client) = tokio::io::split(far);
    let to_node = async {
        let mut buffer = vec![0; STREAM_FRAME_BYTES];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            if !writer.send(0, Bytes::copy_from_slice(&buffer[..length])).await {
                break;
            }
        }
        writer.end(0).await;
        tokio::time::sleep(PROXY_LINGER).await;
    };
    let from_node = async {
        while let Some(FromNode::Data { channel, data, .. }) = reader.next().await {
            if channel == 2 {
                let _ = refused.set(String::from_utf8_lossy(&data).into_owned());
                return;
            }
            if to_client.write_all(&data).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = from_node => {}
        () = to_node => {}
    }
}

/// Connects to pods: for calls that the API server makes itself, of webhooks and of API servers behind it, or for a user. It does not keep
/// the server in memory.
pub struct TunnelDialer {
    tunnels: Weak<Tunnels>,
    /// The user whose share of streams connections take; `None`: that of the server's own calls.
    user: Option<Arc<str>>,
}

impl TunnelDialer {
    /// Connects for the API server's own calls through these tunnels, while they exist.
    pub fn of_calls(tunnels: &Arc<Tunnels>) -> Self {
        Self { tunnels: Arc::downgrade(tunnels), user: None }
    }

    /// Connects for a user through these tunnels, while they exist.
    pub fn of_user(tunnels: &Arc<Tunnels>, user: &str) -> Self {
        Self { tunnels: Arc::downgrade(tunnels), user: Some(user.into()) }
    }
}

impl PodDialer for TunnelDialer {
    fn reaches(&self, node: &str) -> bool {
        self.tunnels.upgrade().is_some_and(|tunnels| tunnels.reaches(node))
    }

    fn dial(&self, to: PodPort) -> BoxFuture<'static, Result<PodConnection, String>> {
        let (tunnels, user) = (self.tunnels.upgrade(), self.user.clone());
        async move {
            let tunnels = tunnels.ok_or_else(|| "the API server ends".to_owned())?;
            let PodPort { node, namespace, name, uid, port } = to;
            let owner = user.map_or_else(|| StreamOwner::Calls(namespace.as_str().into()), StreamOwner::User);
            let what = Some(What::Port(pb::PortStream { port: port.into() }));
            let open =
                pb::StreamOpen { id: 0, node, namespace, pod: name, uid, container: String::new(), what };
            let refused = Refused::default();
            let connected = tunnels.connect(owner, open, refused.clone()).await;
            let (stream, copying) = connected.map_err(|error| error.to_string())?;
            tunnels.tasks().spawn(copying);
            Ok(PodConnection { stream: Box::new(stream), refused })
        }
        .boxed()
    }
}
