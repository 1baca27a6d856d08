//! Connections: accepted, decrypted if need be, and spoken to in HTTP/1.1 or HTTP/2, with the transport settings that etcd's
//! clients need. Not what is answered: that is `serve`'s router.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use futures::FutureExt as _;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::calls::Calls;
use crate::limits;

/// Accepts connections until `stop` is cancelled, then lets open calls end.
pub(crate) async fn accept(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    service: (Router, Calls),
    stop: CancellationToken,
) {
    let tls = tls.map(TlsAcceptor::from);
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(limits::CONNECTIONS));
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => next,
        };
        match accepted {
            Ok((socket, _)) => {
                let serving = open(socket, tls.clone(), service.clone(), stop.clone());
                connections.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(limits::ACCEPT_REST).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(limits::DRAIN, connections.wait()).await.is_err() {
        tracing::info!(open = connections.len(), "connections are cut");
    }
}

async fn open(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    service: (Router, Calls),
    stop: CancellationToken,
) {
    // Small answers must not wait for more.
    let _ = socket.set_nodelay(true);
    let Some(tls) = tls else { return speak(socket, service, stop).await };
    match tokio::time::timeout(limits::HANDSHAKE, tls.accept(socket)).await {
        Ok(Ok(socket)) => speak(socket, service, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

async fn speak(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (router, calls): (Router, Calls),
    stop: CancellationToken,
) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        calls.clone().pass(router.clone(), request).map(Ok::<_, Infallible>)
    });
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new());
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS)
        .max_pending_accept_reset_streams(limits::PENDING_RESETS)
        .keep_alive_interval(limits::PING_AFTER)
        .keep_alive_timeout(limits::PING_TIMEOUT);
    let serving = http.serve_connection(TokioIo::new(socket), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "the connection ended");
    }
}
