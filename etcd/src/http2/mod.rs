//! An HTTP/2 server for gRPC with as few features as possible and cheap calls. Reads and writes of keys are answered on
//! the connection's task, from the stored bytes directly into frames. All other requests go through the router, each in
//! its own task. A general server library spends several times what the store does on such a call.
//!
//! `frame`, `hpack`, `huffman` and `reply` have the formats; `stream`, `outbox` and `rate_limit` the state of calls
//! in progress, without I/O. `connection` does the I/O and dispatches. `request_head` parses requests, `call` answers calls,
//! `watch` serves streams, and `bridge` connects to the router.

mod bridge;
mod call;
mod connection;
mod frame;
mod hpack;
mod huffman;
mod outbox;
mod rate_limit;
mod reply;
mod request_head;
mod stream;
mod watch;

use crate::service::Service;
use bytes::{Buf, BytesMut};
use connection::Connection;
use frame::PREFACE;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// A connection whose protocol was detected.
pub(crate) enum DetectedProtocol<T> {
    /// HTTP/2, not served yet.
    Http2(Box<Http2<T>>),
    /// Another protocol, such as HTTP/1.1.
    Other(PrefixedIo<T>),
}

/// A connection that started with HTTP/2's preface.
pub(crate) struct Http2<T> {
    io: T,
    read: BytesMut,
}

/// Detects a connection's protocol from its first bytes. The caller bounds the time.
pub(crate) async fn detect_protocol<T: AsyncRead + Unpin>(mut io: T) -> io::Result<DetectedProtocol<T>> {
    let mut read = BytesMut::with_capacity(1 << 10);
    while read.len() < PREFACE.len() && PREFACE.starts_with(&read) {
        if io.read_buf(&mut read).await? == 0 {
            break;
        }
    }
    Ok(if read.starts_with(PREFACE) {
        DetectedProtocol::Http2(Box::new(Http2 { io, read }))
    } else {
        DetectedProtocol::Other(PrefixedIo { io, read })
    })
}

impl<T: AsyncRead + AsyncWrite + Unpin> Http2<T> {
    /// Serves until the client disconnects or, after `stop`, until all its streams have ended.
    pub(crate) async fn serve(self, service: Service, stop: CancellationToken) -> io::Result<()> {
        Connection::new(self.io, self.read, service, stop).run().await
    }
}

/// A connection whose first bytes were read already; reads return them first.
pub(crate) struct PrefixedIo<T> {
    io: T,
    read: BytesMut,
}

impl<T: AsyncRead + Unpin> AsyncRead for PrefixedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buffer);
        }
        let len = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read[..len]);
        self.read.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PrefixedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
