//! The client's side of a SPDY connection to a streaming server.

use crate::limits::{CONNECT_TIME, DATA_BYTES, HEAD_BYTES};
use bytes::{Bytes, BytesMut};
use http::Uri;
use kstore_spdy::{Decoder, Frame};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Why there is no stream to a container.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The URL is none that can be dialled.
    #[error("the runtime's streaming URL {0:?} cannot be used: only http:// with a host and a port can")]
    Url(String),
    /// There is no connection, or it has ended.
    #[error("the runtime's streaming server: {0}")]
    Io(#[from] io::Error),
    /// The server does not switch to SPDY.
    #[error("the runtime's streaming server answers {0:?}")]
    Refused(String),
}

/// What a server sends on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamEvent {
    /// Data.
    Data(u32, Bytes),
    /// There is no more.
    Ended(u32),
}

/// The receiving side of a connection.
pub(super) struct Connection {
    reader: OwnedReadHalf,
    decoder: Decoder,
    sender: StreamSender,
    /// A stream whose last data has just been delivered: its end is the next event.
    ended: Option<u32>,
}

/// The sending side of a connection. Clones share it.
#[derive(Clone)]
pub(super) struct StreamSender(Arc<Mutex<OwnedWriteHalf>>);

impl StreamSender {
    /// Sends data on a stream.
    pub(super) async fn data(&self, id: u32, data: &[u8]) -> io::Result<()> {
        for piece in data.chunks(DATA_BYTES) {
            self.send(&kstore_spdy::data(id, piece, false)).await?;
        }
        Ok(())
    }

    /// Ends a stream on this side.
    pub(super) async fn end(&self, id: u32) -> io::Result<()> {
        self.send(&kstore_spdy::data(id, b"", true)).await
    }

    async fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.lock().await.write_all(frame).await
    }
}

impl Connection {
    /// Opens a connection at `url`, in this protocol.
    pub(super) async fn open(url: &str, protocol: &str) -> Result<Self, StreamError> {
        let (authority, path) = target(url).ok_or_else(|| StreamError::Url(url.to_owned()))?;
        let connected = timeout(CONNECT_TIME, async {
            let mut socket = TcpStream::connect(&authority).await?;
            socket.set_nodelay(true)?;
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                 X-Stream-Protocol-Version: {protocol}\r\nContent-Length: 0\r\n\r\n"
            );
            socket.write_all(request.as_bytes()).await?;
            let buffer = upgraded(&mut socket).await?;
            Ok::<_, StreamError>((socket, buffer))
        });
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        let (socket, buffer) = connected.await.map_err(late)??;
        let (reader, writer) = socket.into_split();
        let mut decoder = Decoder::new();
        decoder.feed(&buffer);
        Ok(Self { reader, decoder, sender: StreamSender(Arc::new(Mutex::new(writer))), ended: None })
    }

    /// The sending side.
    pub(super) fn sender(&self) -> StreamSender {
        self.sender.clone()
    }

    /// Opens a stream with these headers. The first one has the number 1, and each later one a larger odd number.
    pub(super) async fn open_stream(&self, id: u32, headers: &[(&str, &str)]) -> io::Result<()> {
        self.sender.send(&kstore_spdy::open(id, headers, id == 1)).await
    }

    /// The next event; `None` once the server has left.
    pub(super) async fn next(&mut self) -> Option<StreamEvent> {
        if let Some(id) = self.ended.take() {
            return Some(StreamEvent::Ended(id));
        }
        loop {
            match self.decoder.decode().ok()? {
                None => {
                    let mut buffer = BytesMut::with_capacity(DATA_BYTES);
                    if self.reader.read_buf(&mut buffer).await.ok()? == 0 {
                        return None;
                    }
                    self.decoder.feed(&buffer);
                }
                Some(Frame::Data { id, data, fin }) if data.is_empty() => {
                    if fin {
                        return Some(StreamEvent::Ended(id));
                    }
                }
                Some(Frame::Data { id, data, fin }) => {
                    self.ended = fin.then_some(id);
                    return Some(StreamEvent::Data(id, data));
                }
                Some(Frame::Reset { id }) => return Some(StreamEvent::Ended(id)),
                Some(Frame::Ping { id }) => self.sender.send(&kstore_spdy::pong(id)).await.ok()?,
                Some(Frame::GoAway) => return None,
                // Servers open no streams.
                Some(Frame::Open { .. } | Frame::Other) => {}
            }
        }
    }
}

/// Host with port, and path, of a URL.
fn target(url: &str) -> Option<(String, String)> {
    let uri: Uri = url.parse().ok()?;
    let authority = uri.authority().filter(|authority| authority.port_u16().is_some())?;
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    (uri.scheme_str() == Some("http")).then(|| (authority.to_string(), path.to_owned()))
}

/// Reads the head of the answer to an upgrade; returns what follows it.
async fn upgraded(socket: &mut TcpStream) -> Result<BytesMut, StreamError> {
    let mut buffer = BytesMut::new();
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if buffer.len() > HEAD_BYTES || socket.read_buf(&mut buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    };
    let rest = buffer.split_off(end);
    let head = String::from_utf8_lossy(&buffer);
    let mut words = head.lines().next().unwrap_or_default().splitn(2, ' ');
    let (version, answer) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match version == "HTTP/1.1" && answer.starts_with("101") {
        true => Ok(rest),
        false => Err(StreamError::Refused(answer.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_urls_with_a_port_are_dialled() {
        let expected = Some(("127.0.0.1:4500".to_owned(), "/exec/token?a=b".to_owned()));
        assert_eq!(target("http://127.0.0.1:4500/exec/token?a=b"), expected);
        let six = Some(("[::1]:4500".to_owned(), "/exec/t".to_owned()));
        assert_eq!(target("http://[::1]:4500/exec/t"), six);
        for refused in
            ["https://127.0.0.1:1/exec/t", "http://127.0.0.1/exec/t", "/exec/t", "unix:///a", "", "http://"]
        {
            assert_eq!(target(refused), None, "{refused}");
        }
    }
}
