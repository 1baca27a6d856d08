//! The server side of a SPDY connection: turns frames of the client into [`Event`]s, and answers pings and
//! new streams itself.

use super::frame::{self, Decoder, Frame};
use crate::rest::stream::websocket::{self, Socket};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kstore_storage::limits::{SPDY_OUTBOX, STREAM_FRAME_BYTES};
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

/// An event on a SPDY connection, caused by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rest::stream) enum Event {
    /// The client opened a stream, with these headers.
    Opened(u32, BTreeMap<String, String>),
    /// The client sent data on a stream.
    Data(u32, Bytes),
    /// The client sends no more on a stream.
    Ended(u32),
}

/// The server side of a SPDY connection.
pub(in crate::rest::stream) struct Connection {
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
pub(in crate::rest::stream) struct Sender(mpsc::Sender<Bytes>);

impl Sender {
    /// Sends data on a stream. Returns false if the client has left.
    pub(in crate::rest::stream) async fn data(&self, id: u32, data: &[u8]) -> bool {
        for part in data.chunks(STREAM_FRAME_BYTES) {
            if self.0.send(frame::data(id, part, false)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Ends the sending side of a stream.
    pub(in crate::rest::stream) async fn end(&self, id: u32) {
        // A client that has left needs no end.
        let _ = self.0.send(frame::data(id, b"", true)).await;
    }
}

impl Connection {
    /// A connection on an upgraded HTTP connection, and the future that writes its bytes: run both
    /// concurrently.
    pub(in crate::rest::stream) fn raw(upgraded: Upgraded) -> (Self, impl Future<Output = ()> + Send) {
        let (read, mut write) = tokio::io::split(TokioIo::new(upgraded));
        let incoming = futures::stream::unfold(read, async |mut read| {
            let mut buffer = vec![0; STREAM_FRAME_BYTES];
            let length = read.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
            buffer.truncate(length);
            Some((Bytes::from(buffer), read))
        });
        let (sender, mut outbox) = mpsc::channel::<Bytes>(SPDY_OUTBOX);
        let writing = async move {
            while let Some(bytes) = outbox.recv().await {
                if write.write_all(&bytes).await.is_err() || write.flush().await.is_err() {
                    return;
                }
            }
            let _ = write.shutdown().await;
        };
        (Self::new(incoming.boxed(), sender), writing)
    }

    /// A connection in the binary messages of a WebSocket, and the future that writes its bytes.
    pub(in crate::rest::stream) fn tunnelled(socket: Socket) -> (Self, impl Future<Output = ()> + Send) {
        let (mut outgoing, incoming) = socket.split();
        let incoming = incoming.take_while(|message| std::future::ready(message.is_ok()));
        let incoming = incoming.filter_map(async |message| match message {
            Ok(Message::Binary(data)) => Some(data),
            _ => None,
        });
        let (sender, mut outbox) = mpsc::channel::<Bytes>(SPDY_OUTBOX);
        let writing = async move {
            while let Some(bytes) = outbox.recv().await {
                if websocket::send(&mut outgoing, Message::Binary(bytes)).await.is_err() {
                    return;
                }
            }
            let _ = outgoing.close().await;
        };
        (Self::new(incoming.boxed(), sender), writing)
    }

    fn new(incoming: BoxStream<'static, Bytes>, sender: mpsc::Sender<Bytes>) -> Self {
        Self { incoming, decoder: Decoder::new(), sender: Sender(sender), silent: true, ended: None }
    }

    /// Returns a sender for the connection's streams.
    pub(in crate::rest::stream) fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Returns the next event; `None` if the client has left or violates the protocol. Cancel safe, except
    /// while a reply is being sent.
    pub(in crate::rest::stream) async fn next(&mut self) -> Option<Event> {
        if let Some(id) = self.ended.take() {
            return Some(Event::Ended(id));
        }
        loop {
            match self.decoder.next() {
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
