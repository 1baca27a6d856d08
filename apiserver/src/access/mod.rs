//! The access log: one line for each request of a client, written when its response has ended (for a watch:
//! when the watch ends). Clients on a connection are logged at INFO, components in this process at DEBUG.
//! Bodies are not logged; see `audit` for the audit log.
//!
//! While the level is off a request costs one comparison: nothing is formatted, wrapped or allocated.

use axum::body::{Body, Bytes};
use http::header::USER_AGENT;
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body::Frame;
use kstore_access::peer::Peer;
use kstore_registry::user::UserInfo;
use kstore_storage::observed_body::ObservedBody;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;
use tracing::Level;

/// The trailer (or header, if the response has no body) with the gRPC status code.
const GRPC_STATUS: &str = "grpc-status";

/// The user of a request that is being logged: a request extension, set by the front end that authenticates
/// the request.
#[derive(Clone, Debug, Default)]
struct LoggedUser(Arc<OnceLock<String>>);

/// The users of a connection and of one of its requests: a request extension, set by the front end that authenticates
/// the request. Requests without credentials set nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestCaller {
    /// The last user of the connection that has a name.
    pub(crate) of_connection: Arc<Mutex<Option<Arc<UserInfo>>>>,
    pub(crate) of_request: Arc<OnceLock<Arc<UserInfo>>>,
}

/// Records the user of a request: for the bounds on its answer, and for its line if the request is being logged.
/// `extensions` are those of the request.
pub(crate) fn authenticated(extensions: &Extensions, user: &Arc<UserInfo>) {
    if let Some(caller) = extensions.get::<RequestCaller>().filter(|_| !user.is_anonymous()) {
        *caller.of_connection.lock() = Some(user.clone());
        // Set once: a request is authenticated once.
        let _ = caller.of_request.set(user.clone());
    }
    if let Some(LoggedUser(slot)) = extensions.get() {
        // Set once: a request is authenticated once.
        let _ = slot.set(user.username.clone());
    }
}

/// One request of the access log; it writes its line when it is dropped.
#[derive(Debug)]
pub(crate) struct AccessRecord {
    method: Method,
    uri: Uri,
    agent: Option<HeaderValue>,
    /// The client's address; `None` for a component in this process.
    client: Option<SocketAddr>,
    user: LoggedUser,
    began: Instant,
    /// The HTTP status; `None` if the client left before there was a response.
    code: Option<u16>,
    grpc_code: Option<u16>,
    /// Bytes of the response's body that were sent.
    bytes: u64,
}

impl AccessRecord {
    /// The record of a request from `peer`; `None` if such requests are not logged.
    pub(crate) fn begin<B>(peer: &Peer, request: &mut Request<B>) -> Option<Self> {
        let client = match peer {
            Peer::Tls { address, .. } => tracing::enabled!(Level::INFO).then_some(Some(*address)),
            Peer::InProcess(_) => tracing::enabled!(Level::DEBUG).then_some(None),
        }?;
        let user = LoggedUser::default();
        request.extensions_mut().insert(user.clone());
        Some(Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            agent: request.headers().get(USER_AGENT).cloned(),
            client,
            user,
            began: Instant::now(),
            code: None,
            grpc_code: None,
            bytes: 0,
        })
    }

    /// Ends the record with the body of `response`.
    pub(crate) fn answered(mut self, response: Response<Body>) -> Response<Body> {
        self.code = Some(response.status().as_u16());
        self.take_grpc_code(response.headers());
        response.map(|inner| Body::new(ObservedBody::new(inner, self, Self::sent)))
    }

    /// Counts a frame of the response that is sent.
    fn sent(&mut self, frame: &Frame<Bytes>) {
        if let Some(chunk) = frame.data_ref() {
            self.bytes += chunk.len() as u64;
        } else if let Some(trailers) = frame.trailers_ref() {
            self.take_grpc_code(trailers);
        }
    }

    fn take_grpc_code(&mut self, headers: &HeaderMap) {
        let code = headers.get(GRPC_STATUS).and_then(|code| code.to_str().ok()?.parse().ok());
        self.grpc_code = code.or(self.grpc_code);
    }
}

impl Drop for AccessRecord {
    fn drop(&mut self) {
        let (method, path) =
            (self.method.as_str(), self.uri.path_and_query().map_or("", |path| path.as_str()));
        let user = self.user.0.get().map(String::as_str);
        let agent = self.agent.as_ref().and_then(|agent| agent.to_str().ok());
        let ms = self.began.elapsed().as_micros() as f64 / 1000.0;
        let (code, grpc_code, bytes) = (self.code, self.grpc_code, self.bytes);
        match self.client {
            Some(client) => {
                tracing::info!(method, path, code, grpc_code, ms, bytes, user, agent, %client, "request");
            }
            None => tracing::debug!(method, path, code, grpc_code, ms, bytes, user, agent, "request"),
        }
    }
}

#[cfg(test)]
mod tests;
