//! [`Refusals`]: the requests of a cluster's own components that authorization refused. A refused component
//! keeps retrying, and a test could pass without noticing it.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Service;

/// gRPC's code for a forbidden request, as in the header `grpc-status`.
const PERMISSION_DENIED: &str = "7";

/// The refused requests of a cluster so far; clones share one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Arc<Mutex<Vec<String>>>);

impl Refusals {
    /// Wraps `service` so that its refusals are recorded.
    pub(crate) fn service<S>(&self, service: S) -> RecordingService<S> {
        RecordingService { inner: service, refusals: self.clone() }
    }

    /// Records a refusal to open a watch.
    pub(crate) fn note_watch(&self, status: &tonic::Status) {
        if status.code() == tonic::Code::PermissionDenied {
            self.note("Watch", status.message());
        }
    }

    /// The message is checked, since the code alone is ambiguous: terminating namespaces and quotas forbid
    /// requests as well.
    fn note(&self, call: &str, message: &str) {
        if message.contains("is forbidden: User") {
            self.0.lock().push(format!("{call}: {message}"));
        }
    }

    /// The recorded refusals.
    pub(crate) fn list(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// A service whose refusals are recorded.
#[derive(Clone)]
pub(crate) struct RecordingService<S> {
    inner: S,
    refusals: Refusals,
}

impl<S, B, R> Service<Request<B>> for RecordingService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (call, refusals) = (request.uri().path().to_owned(), self.refusals.clone());
        let answer = self.inner.call(request);
        async move {
            let response = answer.await?;
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            if header("grpc-status") == Some(PERMISSION_DENIED) {
                let message = header("grpc-message").unwrap_or_default();
                refusals.note(&call, &message.replace("%20", " ").replace("%22", "\""));
            }
            Ok(response)
        }
        .boxed()
    }
}
