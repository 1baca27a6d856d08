//! One stream on the node's side, with flow control. The proto file states its rule.

use super::{StreamRequest, TunnelSender};
use crate::limits::{STREAM_FRAME_BYTES, STREAM_FRAME_COST, STREAM_WINDOW};
use bytes::Bytes;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use pb::tunnel_up::Message as Up;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// The cost of a message with this many bytes of data.
pub(super) fn cost(bytes: usize) -> usize {
    bytes + STREAM_FRAME_COST
}

/// Refuses a stream.
pub(super) fn refuse(up: &TunnelSender, id: u64, why: &str) {
    close(up, id, &Status::internal(why));
}

fn close(up: &TunnelSender, id: u64, status: &Status) {
    up.send(Up::Close(pb::StreamClose { id, status_json: status.to_json().into() }));
}

/// The flow-control state of a stream, and whether it has ended.
pub(super) struct Flow {
    /// The cost that this side may still send.
    allowance: Semaphore,
    /// The cost that the server may still send.
    room: AtomicUsize,
    ended: CancellationToken,
}

impl Flow {
    pub(super) fn new() -> Self {
        Self {
            allowance: Semaphore::new(STREAM_WINDOW),
            room: AtomicUsize::new(STREAM_WINDOW),
            ended: CancellationToken::new(),
        }
    }

    /// Counts a received message of this cost. False if the server exceeded its window.
    pub(super) fn fill(&self, cost: usize) -> bool {
        self.room.fetch_update(Ordering::AcqRel, Ordering::Acquire, |room| room.checked_sub(cost)).is_ok()
    }

    /// Adds the server's credit. False if the credit exceeds what this side has sent.
    pub(super) fn grant(&self, bytes: usize) -> bool {
        let fits = self.allowance.available_permits().saturating_add(bytes) <= STREAM_WINDOW;
        if fits {
            self.allowance.add_permits(bytes);
        }
        fits
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
        self.allowance.close();
    }

    pub(super) fn ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Waits until this cost may be sent. False if the stream has ended.
    async fn take(&self, cost: usize) -> bool {
        let cost = u32::try_from(cost).expect("a message is smaller than the window");
        match self.allowance.acquire_many(cost).await {
            Ok(permits) => {
                permits.forget();
                true
            }
            Err(_) => false,
        }
    }
}

/// Data from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The channel: 0 is stdin, 4 is terminal sizes.
    pub channel: u32,
    /// The bytes; may be empty.
    pub data: Bytes,
    /// Whether this is the end of the channel.
    pub end: bool,
}

/// A stream that the server opened; the caller must begin or refuse it.
pub struct NodeStream {
    /// The request.
    pub request: StreamRequest,
    reader: StreamReader,
    writer: StreamWriter,
}

impl NodeStream {
    pub(super) fn new(
        request: StreamRequest,
        id: u64,
        up: TunnelSender,
        inbox: mpsc::Receiver<Incoming>,
        flow: Arc<Flow>,
    ) -> Self {
        let reader = StreamReader { id, up: up.clone(), inbox, flow: flow.clone(), taken: 0 };
        Self { request, reader, writer: StreamWriter { id, up, flow } }
    }

    /// Accepts the stream.
    pub fn begin(self) -> (StreamReader, StreamWriter) {
        self.writer.up.send(Up::Begun(pb::StreamBegun { id: self.writer.id }));
        (self.reader, self.writer)
    }

    /// Refuses the stream. The server returns `status` to its caller.
    pub fn refuse(self, status: &Status) {
        self.writer.close(status);
    }
}

/// The half of a stream that receives from the server.
pub struct StreamReader {
    id: u64,
    up: TunnelSender,
    inbox: mpsc::Receiver<Incoming>,
    flow: Arc<Flow>,
    /// The cost that the reader took and has not returned as credit yet.
    taken: usize,
}

impl StreamReader {
    /// The next data; returns credit for data taken before. `None` if the server closed the stream or the
    /// tunnel ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Incoming> {
        if self.taken >= STREAM_WINDOW / 4 {
            self.flow.room.fetch_add(self.taken, Ordering::AcqRel);
            let bytes = u32::try_from(self.taken).expect("no more is taken than the window holds");
            self.up.send(Up::Credit(pb::StreamCredit { id: self.id, bytes }));
            self.taken = 0;
        }
        let message = self.inbox.recv().await?;
        self.taken += cost(message.data.len());
        Some(message)
    }
}

/// The half of a stream that sends to the server. A drop without [`StreamWriter::close`] ends the stream with
/// a failure.
pub struct StreamWriter {
    id: u64,
    up: TunnelSender,
    flow: Arc<Flow>,
}

impl StreamWriter {
    /// Sends data when the window permits. False if the stream has ended.
    pub async fn send(&self, channel: u32, data: impl Into<Bytes>) -> bool {
        let mut data = data.into();
        while !data.is_empty() {
            let part = data.split_to(data.len().min(STREAM_FRAME_BYTES));
            if !self.flow.take(cost(part.len())).await {
                return false;
            }
            self.up.send(Up::Data(pb::StreamData { id: self.id, channel, data: part, end: false }));
        }
        !self.flow.ended()
    }

    /// Ends the stream with a status.
    pub fn close(self, status: &Status) {
        if !self.flow.ended() {
            self.flow.end();
            close(&self.up, self.id, status);
        }
    }

    /// Waits until the server closes the stream.
    pub async fn ended(&self) {
        self.flow.ended.cancelled().await;
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        if !self.flow.ended() {
            self.flow.end();
            refuse(&self.up, self.id, "the node gave the stream up");
        }
    }
}
