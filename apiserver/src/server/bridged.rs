//! Listeners on another runtime than the server's: they pass requests to the service of an embedder, which brings them here.

use super::ApiServer;
use super::connection::answer;
use super::edge::EdgeActivity;
use super::open_sockets::OpenSockets;
use crate::access::RequestCaller;
use crate::grpc::authenticate::is_call;
use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Extensions, Request, Response};
use kstore_access::authn::RequestHead;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::Identified;
use kstore_registry::user::UserInfo;
use std::sync::Arc;

/// The authenticated user of a request from a listener, known once the front end has authenticated the request.
#[derive(Clone, Debug)]
pub struct CallerRecord(RequestCaller);

impl CallerRecord {
    /// The record of a request, which its listener added to the extensions. `None` for requests in process.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get().cloned().map(Self)
    }

    /// The user; `None` before authentication and for requests without credentials.
    pub fn user(&self) -> Option<Arc<UserInfo>> {
        self.0.of_request.get().cloned()
    }
}

/// The service of [`ApiServer::behind`]. A function and no router, since it passes each request on and has no paths of its own.
pub type EmbedderService = Arc<dyn Fn(Request<Body>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// Marks an answer that a listener of [`ApiServer::behind`] does not send: it resets the stream of HTTP/2, or closes the connection of
/// HTTP/1.1. An extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct ResetAnswer;

/// The answer of a request is [`ResetAnswer`].
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the embedder resets the request")]
pub(super) struct RequestReset;

impl ApiServer {
    /// A copy of this server for listeners that may run on another runtime. Its [`ApiServer::serve`] reads no request itself and passes
    /// all, gRPC calls included, to `service` with the extensions of the connection. The service brings them to
    /// [`ApiServer::answer`] of another copy on the server's own runtime, whose clock the server uses.
    #[must_use]
    pub fn behind(self, service: EmbedderService) -> Self {
        Self { embedder: Some(service), ..self }
    }

    /// A copy of this server whose listeners count what they do. Each request has an [`EdgeWork`](super::EdgeWork) as an extension.
    #[must_use]
    pub fn observed(self, edge: Arc<EdgeActivity>) -> Self {
        Self { edge: Some(edge), ..self }
    }

    /// A copy of this server whose listeners tell which connections are open.
    #[must_use]
    pub fn with_known_sockets(self, sockets: Arc<OpenSockets>) -> Self {
        Self { sockets, ..self }
    }

    /// Answers a request that a listener of [`ApiServer::behind`] received, as a listener of the server itself does.
    pub fn answer<B>(&self, request: Request<B>) -> impl Future<Output = Response<Body>> + Send + use<B>
    where
        B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let calls = is_call(&request).then(|| self.grpc_calls.clone());
        answer(request, calls, self.router.clone())
    }

    /// The user of a request, with impersonation, for endpoints that an embedder serves beside the API. It leaves no trace in metrics.
    ///
    /// # Errors
    /// The credentials are refused, or the caller may not act as the user that it names.
    pub async fn identify(&self, parts: &Parts) -> Result<Arc<UserInfo>, Status> {
        self.pipeline.identify(parts.extensions.get(), RequestHead::of(parts)).await
    }

    /// Authenticates a request that [`Self::answer`] will get at once: with the result in its extensions, it is not authenticated again
    /// there.
    ///
    /// # Errors
    /// As [`Self::identify`]; then the answer is the refusal.
    pub async fn identify_ahead(&self, parts: &Parts) -> Result<Identified, Status> {
        self.pipeline.identify_ahead(parts.extensions.get(), RequestHead::of(parts)).await
    }
}
