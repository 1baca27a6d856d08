//! One connection of a gateway: bytes between its socket of the stack and its stream of the outer network.

use super::{ByteStream, Unreached};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{RecvError, Socket, State};
use std::io::Result;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// A connection between a program and the outer network.
pub(super) struct Connection {
    /// The stack's end.
    pub(super) handle: SocketHandle,
    /// `None` once it is over.
    stream: Option<Box<dyn ByteStream>>,
    /// The answer to a client that waits for the program.
    waiting: Option<oneshot::Sender<std::result::Result<(), Unreached>>>,
    /// The task that serves the other end of the stream.
    serving: Option<AbortHandle>,
    /// Whether the stream has no more bytes for the program.
    has_sent_all: bool,
    /// Whether the program has sent all, and the stream was told.
    has_received_all: bool,
}

/// What came of a look at a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pumped {
    /// Nothing has changed.
    Idle,
    /// Something was done, so that another look may do more.
    Busy,
    /// It is over.
    Over,
}

impl Connection {
    /// A connection with this socket. A client that waits is answered when the program has accepted it or not.
    pub(super) fn new(
        handle: SocketHandle,
        stream: Box<dyn ByteStream>,
        waiting: Option<oneshot::Sender<std::result::Result<(), Unreached>>>,
        serving: Option<AbortHandle>,
    ) -> Self {
        Self { handle, stream: Some(stream), waiting, serving, has_sent_all: false, has_received_all: false }
    }

    /// Moves bytes as far as both ends let it, and notes when an end closes.
    pub(super) fn pump(&mut self, socket: &mut Socket<'_>, context: &mut Context<'_>) -> Pumped {
        let Some(stream) = &mut self.stream else { return Pumped::Over };
        if let Some(waiting) = &mut self.waiting {
            if waiting.poll_closed(context).is_ready() {
                // The client that waited for the program has given up.
                socket.abort();
                return self.end(false);
            }
            match socket.state() {
                State::SynSent | State::SynReceived => return Pumped::Idle,
                State::Closed => {
                    self.answer(Err(Unreached::Refused));
                    return self.end(false);
                }
                _ => self.answer(Ok(())),
            }
            return Pumped::Busy;
        }
        let mut pumped = Pumped::Idle;
        match received(socket, stream, context) {
            Ok(true) => pumped = Pumped::Busy,
            Ok(false) => {}
            Err(_) => {
                socket.abort();
                return self.end(false);
            }
        }
        let is_drained = socket.recv_queue() == 0;
        if is_drained && !self.has_received_all && matches!(socket.peek(1), Err(RecvError::Finished)) {
            // A stream in memory has nothing to wait for.
            let _ = Pin::new(&mut *stream).poll_shutdown(context);
            self.has_received_all = true;
            pumped = Pumped::Busy;
        }
        if !self.has_sent_all {
            match sent(socket, stream, context) {
                Ok(Sent::Bytes) => pumped = Pumped::Busy,
                Ok(Sent::Nothing) => {}
                Ok(Sent::End) => {
                    socket.close();
                    self.has_sent_all = true;
                    pumped = Pumped::Busy;
                }
                Err(_) => {
                    socket.abort();
                    return self.end(false);
                }
            }
        }
        match socket.state() {
            State::TimeWait if self.has_received_all => self.end(true),
            // What the program sent before stays for a stream that has no room yet.
            State::Closed if is_drained => self.end(self.has_received_all),
            _ => pumped,
        }
    }

    fn answer(&mut self, answer: std::result::Result<(), Unreached>) {
        if let Some(waiting) = self.waiting.take() {
            // The client may have given up.
            let _ = waiting.send(answer);
        }
    }

    /// Ends the stream. The socket may still have a segment to send, so it goes at the next look.
    fn end(&mut self, is_in_order: bool) -> Pumped {
        match (self.stream.take(), is_in_order) {
            (Some(stream), false) => stream.reset(),
            // What serves the other end may still have bytes to send on, and ends after them.
            (_, true) => self.serving = None,
            (None, false) => {}
        }
        Pumped::Busy
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

/// Moves what the program has sent to the stream; returns whether there was anything.
fn received(
    socket: &mut Socket<'_>,
    stream: &mut Box<dyn ByteStream>,
    context: &mut Context<'_>,
) -> Result<bool> {
    let mut has_moved = false;
    while socket.can_recv() {
        let moved = socket.recv(|bytes| match Pin::new(&mut *stream).poll_write(context, bytes) {
            Poll::Ready(Ok(count)) => (count, Ok(count)),
            Poll::Ready(Err(error)) => (0, Err(error)),
            Poll::Pending => (0, Ok(0)),
        });
        match moved {
            Ok(Ok(0)) | Err(_) => break,
            Ok(Ok(_)) => has_moved = true,
            Ok(Err(error)) => return Err(error),
        }
    }
    Ok(has_moved)
}

/// What a stream had for its program.
enum Sent {
    Bytes,
    Nothing,
    End,
}

/// Moves what the stream has to the program.
fn sent(
    socket: &mut Socket<'_>,
    stream: &mut Box<dyn ByteStream>,
    context: &mut Context<'_>,
) -> Result<Sent> {
    let mut all = Sent::Nothing;
    while socket.can_send() {
        let moved = socket.send(|room| {
            let mut buffer = ReadBuf::new(room);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => (buffer.filled().len(), Ok(Some(buffer.filled().len()))),
                Poll::Ready(Err(error)) => (0, Err(error)),
                Poll::Pending => (0, Ok(None)),
            }
        });
        match moved {
            Ok(Ok(Some(0))) => return Ok(Sent::End),
            Ok(Ok(Some(_))) => all = Sent::Bytes,
            Ok(Ok(None)) | Err(_) => break,
            Ok(Err(error)) => return Err(error),
        }
    }
    Ok(all)
}
