//! [`StreamListener`]: serves connections that arrive as streams of this process instead of sockets, such as those of simulated pods.

use super::connections::Connections;
use super::{ApiServer, Task};
use kstore_registry::pod_dialer::ByteStream;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Serves TLS connections over streams of this process as [`ApiServer::serve`] serves those of sockets: with the same authentication,
/// authorization and bounds. Cheap to clone; clones share the bound on open connections.
#[derive(Clone)]
pub struct StreamListener {
    server: ApiServer,
    acceptor: TlsAcceptor,
    open: Arc<Connections>,
}

impl fmt::Debug for StreamListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamListener").finish_non_exhaustive()
    }
}

impl StreamListener {
    pub(super) fn new(server: ApiServer, tls: Arc<rustls::ServerConfig>, capacity: usize) -> Self {
        Self { server, acceptor: TlsAcceptor::from(tls), open: Connections::new(capacity) }
    }

    /// Serves one connection until it ends; the audit log shows `client` as its address. The caller runs the future. It waits for a
    /// slot if as many connections are open as may be, and closes idle ones for it.
    pub fn serve(&self, stream: Box<dyn ByteStream>, client: SocketAddr) -> Task {
        let Self { server, acceptor, open } = self.clone();
        Box::pin(async move {
            let accepting = async move { Some(acceptor.accept(stream).await) };
            let handshake = super::connection::in_time(accepting, client);
            let slot = open.slot(client.ip()).await;
            // The caller drops this future with its client, so a client that only ends its own direction is there.
            server.connected(handshake, client, slot, true).await;
        })
    }
}
