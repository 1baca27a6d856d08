//! Connections: accepts them, does TLS, and serves HTTP/1.1 or HTTP/2 (see `http2`). `serve` has the router.

use crate::connection_slots::ConnectionSlots;
use crate::http2::{self, DetectedProtocol, Http2, PrefixedIo};
use crate::limits;
use crate::listener::{Listener, Socket};
use crate::service::Service;
use futures::FutureExt as _;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Accepts connections until `stop` is cancelled, then lets open calls finish.
pub(crate) async fn accept(
    listener: Listener,
    tls: Option<Arc<rustls::ServerConfig>>,
    connections: usize,
    service: Service,
    stop: CancellationToken,
) {
    let tls = tls.map(TlsAcceptor::from);
    let open_connections = TaskTracker::new();
    let slots = ConnectionSlots::new(connections.min(limits::CONNECTIONS));
    loop {
        let next = async {
            let socket = listener.accept().await?;
            std::io::Result::Ok((socket, slots.slot().await))
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => next,
        };
        match accepted {
            Ok((socket, slot)) => {
                let activity = slot.activity.clone();
                let service = Service { activity: activity.clone(), ..service.clone() };
                let serving = Box::pin(open(socket, tls.clone(), service, stop.clone()));
                open_connections.spawn(async move {
                    activity.evicted.run_until_cancelled(serving).await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(limits::ACCEPT_REST).await;
            }
        }
    }
    drop(listener);
    open_connections.close();
    if tokio::time::timeout(limits::DRAIN, open_connections.wait()).await.is_err() {
        tracing::info!(open = open_connections.len(), "closing open connections");
    }
}

async fn open(socket: Socket, tls: Option<TlsAcceptor>, service: Service, stop: CancellationToken) {
    match socket {
        Socket::Tcp(socket) => {
            // A small response must not wait for more data.
            let _ = socket.set_nodelay(true);
            decrypt(socket, tls, service, stop).await;
        }
        Socket::Unix(socket) => decrypt(socket, tls, service, stop).await,
    }
}

async fn decrypt<T>(socket: T, tls: Option<TlsAcceptor>, service: Service, stop: CancellationToken)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(tls) = tls else { return serve_connection(socket, service, stop).await };
    match tokio::time::timeout(limits::HANDSHAKE, tls.accept(socket)).await {
        Ok(Ok(socket)) => serve_connection(socket, service, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

/// Serves one connection until it closes, or until `stop` is cancelled and open calls have finished.
pub(crate) async fn serve_connection<T>(socket: T, service: Service, stop: CancellationToken)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let detected = tokio::select! {
        biased;
        () = stop.cancelled() => return,
        detected = tokio::time::timeout(limits::HANDSHAKE, http2::detect_protocol(socket)) => detected,
    };
    let ended = match detected {
        Ok(Ok(DetectedProtocol::Http2(socket))) => serve_http2(socket, service, stop).await,
        Ok(Ok(DetectedProtocol::Other(socket))) => serve_http1(socket, service, stop).await,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the client sent nothing".to_owned()),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "the connection ended");
    }
}

async fn serve_http2<T>(
    socket: Box<Http2<T>>,
    service: Service,
    stop: CancellationToken,
) -> Result<(), String>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    socket.serve(service, stop).await.map_err(|error| error.to_string())
}

async fn serve_http1<T>(
    socket: PrefixedIo<T>,
    service: Service,
    stop: CancellationToken,
) -> Result<(), String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Service { pages, calls, activity, .. } = service;
    // hyper closes the connection if no request arrives, so it is idle for a short time only.
    activity.has_streams(1);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        calls.clone().route(pages.clone(), request).map(Ok::<_, Infallible>)
    });
    let serving =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    ended.map_err(|error| error.to_string())
}
