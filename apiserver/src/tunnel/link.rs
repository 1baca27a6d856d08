//! [`Link`]: one tunnel on the server's side: its open streams, and the messages to the node. Receiving never
//! waits, so that a stream that is not read does not delay others.

use super::limits::{CALL_STREAMS, CALL_STREAMS_OF_NAMESPACE};
use super::stream::{FromNode, NodeStream};
use super::window::{ReceiveWindow, SendCredit, cost};
use super::{OpenError, StreamOwner};
use kstore_api::status::{Outcome, Status};
use kstore_proto::kstore::v1 as pb;
use kstore_storage::limits::{STREAM_FRAME_COST, STREAM_WINDOW, TUNNEL_STREAMS, TUNNEL_STREAMS_OF_USER};
use parking_lot::Mutex;
use pb::tunnel_down::Message as Down;
use pb::tunnel_up::Message as Up;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The largest number of messages of one stream in flight in one direction: as many data messages as the
/// window holds, and a few to open, grant and close. A queue of this size is full only if the other side
/// violates the protocol.
pub(super) const STREAM_MESSAGES: usize = STREAM_WINDOW / STREAM_FRAME_COST + 16;

/// Messages to the node, in order.
pub type Outbox = mpsc::Receiver<pb::TunnelDown>;

/// One tunnel, on the server's side.
pub struct Link {
    streams: Mutex<LinkStreams>,
    down: mpsc::Sender<pb::TunnelDown>,
}

#[derive(Default)]
struct LinkStreams {
    open: BTreeMap<u64, OpenStream>,
    last: u64,
    ended: bool,
}

/// The state of an open stream.
struct OpenStream {
    /// Whose share it takes.
    owner: StreamOwner,
    inbox: mpsc::Sender<FromNode>,
    window_left: Arc<ReceiveWindow>,
    credit: Arc<SendCredit>,
}

/// The node's side violated the protocol: its tunnel ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It sent more data than it was granted.
    #[error("more data than was granted")]
    Window,
    /// It granted more credit than was used.
    #[error("more credit than was taken")]
    Credit,
    /// It sent a message without content.
    #[error("an empty message")]
    Empty,
}

impl Link {
    /// A tunnel without streams, and the receiver of its messages.
    pub fn new() -> (Arc<Self>, Outbox) {
        let (down, outbox) = mpsc::channel(TUNNEL_STREAMS * STREAM_MESSAGES);
        (Arc::new(Self { streams: Mutex::default(), down }), outbox)
    }

    pub(super) fn open(
        self: &Arc<Self>,
        owner: StreamOwner,
        mut open: pb::StreamOpen,
    ) -> Result<NodeStream, OpenError> {
        let mut streams = self.streams.lock();
        if streams.ended {
            return Err(OpenError::NoTunnel);
        }
        streams.check_share(&owner)?;
        streams.last += 1;
        let id = streams.last;
        open.id = id;
        let (inbox, messages) = mpsc::channel(STREAM_MESSAGES);
        let (window_left, credit) = (Arc::new(ReceiveWindow::new()), Arc::new(SendCredit::new()));
        let entry = OpenStream { owner, inbox, window_left: window_left.clone(), credit: credit.clone() };
        streams.open.insert(id, entry);
        drop(streams);
        self.send(Down::Open(open));
        Ok(NodeStream::new(self.clone(), id, messages, window_left, credit))
    }

    /// Handles a message from the node's side. Messages about streams that have ended here are dropped: the
    /// node will receive their end.
    ///
    /// # Errors
    /// The other side violated the protocol.
    pub fn receive(&self, message: Up) -> Result<(), Violation> {
        match message {
            // The caller of this function handles claims of nodes.
            Up::Nodes(_) => Ok(()),
            Up::Begun(begun) => self.deliver(begun.id, FromNode::Begun, 0),
            Up::Data(data) => {
                let cost = cost(data.data.len());
                let item = FromNode::Data { channel: data.channel, data: data.data, end: data.end };
                self.deliver(data.id, item, cost)
            }
            Up::Credit(credit) => {
                let streams = self.streams.lock();
                let Some(entry) = streams.open.get(&credit.id) else { return Ok(()) };
                if entry.credit.grant(credit.bytes as usize) { Ok(()) } else { Err(Violation::Credit) }
            }
            Up::Close(close) => {
                if let Some(entry) = self.streams.lock().open.remove(&close.id) {
                    entry.credit.close();
                    // A full inbox means that the other side violated the protocol; the stream ends all the
                    // same.
                    let _ = entry.inbox.try_send(FromNode::Closed(Box::new(status(&close.status_json))));
                }
                Ok(())
            }
        }
    }

    fn deliver(&self, id: u64, item: FromNode, cost: usize) -> Result<(), Violation> {
        let streams = self.streams.lock();
        let Some(entry) = streams.open.get(&id) else { return Ok(()) };
        if !entry.window_left.fill(cost) {
            return Err(Violation::Window);
        }
        match entry.inbox.try_send(item) {
            // The reader was dropped; the close message is on its way.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Violation::Window),
        }
    }

    /// Ends a stream whose reader was dropped.
    pub(super) fn close_stream(&self, id: u64) {
        if let Some(entry) = self.streams.lock().open.remove(&id) {
            entry.credit.close();
            self.send(Down::Close(pb::StreamClose { id, status_json: bytes::Bytes::new() }));
        }
    }

    /// Queues a message. The queue has capacity for it, see [`STREAM_MESSAGES`]; if the tunnel has ended, the
    /// message is dropped.
    pub(super) fn send(&self, message: Down) {
        let _ = self.down.try_send(pb::TunnelDown { message: Some(message) });
    }

    /// Ends all streams and refuses new ones.
    pub(super) fn end(&self) {
        let mut streams = self.streams.lock();
        streams.ended = true;
        std::mem::take(&mut streams.open).values().for_each(|entry| entry.credit.close());
    }
}

impl LinkStreams {
    /// Whether `owner` may have another stream.
    ///
    /// # Errors
    /// The bound that is reached.
    fn check_share(&self, owner: &StreamOwner) -> Result<(), OpenError> {
        if self.open.len() >= TUNNEL_STREAMS {
            return Err(OpenError::Busy);
        }
        let own = self.open.values().filter(|stream| stream.owner == *owner).count();
        match owner {
            StreamOwner::User(_) if own >= TUNNEL_STREAMS_OF_USER => Err(OpenError::BusyForUser),
            StreamOwner::Calls(_) if own >= CALL_STREAMS_OF_NAMESPACE => {
                Err(OpenError::BusyWithCallsOfNamespace)
            }
            StreamOwner::Calls(_) if self.calls() >= CALL_STREAMS => Err(OpenError::BusyWithCalls),
            StreamOwner::User(_) | StreamOwner::Calls(_) => Ok(()),
        }
    }

    /// The number of streams of the API server's own calls.
    fn calls(&self) -> usize {
        self.open.values().filter(|stream| matches!(stream.owner, StreamOwner::Calls(_))).count()
    }
}

/// Decodes the Status of a close message; an undecodable one counts as a failure.
fn status(json: &[u8]) -> Status {
    serde_json::from_slice(json).unwrap_or_else(|_| {
        let mut status = Status::internal("the node ended the stream without a readable status");
        status.status = Outcome::Failure;
        status
    })
}
