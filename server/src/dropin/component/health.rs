//! HTTP/1.1 server at `--secure-port` of a component, over TLS: health checks and metrics. It does not authenticate callers, so it serves
//! only the paths that `--authorization-always-allow-paths` opens to every caller.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use kstore_apiserver::plain_http;
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

/// Most open connections; further ones wait. Probes and a scraper need few.
const CONNECTIONS: usize = 32;
/// Time for a TLS handshake and for each request header; the server closes slower connections.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a failed accept, which usually means that the process has too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The paths to serve, and the metrics of the component.
#[derive(Debug)]
pub(super) struct Health {
    /// Paths that every caller may read.
    pub open_paths: Vec<String>,
    /// Metrics of the component, served at `/metrics`.
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
        let (acceptor, slots) = (TlsAcceptor::from(tls), Arc::new(Semaphore::new(CONNECTIONS)));
        let connections = TaskTracker::new();
        loop {
            let next = async {
                let slot = slots.clone().acquire_owned().await.expect("the semaphore is never closed");
                (listener.accept().await, slot)
            };
            let (accepted, slot) = tokio::select! {
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
                        drop(slot);
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

    async fn connection(self: Arc<Self>, mut socket: TcpStream, acceptor: TlsAcceptor) {
        let accepting = async {
            match plain_http::refuses(&mut socket).await {
                true => None,
                false => acceptor.accept(socket).await.ok(),
            }
        };
        let Ok(Some(socket)) = timeout(PATIENCE, accepting).await else { return };
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

    /// The response to a request.
    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let is_known = matches!(path, "/healthz" | "/readyz" | "/livez" | "/metrics");
        if !is_known {
            return text(StatusCode::NOT_FOUND, format!("no handler for {path}\n"));
        }
        if !self.is_open(path) {
            let reason = format!("{path} is served only if --authorization-always-allow-paths has it\n");
            return text(StatusCode::FORBIDDEN, reason);
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n".to_owned());
        }
        if path == "/metrics" {
            let mut page = String::new();
            self.metrics.render(&mut page);
            return text(StatusCode::OK, page);
        }
        text(StatusCode::OK, "ok".to_owned())
    }

    /// Whether every caller may read the path: `open_paths` has the path itself, or a prefix of it that ends in `/*`.
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
    let plain = HeaderValue::from_static(kstore_metrics_text::TEXT);
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_always_allowed_paths_are_served() {
        let open_paths = ["/healthz", "/livez/*"].map(str::to_owned).into();
        let health = Health { open_paths, metrics: Registry::new() };
        let status = |method, path| health.answer(&method, path).status().as_u16();
        assert_eq!(status(Method::GET, "/healthz"), 200);
        assert_eq!(status(Method::HEAD, "/healthz"), 200);
        assert_eq!(status(Method::POST, "/healthz"), 405);
        assert_eq!(status(Method::GET, "/livez"), 403, "the pattern /livez/* does not include /livez");
        assert_eq!(status(Method::GET, "/metrics"), 403);
        assert_eq!(status(Method::GET, "/configz"), 404);
    }
}
