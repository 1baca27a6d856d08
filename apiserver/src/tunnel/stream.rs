//! [`NodeStream`]: one stream to a node: a reader and a writer, which may be in different tasks.

use super::link::Link;
use super::window::{ReceiveWindow, SendCredit, cost};
use bytes::Bytes;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use kstore_storage::limits::{STREAM_FRAME_BYTES, STREAM_WINDOW};
use pb::tunnel_down::Message as Down;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A message of the node on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromNode {
    /// The node accepts the stream. At most once, before any data.
    Begun,
    /// Data.
    Data {
        /// 1 is standard output, 2 is standard error.
        channel: u32,
        /// May be empty.
        data: Bytes,
        /// Whether no more data follows on this channel.
        end: bool,
    },
    /// The result of the stream. No message follows.
    Closed(Box<Status>),
}

/// A stream that the node has not accepted yet.
pub struct NodeStream {
    reader: Reader,
    writer: Writer,
}

/// The receiving half of a stream. Dropping it ends the stream.
pub struct Reader {
    link: Arc<Link>,
    id: u64,
    inbox: mpsc::Receiver<FromNode>,
    window_left: Arc<ReceiveWindow>,
    /// Cost of the messages that were read and whose credit was not granted back yet.
    taken: usize,
}

/// The sending half of a stream. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    link: Arc<Link>,
    id: u64,
    credit: Arc<SendCredit>,
}

impl NodeStream {
    pub(super) fn new(
        link: Arc<Link>,
        id: u64,
        inbox: mpsc::Receiver<FromNode>,
        window_left: Arc<ReceiveWindow>,
        credit: Arc<SendCredit>,
    ) -> Self {
        let reader = Reader { link: link.clone(), id, inbox, window_left, taken: 0 };
        Self { reader, writer: Writer { link, id, credit } }
    }

    /// Waits until the node has accepted the stream.
    ///
    /// # Errors
    /// The node's refusal; `None` if the tunnel ended before.
    pub async fn begun(mut self) -> Result<(Reader, Writer), Option<Box<Status>>> {
        match self.reader.next().await {
            Some(FromNode::Begun) => Ok((self.reader, self.writer)),
            Some(FromNode::Closed(status)) => Err(Some(status)),
            Some(FromNode::Data { .. }) | None => Err(None),
        }
    }
}

impl Reader {
    /// Returns the next message of the node, and grants credit for those read before. `None` if the tunnel
    /// ended. Cancel safe.
    pub async fn next(&mut self) -> Option<FromNode> {
        if self.taken >= STREAM_WINDOW / 4 {
            self.window_left.clear(self.taken);
            let bytes = u32::try_from(self.taken).expect("no more is taken than the window holds");
            self.link.send(Down::Credit(pb::StreamCredit { id: self.id, bytes }));
            self.taken = 0;
        }
        let item = self.inbox.recv().await?;
        if let FromNode::Data { data, .. } = &item {
            self.taken += cost(data.len());
        }
        Some(item)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.link.close_stream(self.id);
    }
}

impl Writer {
    /// Sends data, waiting for credit of the node. Returns false if the stream has ended.
    pub async fn send(&self, channel: u32, mut data: Bytes) -> bool {
        while !data.is_empty() {
            let part = data.split_to(data.len().min(STREAM_FRAME_BYTES));
            if !self.message(channel, part, false).await {
                return false;
            }
        }
        true
    }

    /// Ends a channel. Returns false if the stream has ended.
    pub async fn end(&self, channel: u32) -> bool {
        self.message(channel, Bytes::new(), true).await
    }

    async fn message(&self, channel: u32, data: Bytes, end: bool) -> bool {
        let open = self.credit.take(cost(data.len())).await;
        if open {
            self.link.send(Down::Data(pb::StreamData { id: self.id, channel, data, end }));
        }
        open
    }
}
