//! [`Connector`]: opens a connection with TLS, over TCP or to a pod. The address may differ from the name that the server's
//! certificate must have. hyper's connection pool is built on it.

use super::failure;
use crate::pod_dialer::{ByteStream, PodConnection, PodDialer, PodPort};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connects to one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector {
    /// The address to dial, as `host:port`.
    pub(super) address: Arc<str>,
    /// The name that the server's certificate must have.
    pub(super) server_name: ServerName<'static>,
    /// The TLS configuration, with the trusted authorities.
    pub(super) tls: Arc<ClientConfig>,
    /// The pod that has the address, and the way to it; `None`: the address is dialled.
    pub(super) pod: Option<DialledPod>,
}

/// A port of a pod, and what connects to it.
#[derive(Clone, Debug)]
pub(super) struct DialledPod {
    pub(super) dialer: Arc<dyn PodDialer>,
    pub(super) port: PodPort,
}

/// Equal if connections to both may be shared: forks of a cluster have the same pods, and each its own dialer.
impl PartialEq for DialledPod {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.dialer, &other.dialer) && self.port == other.port
    }
}

impl Eq for DialledPod {}

/// A failure to connect, worded as in Go.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ConnectFailure(pub(super) String);

impl Connector {
    async fn connect(self) -> Result<Stream, ConnectFailure> {
        let PodConnection { stream, refused } = self.dial().await?;
        let name = self.server_name.to_str().into_owned();
        let stream = TlsConnector::from(self.tls).connect(self.server_name, stream).await;
        let failed = |error: io::Error| match refused.get() {
            Some(why) => failure::refused(&self.address, why),
            None => failure::handshake(&error, &name),
        };
        stream.map(|stream| Stream(TokioIo::new(stream))).map_err(|error| ConnectFailure(failed(error)))
    }

    /// Connects without TLS.
    async fn dial(&self) -> Result<PodConnection, ConnectFailure> {
        if let Some(DialledPod { dialer, port }) = &self.pod {
            let dialled = dialer.dial(port.clone()).await;
            return dialled.map_err(|why| ConnectFailure(format!("dial tcp {}: {why}", self.address)));
        }
        let stream = TcpStream::connect(&*self.address).await.map_err(|error| self.dial_failure(&error))?;
        // Requests are small and wait for an answer. If the option cannot be set, only latency suffers.
        let _ = stream.set_nodelay(true);
        Ok(PodConnection { stream: Box::new(stream), refused: Arc::new(OnceLock::new()) })
    }

    fn dial_failure(&self, error: &io::Error) -> ConnectFailure {
        let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
        let is_name = ServerName::try_from(host).is_ok_and(|name| matches!(name, ServerName::DnsName(_)));
        ConnectFailure(match error.raw_os_error() {
            // Errors of the name resolver have no OS error number.
            None if is_name => format!("dial tcp: lookup {host}: no such host"),
            _ => failure::dial(&self.address, error),
        })
    }
}

impl tower::Service<http::Uri> for Connector {
    type Response = Stream;
    type Error = ConnectFailure;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, ConnectFailure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}

/// An open TLS connection.
pub(super) struct Stream(TokioIo<TlsStream<Box<dyn ByteStream>>>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
