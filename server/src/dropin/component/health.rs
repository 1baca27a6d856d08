//! The port of a component: health checks, and metrics if every caller may read them. HTTP/1.1 over TLS. Not an API: callers are not
//! authenticated, so that only the paths that are open to everyone are answered.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use kstore_informer::metrics::Registry;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Probes and a scraper hold few connections; further ones wait.
const CONNECTIONS: usize = 32;
/// A caller that does not finish its handshake or a request's header by then is let go of.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a failed accept, which mostly means that the process has no file to spare.
const PAUSE: Duration = Duration::from_millis(100);

/// What is answered.
#[derive(Debug)]
pub(super) struct Health {
    /// Paths that every caller may read.
    pub open_paths: Vec<String>,
    /// Figures of the component.
    pub metrics: Registry,
}

impl Health {
    /// Serves until `stop` is cancelled; connections are closed then.
    pub(super) async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
        stop: CancellationToken,
    ) {
        let (acceptor, places) = (TlsAcceptor::from(tls), Arc::new(Semaphore::new(CONNECTIONS)));
        let connections = TaskTracker::new();
        loop {
            let next = async {
                let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
                (listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = next => next,
            };
            match accepted {
                Ok((socket, _)) => {
                    let (health, acceptor, stop) = (self.clone(), acceptor.clone(), stop.clone());
                    connections.spawn(async move {
                        tokio::select! {
                            biased;
                            () = stop.cancelled() => {}
                            () = health.connection(socket, acceptor) => {}
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(PAUSE).await;
                }
            }
        }
        connections.close();
        connections.wait().await;
    }

    async fn connection(self: Arc<Self>, socket: TcpStream, acceptor: TlsAcceptor) {
        let Ok(Ok(socket)) = timeout(PATIENCE, acceptor.accept(socket)).await else { return };
        let answer = service_fn(move |request: Request<Incoming>| {
            let answer = self.answer(request.method(), request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(socket), answer)
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended");
        }
    }

    /// The answer to a request.
    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let is_known = matches!(path, "/healthz" | "/readyz" | "/livez" | "/metrics");
        if !is_known {
            return text(StatusCode::NOT_FOUND, format!("there is nothing at {path}\n"));
        }
        if !self.is_open(path) {
            let told = format!("{path} is answered only if --authorization-always-allow-paths names it\n");
            return text(StatusCode::FORBIDDEN, told);
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n".to_owned());
        }
        if path == "/metrics" {
            let mut page = String::new();
            self.metrics.render(&mut page);
            return text(StatusCode::OK, page);
        }
        text(StatusCode::OK, "ok".to_owned())
    }

    /// A path is open if it is named, or begins with one that ends in `/*`.
    fn is_open(&self, path: &str) -> bool {
        self.open_paths.iter().any(|open| match open.strip_suffix("/*") {
            Some(folder) => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
            None => path == open,
        })
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_paths_are_answered() {
        let open_paths = ["/healthz", "/livez/*"].map(str::to_owned).into();
        let health = Health { open_paths, metrics: Registry::new() };
        let status = |method, path| health.answer(&method, path).status().as_u16();
        assert_eq!(status(Method::GET, "/healthz"), 200);
        assert_eq!(status(Method::HEAD, "/healthz"), 200);
        assert_eq!(status(Method::POST, "/healthz"), 405);
        assert_eq!(status(Method::GET, "/livez"), 403, "a folder is not the path above it");
        assert_eq!(status(Method::GET, "/metrics"), 403);
        assert_eq!(status(Method::GET, "/configz"), 404);
    }
}
