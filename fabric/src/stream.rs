//! [`Stream`]: one end of a connection, which reads and writes as a socket does.

use crate::duplex::{Duplex, Moved, Side};
use crate::fabric::StreamPermit;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What both ends share.
#[derive(Debug)]
struct Connection {
    state: Mutex<State>,
    _permit: StreamPermit,
}

#[derive(Debug, Default)]
struct State {
    duplex: Duplex,
    /// Tasks that wait, by side.
    readers: [Option<Waker>; 2],
    writers: [Option<Waker>; 2],
}

/// One end of a connection. A dropped end is closed: its other end reads what was sent before and then the end, or a reset if bytes
/// were not read.
#[derive(Debug)]
pub struct Stream {
    connection: Arc<Connection>,
    side: Side,
    local: SocketAddr,
    peer: SocketAddr,
}

impl Stream {
    /// Both ends of a connection from `from` to `to`: the client's and the server's.
    pub(crate) fn pair(from: SocketAddr, to: SocketAddr, permit: StreamPermit) -> (Self, Self) {
        let connection = Arc::new(Connection { state: Mutex::default(), _permit: permit });
        let server = Self { connection: Arc::clone(&connection), side: Side::Server, local: to, peer: from };
        (Self { connection, side: Side::Client, local: from, peer: to }, server)
    }

    /// The address of this end.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The address of the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Waits for the next byte and returns it without taking it, as `MSG_PEEK` does; `None` at the end of what the other end sends.
    ///
    /// # Errors
    /// The other end has reset the stream.
    pub async fn peek(&mut self) -> Result<Option<u8>> {
        std::future::poll_fn(|context| {
            let mut state = self.state();
            if let Some(first) = state.duplex.first(self.side) {
                return Poll::Ready(Ok(Some(first)));
            }
            // There is no byte that this read could take.
            match state.duplex.read(self.side, &mut [0]) {
                Moved::Bytes(_) => Poll::Ready(Ok(None)),
                Moved::Reset => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
                Moved::Wait | Moved::Finished => {
                    state.readers[self.side.index()] = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Ends the connection at once: the other end can read what was sent, and then fails.
    pub fn reset(self) {
        let wakers = {
            let mut state = self.state();
            state.duplex.reset(self.side);
            state.all_wakers()
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.connection.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self) {
        let waker = {
            let mut state = self.state();
            state.duplex.finish(self.side);
            state.readers[self.side.other().index()].take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn all_wakers(&mut self) -> [Option<Waker>; 4] {
        let [first, second] = &mut self.readers;
        let [third, fourth] = &mut self.writers;
        [first, second, third, fourth].map(Option::take)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let wakers = {
            let mut state = self.state();
            state.duplex.close(self.side);
            state.all_wakers()
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let mut state = self.state();
        match state.duplex.read(self.side, buffer.initialize_unfilled()) {
            Moved::Bytes(count) => {
                let waker = state.writers[self.side.other().index()].take();
                drop(state);
                waker.into_iter().for_each(Waker::wake);
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
            Moved::Reset => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
            Moved::Wait | Moved::Finished => {
                state.readers[self.side.index()] = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let mut state = self.state();
        match state.duplex.write(self.side, bytes) {
            Moved::Bytes(count) => {
                let waker = state.readers[self.side.other().index()].take();
                drop(state);
                waker.into_iter().for_each(Waker::wake);
                Poll::Ready(Ok(count))
            }
            Moved::Wait => {
                state.writers[self.side.index()] = Some(context.waker().clone());
                Poll::Pending
            }
            Moved::Reset => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
            Moved::Finished => Poll::Ready(Err(Error::from(ErrorKind::BrokenPipe))),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Result<()>> {
        self.finish();
        Poll::Ready(Ok(()))
    }
}
