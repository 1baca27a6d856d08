//! [`Tunnel`]: the connection through which the server reaches nodes. The server opens streams over it; each
//! is a [`NodeStream`]. The caller interprets the content. The client does not reopen a tunnel that ends.

mod local;
mod request;
mod stream;

use crate::client::bounded;
use crate::limits::{STREAM_FRAME_COST, STREAM_WINDOW, TUNNEL_STREAMS};
use crate::{ApiError, Client};
use kstore_proto::kstore::v1 as pb;
pub use local::{LocalEvent, LocalReceiver, LocalSender};
use pb::tunnel_down::Message as Down;
use pb::tunnel_up::Message as Up;
pub use request::{LogOptions, StreamKind, StreamRequest, Terminal};
use std::collections::BTreeMap;
use std::sync::Arc;
use stream::{Flow, cost};
pub use stream::{Incoming, NodeStream, StreamReader, StreamWriter};
use tokio::sync::mpsc;
use tonic::Streaming;

/// The capacity of a stream's channel in messages. The channel is never full unless the server breaks the
/// protocol.
const STREAM_MESSAGES: usize = STREAM_WINDOW / STREAM_FRAME_COST + 16;

/// An open tunnel. Its drop ends the tunnel and all its streams.
pub struct Tunnel {
    up: TunnelSender,
    down: Streaming<pb::TunnelDown>,
    streams: BTreeMap<u64, StreamEntry>,
}

/// An event of a tunnel.
pub enum TunnelEvent {
    /// The server opened a stream.
    Opened(Box<NodeStream>),
    /// The server does not reach these nodes through this tunnel; the others stay. [`Tunnel::serve`] requests
    /// them again.
    Refused(Vec<RefusedNode>),
}

impl TunnelEvent {
    /// The opened stream, if the event is one.
    #[must_use]
    pub fn opened(self) -> Option<NodeStream> {
        match self {
            Self::Opened(stream) => Some(*stream),
            Self::Refused(_) => None,
        }
    }
}

/// A node that the server does not reach through a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedNode {
    /// The node's name.
    pub name: String,
    /// A human-readable reason.
    pub reason: String,
}

/// The queue of messages to the server.
#[derive(Clone)]
pub(crate) struct TunnelSender(mpsc::Sender<pb::TunnelUp>);

impl TunnelSender {
    /// Queues a message. Flow control keeps the queue from overflowing. After the end of the tunnel the
    /// message is dropped.
    pub(crate) fn send(&self, message: Up) {
        let _ = self.0.try_send(pb::TunnelUp { message: Some(message) });
    }
}

struct StreamEntry {
    inbox: mpsc::Sender<Incoming>,
    flow: Arc<Flow>,
}

impl Client {
    /// Opens a tunnel through which the server reaches `nodes`. Needs permission to create `nodes/tunnel` for
    /// each. Nodes without that permission, and nodes of another user's tunnel, are the tunnel's first
    /// [`TunnelEvent::Refused`].
    ///
    /// # Errors
    ///
    /// As for any call, and if the server refuses every node.
    pub async fn tunnel(&self, nodes: Vec<String>) -> Result<Tunnel, ApiError> {
        let (sender, receiver) = mpsc::channel(TUNNEL_STREAMS * STREAM_MESSAGES);
        let up = TunnelSender(sender);
        up.send(Up::Nodes(pb::TunnelNodes { names: nodes }));
        let messages = futures::stream::unfold(receiver, async |mut receiver| {
            let message = receiver.recv().await?;
            Some((message, receiver))
        });
        let mut grpc = self.grpc();
        let down = bounded(grpc.tunnel(self.request(messages))).await?;
        Ok(Tunnel { up, down, streams: BTreeMap::new() })
    }
}

impl Tunnel {
    /// Changes the nodes that the server reaches through the tunnel. Open streams continue.
    pub fn serve(&self, nodes: Vec<String>) {
        self.up.send(Up::Nodes(pb::TunnelNodes { names: nodes }));
    }

    /// Waits for the next event from the server. Open streams make progress only while a caller awaits this
    /// function. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The tunnel has ended, for example because the server refuses all of its nodes.
    pub async fn next(&mut self) -> Result<TunnelEvent, ApiError> {
        loop {
            let message = self.down.message().await?;
            let Some(message) = message.and_then(|message| message.message) else {
                return Err(tonic::Status::unavailable("the server ended the tunnel").into());
            };
            match message {
                Down::Open(open) => {
                    let id = open.id;
                    match request::read(open) {
                        Some(request) if self.has_room() => {
                            return Ok(TunnelEvent::Opened(Box::new(self.open(id, request))));
                        }
                        Some(_) => stream::refuse(&self.up, id, "the node serves too many streams already"),
                        None => stream::refuse(&self.up, id, "the node does not know such streams"),
                    }
                }
                Down::Data(data) => self.data(data)?,
                Down::Credit(credit) => self.credit(&credit)?,
                Down::Refused(refusal) => {
                    let nodes = refusal.nodes.into_iter();
                    let nodes = nodes.map(|node| RefusedNode { name: node.name, reason: node.reason });
                    return Ok(TunnelEvent::Refused(nodes.collect()));
                }
                Down::Close(close) => {
                    if let Some(entry) = self.streams.remove(&close.id) {
                        entry.flow.end();
                    }
                }
            }
        }
    }

    fn has_room(&mut self) -> bool {
        // Forgets the streams that this side ended.
        self.streams.retain(|_, entry| !entry.flow.ended());
        self.streams.len() < TUNNEL_STREAMS
    }

    fn open(&mut self, id: u64, request: StreamRequest) -> NodeStream {
        let (inbox, messages) = mpsc::channel(STREAM_MESSAGES);
        let flow = Arc::new(Flow::new());
        self.streams.insert(id, StreamEntry { inbox, flow: flow.clone() });
        NodeStream::new(request, id, self.up.clone(), messages, flow)
    }

    fn data(&mut self, message: pb::StreamData) -> Result<(), ApiError> {
        let Some(entry) = self.streams.get(&message.id) else { return Ok(()) };
        let pb::StreamData { channel, data, end, .. } = message;
        let fits = entry.flow.fill(cost(data.len()));
        match entry.inbox.try_send(Incoming { channel, data, end }) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) if fits => Ok(()),
            _ => Err(broken("more data than was granted")),
        }
    }

    fn credit(&mut self, credit: &pb::StreamCredit) -> Result<(), ApiError> {
        match self.streams.get(&credit.id) {
            Some(entry) if !entry.flow.grant(credit.bytes as usize) => {
                Err(broken("more credit than was taken"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.streams.values().for_each(|entry| entry.flow.end());
    }
}

fn broken(what: &str) -> ApiError {
    tonic::Status::internal(format!("tunnel protocol error: {what}")).into()
}
