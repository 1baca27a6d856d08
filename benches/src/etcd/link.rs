//! [`Link`]: one HTTP/2 connection to a server, for many concurrent calls. Single-threaded; it only moves
//! messages, which callers interpret.

use super::frame::{self, FRAME_BYTES, FrameHeader, FrameType, HEAD, Headers};
use anyhow::{Context, bail, ensure};
use prost::Message;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Received bytes after which the connection's window is refilled.
const REFILL_BYTES: u32 = 1 << 30;

/// A piece of an answer.
pub(crate) enum Piece<'a> {
    /// Part of its body, which may end inside a message.
    Data(&'a [u8]),
    /// The answer is complete, successful or not.
    End,
}

pub(crate) struct Link<S = TcpStream> {
    stream: S,
    authority: String,
    headers: Headers,
    inbox: Vec<u8>,
    outbox: Outbox,
    next_stream: u32,
    /// Bytes received since the window was refilled.
    received: u32,
}

/// Frames to send, limited by the server's window.
struct Outbox {
    ready: Vec<u8>,
    /// Bodies in order, after their headers.
    waiting: VecDeque<(u32, Vec<u8>, bool)>,
    window: i64,
}

impl Link {
    /// Opens a connection.
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot reach {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream, address.to_string()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    /// A connection over a stream to the server that is called `authority`.
    pub(crate) fn over(stream: S, authority: String) -> Self {
        let mut ready = frame::PREFACE.to_vec();
        frame::settings(&mut ready);
        frame::window_update(&mut ready, frame::WINDOW_MAX - frame::WINDOW_INITIAL as u32);
        let outbox = Outbox { ready, waiting: VecDeque::new(), window: frame::WINDOW_INITIAL };
        let (headers, inbox) = (Headers::default(), Vec::with_capacity(2 * READ_BYTES));
        Self { stream, authority, headers, inbox, outbox, next_stream: 1, received: 0 }
    }

    /// Begins a call of `path` with one message, and returns its stream id. [`Link::process`] sends it.
    pub(crate) fn call(&mut self, path: &str, message: &impl Message) -> u32 {
        self.begin(path, message, true)
    }

    /// Begins a call to which more messages may be added.
    pub(super) fn open_call(&mut self, path: &str, message: &impl Message) -> u32 {
        self.begin(path, message, false)
    }

    fn begin(&mut self, path: &str, message: &impl Message, end: bool) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        self.headers.call(&mut self.outbox.ready, stream, &self.authority, path);
        self.outbox.send(stream, encode(message), end);
        stream
    }

    /// Adds a message to an open call.
    pub(super) fn send(&mut self, stream: u32, message: &impl Message) {
        self.outbox.send(stream, encode(message), false);
    }

    /// Sends the queued frames, waits for input, and passes all received pieces to `take`.
    pub(crate) async fn process(&mut self, mut take: impl FnMut(u32, Piece<'_>)) -> anyhow::Result<()> {
        if !self.outbox.ready.is_empty() {
            self.stream.write_all(&self.outbox.ready).await?;
            self.outbox.ready.clear();
        }
        self.inbox.reserve(READ_BYTES);
        ensure!(self.stream.read_buf(&mut self.inbox).await? > 0, "the server closed the connection");
        let mut done = 0;
        while let Some(head) = FrameHeader::read(&self.inbox[done..]) {
            let Some(payload) = self.inbox.get(done + HEAD..done + HEAD + head.len) else { break };
            self.outbox.answer(head, payload)?;
            if head.kind == FrameType::Data {
                self.received += u32::try_from(head.len)?;
                take(head.stream, Piece::Data(payload));
            }
            if head.ends() || head.kind == FrameType::Reset {
                take(head.stream, Piece::End);
            }
            done += HEAD + head.len;
        }
        self.inbox.drain(..done);
        if self.received > REFILL_BYTES {
            frame::window_update(&mut self.outbox.ready, std::mem::take(&mut self.received));
        }
        Ok(())
    }
}

impl Outbox {
    /// All streams have the same initial window, so a smaller body never waits for its stream's window.
    fn send(&mut self, stream: u32, body: Vec<u8>, end: bool) {
        self.waiting.push_back((stream, body, end));
        self.pump();
    }

    fn pump(&mut self) {
        while let Some((_, body, _)) = self.waiting.front()
            && body.len() as i64 <= self.window
        {
            self.window -= body.len() as i64;
            let (stream, body, end) = self.waiting.pop_front().expect("there is a front");
            let mut parts = body.chunks(FRAME_BYTES).peekable();
            while let Some(part) = parts.next() {
                frame::data(&mut self.ready, stream, part, end && parts.peek().is_none());
            }
        }
    }

    /// Handles a frame that concerns the connection.
    fn answer(&mut self, head: FrameHeader, payload: &[u8]) -> anyhow::Result<()> {
        match head.kind {
            FrameType::Settings if !head.is_ack() => frame::settings_ack(&mut self.ready),
            FrameType::Ping if !head.is_ack() => frame::ping_ack(&mut self.ready, payload),
            FrameType::WindowUpdate if head.stream == 0 => {
                self.window += frame::granted(payload);
                self.pump();
            }
            FrameType::GoAway => bail!("the server refuses: {}", payload.escape_ascii()),
            _ => {}
        }
        Ok(())
    }
}

/// Encodes a message in gRPC framing, uncompressed.
fn encode(message: &impl Message) -> Vec<u8> {
    let len = message.encoded_len();
    let mut body = Vec::with_capacity(5 + len);
    body.push(0);
    body.extend_from_slice(&u32::try_from(len).expect("a message is far below 4 GiB").to_be_bytes());
    message.encode(&mut body).expect("a vector grows");
    body
}

/// Splits the pieces of a body into messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    buffer: Vec<u8>,
}

impl Messages {
    /// Adds a piece, and passes each completed message to `take`.
    pub(super) fn push(&mut self, piece: &[u8], mut take: impl FnMut(&[u8])) {
        self.buffer.extend_from_slice(piece);
        let mut done = 0;
        while let Some(prefix) = self.buffer[done..].first_chunk::<5>() {
            let [_, len @ ..] = *prefix;
            let start = done + 5;
            let Some(message) = self.buffer.get(start..start + u32::from_be_bytes(len) as usize) else {
                break;
            };
            take(message);
            done = start + message.len();
        }
        self.buffer.drain(..done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_reassembled_from_pieces_of_any_size() {
        let whole = [&[0, 0, 0, 0, 2][..], b"ab", &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 1], b"c"].concat();
        for cut in 1..whole.len() {
            let (mut messages, mut seen) = (Messages::default(), Vec::new());
            for piece in whole.chunks(cut) {
                messages.push(piece, |message| seen.push(message.to_vec()));
            }
            assert_eq!(seen, [&b"ab"[..], b"", b"c"]);
        }
    }
}
