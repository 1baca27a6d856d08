//! [`Link`]: one HTTP/2 connection to a server, for many calls at once. Single-threaded and without judgement: it moves
//! messages; what they say is the caller's.

use super::frame::{self, FRAME_BYTES, HEAD, Head, Headers, Kind};
use anyhow::{Context, bail, ensure};
use prost::Message;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;

/// Received bytes after which the connection's window is filled up.
const REFILL_BYTES: u32 = 1 << 30;

/// A piece of an answer.
pub(super) enum Piece<'a> {
    /// Part of its body: whole or in the middle of a message.
    Data(&'a [u8]),
    /// It is complete, well or not.
    End,
}

/// A connection.
pub(super) struct Link {
    stream: TcpStream,
    authority: String,
    headers: Headers,
    inbox: Vec<u8>,
    outbox: Outbox,
    next_stream: u32,
    /// Received since the window was filled up.
    received: u32,
}

/// What is to be sent, as far as the server's window allows.
struct Outbox {
    ready: Vec<u8>,
    /// Bodies in order, behind their headers.
    waiting: VecDeque<(u32, Vec<u8>, bool)>,
    window: i64,
}

impl Link {
    /// A new connection.
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot reach {address}"))?;
        stream.set_nodelay(true)?;
        let mut ready = frame::PREFACE.to_vec();
        frame::settings(&mut ready);
        frame::window_update(&mut ready, frame::WINDOW_MAX - frame::WINDOW_INITIAL as u32);
        let outbox = Outbox { ready, waiting: VecDeque::new(), window: frame::WINDOW_INITIAL };
        let authority = address.to_string();
        let (headers, inbox) = (Headers::default(), Vec::with_capacity(2 * READ_BYTES));
        Ok(Self { stream, authority, headers, inbox, outbox, next_stream: 1, received: 0 })
    }

    /// Begins a call of `path` with one message; gives back its name on this connection. Sent by the next [`Link::turn`].
    pub(super) fn call(&mut self, path: &str, message: &impl Message) -> u32 {
        self.begin(path, message, true)
    }

    /// The same, but more messages may follow.
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

    /// A further message of an open call.
    pub(super) fn send(&mut self, stream: u32, message: &impl Message) {
        self.outbox.send(stream, encode(message), false);
    }

    /// Sends what is to be sent, waits until something comes, and hands over all that came.
    pub(super) async fn turn(&mut self, mut take: impl FnMut(u32, Piece<'_>)) -> anyhow::Result<()> {
        if !self.outbox.ready.is_empty() {
            self.stream.write_all(&self.outbox.ready).await?;
            self.outbox.ready.clear();
        }
        self.inbox.reserve(READ_BYTES);
        ensure!(self.stream.read_buf(&mut self.inbox).await? > 0, "the server closed the connection");
        let mut done = 0;
        while let Some(head) = Head::read(&self.inbox[done..]) {
            let Some(payload) = self.inbox.get(done + HEAD..done + HEAD + head.len) else { break };
            self.outbox.answer(head, payload)?;
            if head.kind == Kind::Data {
                self.received += u32::try_from(head.len)?;
                take(head.stream, Piece::Data(payload));
            }
            if head.ends() || head.kind == Kind::Reset {
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
    /// Streams have the same window to begin with, so a body below it never waits for its stream's.
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

    /// Does what a frame asks of the connection.
    fn answer(&mut self, head: Head, payload: &[u8]) -> anyhow::Result<()> {
        match head.kind {
            Kind::Settings if !head.is_ack() => frame::settings_ack(&mut self.ready),
            Kind::Ping if !head.is_ack() => frame::ping_ack(&mut self.ready, payload),
            Kind::WindowUpdate if head.stream == 0 => {
                self.window += frame::granted(payload);
                self.pump();
            }
            Kind::GoAway => bail!("the server refuses: {}", payload.escape_ascii()),
            _ => {}
        }
        Ok(())
    }
}

/// A message as gRPC frames it: not compressed, with its length.
fn encode(message: &impl Message) -> Vec<u8> {
    let len = message.encoded_len();
    let mut body = Vec::with_capacity(5 + len);
    body.push(0);
    body.extend_from_slice(&u32::try_from(len).expect("a message is far below 4 GiB").to_be_bytes());
    message.encode(&mut body).expect("a vector has room");
    body
}

/// Cuts a stream of messages out of the pieces in which it comes.
#[derive(Debug, Default)]
pub(super) struct Messages {
    buffer: Vec<u8>,
}

impl Messages {
    /// Adds a piece, and hands over each message that is now complete.
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
    fn messages_come_out_whole_however_they_are_cut() {
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
