//! Streams to a node from a part of the same process, without a tunnel and a server between them.

use super::request::StreamRequest;
use super::stream::{Flow, cost};
use super::{Incoming, NodeStream, STREAM_MESSAGES, TunnelSender};
use crate::limits::{STREAM_FRAME_BYTES, STREAM_WINDOW};
use bytes::Bytes;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use pb::tunnel_up::Message as Up;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// What a node sends on a local stream.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalEvent {
    /// The node has accepted the stream.
    Begun,
    /// Data on a channel: 1 is standard output, 2 standard error.
    Data(u32, Bytes),
    /// The end of the stream.
    Closed(Box<Status>),
}

/// The opener's half of a local stream that receives from the node. Its drop ends the stream.
pub struct LocalReceiver {
    up: mpsc::Receiver<pb::TunnelUp>,
    flow: Arc<Flow>,
    credit: Arc<Semaphore>,
    has_ended: bool,
}

/// The opener's half of a local stream that sends to the node.
pub struct LocalSender {
    inbox: mpsc::Sender<Incoming>,
    flow: Arc<Flow>,
    credit: Arc<Semaphore>,
}

impl NodeStream {
    /// A stream of this request between two parts of one process: the node's end, and the halves of its opener. Flow control is that of a
    /// tunnel: at most a window of bytes is under way in each direction.
    pub fn local(request: StreamRequest) -> (Self, LocalReceiver, LocalSender) {
        // Data of a window, and the beginning, the end and credits: these are few, see `StreamReader::next`.
        let (up, messages) = mpsc::channel(2 * STREAM_MESSAGES);
        let (inbox, incoming) = mpsc::channel(STREAM_MESSAGES);
        let (flow, credit) = (Arc::new(Flow::new()), Arc::new(Semaphore::new(STREAM_WINDOW)));
        let stream = Self::new(request, 0, TunnelSender(up), incoming, Arc::clone(&flow));
        let receiver = LocalReceiver {
            up: messages,
            flow: Arc::clone(&flow),
            credit: Arc::clone(&credit),
            has_ended: false,
        };
        (stream, receiver, LocalSender { inbox, flow, credit })
    }
}

impl LocalReceiver {
    /// What the node sends next; `None` after the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<LocalEvent> {
        if self.has_ended {
            return None;
        }
        loop {
            match self.up.recv().await.and_then(|message| message.message) {
                Some(Up::Begun(_)) => return Some(LocalEvent::Begun),
                Some(Up::Data(data)) => {
                    // The receiver has it, so as much may follow.
                    self.flow.grant(cost(data.data.len()));
                    return Some(LocalEvent::Data(data.channel, data.data));
                }
                Some(Up::Credit(credit)) => self.credit.add_permits(credit.bytes as usize),
                Some(Up::Close(close)) => {
                    self.has_ended = true;
                    let status = serde_json::from_slice(&close.status_json);
                    let status =
                        status.unwrap_or_else(|_| Status::internal("the stream ended without a result"));
                    return Some(LocalEvent::Closed(Box::new(status)));
                }
                Some(Up::Nodes(_)) => {}
                None => {
                    self.has_ended = true;
                    return None;
                }
            }
        }
    }
}

impl Drop for LocalReceiver {
    fn drop(&mut self) {
        self.flow.end();
        self.credit.close();
    }
}

impl LocalSender {
    /// Sends data on a channel when the window permits: 0 is standard input, 4 the size of the terminal. False if the stream has ended.
    pub async fn send(&self, channel: u32, mut data: Bytes) -> bool {
        while !data.is_empty() {
            let part = data.split_to(data.len().min(STREAM_FRAME_BYTES));
            if !self.pass(Incoming { channel, data: part, end: false }).await {
                return false;
            }
        }
        !self.flow.ended()
    }

    /// Ends a channel. False if the stream has ended.
    pub async fn end(&self, channel: u32) -> bool {
        self.pass(Incoming { channel, data: Bytes::new(), end: true }).await
    }

    async fn pass(&self, message: Incoming) -> bool {
        let cost = u32::try_from(cost(message.data.len())).expect("a message is smaller than the window");
        let Ok(permits) = self.credit.acquire_many(cost).await else { return false };
        permits.forget();
        // The node counts the same window.
        self.flow.fill(cost as usize);
        self.inbox.send(message).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamKind;

    fn request() -> StreamRequest {
        let text = || "a".to_owned();
        StreamRequest {
            node: text(),
            namespace: text(),
            pod: text(),
            uid: text(),
            container: text(),
            kind: StreamKind::Port(1),
        }
    }

    #[tokio::test]
    async fn more_than_a_window_passes_in_each_direction_while_the_other_side_reads() {
        let (node, mut receiver, sender) = NodeStream::local(request());
        let (mut reader, writer) = node.begin();
        let bytes = vec![7_u8; 3 * STREAM_WINDOW];
        let echo = async move {
            let mut total = 0;
            while let Some(piece) = reader.next().await {
                total += piece.data.len();
                if piece.end || !writer.send(1, piece.data).await {
                    break;
                }
            }
            writer.close(&Status::success(200));
            total
        };
        let sending = async {
            assert!(sender.send(0, Bytes::from(bytes.clone())).await);
            sender.end(0).await;
        };
        let receiving = async {
            let (mut got, mut end) = (0, None);
            while let Some(event) = receiver.next().await {
                match event {
                    LocalEvent::Begun => {}
                    LocalEvent::Data(channel, data) => {
                        assert_eq!(channel, 1);
                        got += data.len();
                    }
                    LocalEvent::Closed(status) => end = Some(status.code),
                }
            }
            (got, end)
        };
        let (total, (), (got, end)) = tokio::join!(echo, sending, receiving);
        assert_eq!((total, got, end), (bytes.len(), bytes.len(), Some(200)));
    }

    #[tokio::test]
    async fn a_node_sees_that_the_opener_has_left() {
        let (node, receiver, sender) = NodeStream::local(request());
        let (_reader, writer) = node.begin();
        drop(receiver);
        writer.ended().await;
        assert!(!sender.send(0, Bytes::from_static(b"x")).await);
    }
}
