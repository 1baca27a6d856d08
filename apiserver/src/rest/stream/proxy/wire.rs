//! HTTP/1.1 exchange with a backend: hyper's client over a stream of the tunnel.

use super::tls;
use crate::rest::stream::{Expiry, Streams};
use crate::tunnel::Refused;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::connect::backend::{Backend, unreachable};
use kstore_storage::limits::{PROXY_HEAD, PROXY_TLS};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

/// A connection to a backend, with TLS or without.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

impl Streams {
    /// Sends a user's request to the backend on a connection of its own, and waits for the head of the answer.
    ///
    /// # Errors
    /// 503 with the reason.
    pub(super) async fn exchange(
        &self,
        user: &str,
        backend: &Backend,
        request: Request<Body>,
        expiry: Expiry,
    ) -> Result<Response<Incoming>, Status> {
        let refused = Refused::default();
        let connection = self.connect(user, backend, &refused, expiry).await?;
        let failed = |why: Status| refused.get().map_or(why, |text| backend.refused(text));
        let connection: Box<dyn Connection> = match backend.has_tls {
            false => Box::new(connection),
            true => match tokio::time::timeout(PROXY_TLS, tls::connect(connection)).await {
                Ok(Ok(connection)) => Box::new(connection),
                Ok(Err(why)) => return Err(failed(unreachable(&why))),
                Err(_) => return Err(failed(unreachable(&"net/http: TLS handshake timeout"))),
            },
        };
        self.send(connection, request, expiry).await.map_err(failed)
    }

    /// Sends a request on a connection, and waits for the head of the answer.
    async fn send(
        &self,
        connection: Box<dyn Connection>,
        request: Request<Body>,
        expiry: Expiry,
    ) -> Result<Response<Incoming>, Status> {
        let mut http = http1::Builder::new();
        http.title_case_headers(true);
        let handshake = http.handshake(TokioIo::new(connection)).await;
        let (mut sender, serving) = handshake.map_err(|error| unreachable(&error))?;
        self.spawn_stream(expiry, async move { drop(serving.with_upgrades().await) });
        match tokio::time::timeout(PROXY_HEAD, sender.send_request(request)).await {
            Ok(answered) => answered.map_err(|error| closed(&error)),
            Err(_) => Err(unreachable(&"net/http: timeout awaiting response headers")),
        }
    }

    /// Opens a connection to the backend.
    async fn connect(
        &self,
        user: &str,
        backend: &Backend,
        refused: &Refused,
        expiry: Expiry,
    ) -> Result<DuplexStream, Status> {
        let host = &backend.host;
        let connected = self.tunnels.connect(user, backend.open.clone(), refused.clone()).await;
        let (near, copying) =
            connected.map_err(|error| unreachable(&format_args!("dial tcp {host}: {error}")))?;
        self.spawn_stream(expiry, copying);
        Ok(near)
    }
}

/// 503: the backend closed the connection, or does not speak HTTP.
pub(super) fn closed(error: &hyper::Error) -> Status {
    if error.is_incomplete_message() || error.is_canceled() {
        unreachable(&"EOF")
    } else {
        unreachable(error)
    }
}
