//! One tunnel on this side: its open streams, and the messages that wait to go down. Takes what comes up without ever waiting,
//! so that a stream nobody reads holds up no other.

use super::OpenError;
use super::stream::{FromNode, NodeStream};
use super::window::{Allowance, Room, cost};
use crate::limits::{STREAM_FRAME_COST, STREAM_WINDOW, TUNNEL_STREAMS};
use kstore_api::status::{Outcome, Status};
use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
use pb::tunnel_down::Message as Down;
use pb::tunnel_up::Message as Up;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Messages that one stream can have under way in one direction: as many of data as the window holds, and a few to open, grant
/// and close. A channel of that size is never full unless the other side breaks the rules.
pub(super) const STREAM_MESSAGES: usize = STREAM_WINDOW / STREAM_FRAME_COST + 16;

/// The messages that wait to go down.
pub type Outbox = mpsc::Receiver<pb::TunnelDown>;

/// One tunnel.
pub struct Link {
    streams: Mutex<Streams>,
    down: mpsc::Sender<pb::TunnelDown>,
}

#[derive(Default)]
struct Streams {
    open: BTreeMap<u64, Entry>,
    last: u64,
    ended: bool,
}

/// What the link knows of a stream.
struct Entry {
    inbox: mpsc::Sender<FromNode>,
    room: Arc<Room>,
    allowance: Arc<Allowance>,
}

/// The other side broke the rules: its tunnel ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It sent more than it was granted.
    #[error("more data than was granted")]
    Window,
    /// It granted more than was taken.
    #[error("more credit than was taken")]
    Credit,
    /// A message without content.
    #[error("an empty message")]
    Empty,
}

impl Link {
    /// A tunnel without streams, and where its messages come out.
    pub fn new() -> (Arc<Self>, Outbox) {
        let (down, outbox) = mpsc::channel(TUNNEL_STREAMS * STREAM_MESSAGES);
        (Arc::new(Self { streams: Mutex::default(), down }), outbox)
    }

    pub(super) fn open(self: &Arc<Self>, mut open: pb::StreamOpen) -> Result<NodeStream, OpenError> {
        let mut streams = self.streams.lock();
        if streams.ended {
            return Err(OpenError::NoTunnel);
        }
        if streams.open.len() >= TUNNEL_STREAMS {
            return Err(OpenError::Busy);
        }
        streams.last += 1;
        let id = streams.last;
        open.id = id;
        let (inbox, messages) = mpsc::channel(STREAM_MESSAGES);
        let (room, allowance) = (Arc::new(Room::new()), Arc::new(Allowance::new()));
        let entry = Entry { inbox, room: room.clone(), allowance: allowance.clone() };
        streams.open.insert(id, entry);
        drop(streams);
        self.send(Down::Open(open));
        Ok(NodeStream::new(self.clone(), id, messages, room, allowance))
    }

    /// Takes a message of the node's side. What is about streams that have ended here is dropped: their end is on its way.
    ///
    /// # Errors
    /// When the other side broke the rules.
    pub fn receive(&self, message: Up) -> Result<(), Violation> {
        match message {
            // Who serves what is the caller's matter.
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
                if entry.allowance.grant(credit.bytes as usize) { Ok(()) } else { Err(Violation::Credit) }
            }
            Up::Close(close) => {
                if let Some(entry) = self.streams.lock().open.remove(&close.id) {
                    entry.allowance.close();
                    // A full inbox means that the other side broke the rules; the stream ends all the same.
                    let _ = entry.inbox.try_send(FromNode::Closed(Box::new(status(&close.status_json))));
                }
                Ok(())
            }
        }
    }

    fn deliver(&self, id: u64, item: FromNode, cost: usize) -> Result<(), Violation> {
        let streams = self.streams.lock();
        let Some(entry) = streams.open.get(&id) else { return Ok(()) };
        if !entry.room.fill(cost) {
            return Err(Violation::Window);
        }
        match entry.inbox.try_send(item) {
            // Whoever read it has gone; its close is on its way.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Violation::Window),
        }
    }

    /// Nobody waits for this stream any more.
    pub(super) fn forget(&self, id: u64) {
        if let Some(entry) = self.streams.lock().open.remove(&id) {
            entry.allowance.close();
            self.send(Down::Close(pb::StreamClose { id, status_json: bytes::Bytes::new() }));
        }
    }

    /// Queues a message. There is always room, see [`STREAM_MESSAGES`]; if the tunnel has ended it goes nowhere.
    pub(super) fn send(&self, message: Down) {
        let _ = self.down.try_send(pb::TunnelDown { message: Some(message) });
    }

    /// Ends every stream; no new one can be opened.
    pub(super) fn end(&self) {
        let mut streams = self.streams.lock();
        streams.ended = true;
        std::mem::take(&mut streams.open).values().for_each(|entry| entry.allowance.close());
    }
}

/// The Status of a close; one that cannot be read is a failure.
fn status(json: &[u8]) -> Status {
    serde_json::from_slice(json).unwrap_or_else(|_| {
        let mut status = Status::internal("the node ended the stream without a readable status");
        status.status = Outcome::Failure;
        status
    })
}
