//! The server side of a SPDY connection: turns frames of the client into [`Event`]s, and answers pings and
//! new streams itself.

use crate::frame::{self, Decoder, Frame};
use crate::limits::{DATA_BYTES, OUTBOX_FRAMES};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{BoxStream, Stream};
use std::collections::BTreeMap;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// An event on a SPDY connection, caused by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client opened a stream, with these headers.
    Opened(u32, BTreeMap<String, String>),
    /// The client sent data on a stream.
    Data(u32, Bytes),
    /// The client sends no more on a stream.
    Ended(u32),
}

/// The server side of a SPDY connection.
pub struct Connection {
    incoming: BoxStream<'static, Bytes>,
    decoder: Decoder,
    sender: Sender,
    /// Whether no reply was sent yet: the first one begins the compressed header stream.
    silent: bool,
    /// A stream that one frame opened or filled and ended: its end is the next event.
    ended: Option<u32>,
}

/// Sends data on streams. Cheap to clone; the connection's writer ends when all clones are dropped.
#[derive(Clone)]
pub struct Sender(mpsc::Sender<Bytes>);

impl Sender {
    /// Sends data on a stream. Returns false if the client has left.
    pub async fn data(&self, id: u32, data: &[u8]) -> bool {
        for part in data.chunks(DATA_BYTES) {
            if self.0.send(frame::data(id, part, false)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Ends the sending side of a stream.
    pub async fn end(&self, id: u32) {
        // A client that has left needs no end.
        let _ = self.0.send(frame::data(id, b"", true)).await;
    }
}

impl Connection {
    /// A connection on an upgraded HTTP connection, and the future that writes its bytes: run both
    /// concurrently.
    pub fn raw<S>(upgraded: S) -> (Self, impl Future<Output = ()> + Send)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, mut write) = tokio::io::split(upgraded);
        let incoming = futures::stream::unfold(read, async |mut read| {
            let mut buffer = vec![0; DATA_BYTES];
            let length = read.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
            buffer.truncate(length);
            Some((Bytes::from(buffer), read))
        });
        let (connection, mut outbox) = Self::inside(incoming);
        let writing = async move {
            while let Some(bytes) = outbox.recv().await {
                if write.write_all(&bytes).await.is_err() || write.flush().await.is_err() {
                    return;
                }
            }
            let _ = write.shutdown().await;
        };
        (connection, writing)
    }

    /// A connection whose bytes are inside of another protocol's messages: `incoming` are those of the client, and the result has those for
    /// it, which end with the connection and its senders.
    pub(crate) fn inside(
        incoming: impl Stream<Item = Bytes> + Send + 'static,
    ) -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, outbox) = mpsc::channel(OUTBOX_FRAMES);
        (Self::new(incoming.boxed(), sender), outbox)
    }

    fn new(incoming: BoxStream<'static, Bytes>, sender: mpsc::Sender<Bytes>) -> Self {
        Self { incoming, decoder: Decoder::new(), sender: Sender(sender), silent: true, ended: None }
    }

    /// Returns a sender for the connection's streams.
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Returns the next event; `None` if the client has left or violates the protocol. Cancel safe, except
    /// while a reply is being sent.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(id) = self.ended.take() {
            return Some(Event::Ended(id));
        }
        loop {
            match self.decoder.decode() {
                Ok(Some(frame)) => {
                    if let Some(event) = self.event(frame).await? {
                        return Some(event);
                    }
                }
                Ok(None) => self.decoder.feed(&self.incoming.next().await?),
                Err(error) => {
                    tracing::debug!(%error, "a SPDY client sent an invalid frame");
                    return None;
                }
            }
        }
    }

    /// Handles a frame and returns its event, if it has one; the outer `None` means that the client has left.
    async fn event(&mut self, frame: Frame) -> Option<Option<Event>> {
        Some(match frame {
            Frame::Open { id, headers, fin } => {
                let first = std::mem::take(&mut self.silent);
                self.sender.0.send(frame::reply(id, first)).await.ok()?;
                self.ended = fin.then_some(id);
                Some(Event::Opened(id, headers))
            }
            Frame::Data { id, data, fin: false } => Some(Event::Data(id, data)),
            Frame::Data { id, data, fin: true } if data.is_empty() => Some(Event::Ended(id)),
            Frame::Data { id, data, fin: true } => {
                self.ended = Some(id);
                Some(Event::Data(id, data))
            }
            Frame::Reset { id } => Some(Event::Ended(id)),
            Frame::Ping { id } => {
                self.sender.0.send(frame::pong(id)).await.ok()?;
                None
            }
            Frame::GoAway | Frame::Other => None,
        })
    }
}
