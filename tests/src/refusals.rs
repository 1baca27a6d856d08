//! [`Refusals`]: which requests of the control plane's own components authorization refused. A component that is refused tries again
//! and again, and the test that it serves may pass all the same.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Service;

/// gRPC's code for a request that is not permitted, as the header `grpc-status` has it.
const PERMISSION_DENIED: &str = "7";

/// The refusals of a cluster so far. A clone is the same list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Arc<Mutex<Vec<String>>>);

impl Refusals {
    /// `service`, whose answers are looked at.
    pub(crate) fn service<S>(&self, service: S) -> Watched<S> {
        Watched { inner: service, refusals: self.clone() }
    }

    /// Notes the answer to the opening of a watch.
    pub(crate) fn note_watch(&self, status: &tonic::Status) {
        if status.code() == tonic::Code::PermissionDenied {
            self.note("Watch", status.message());
        }
    }

    /// The message says more than the code: a namespace that is being deleted, and a quota, forbid things as well.
    fn note(&self, call: &str, message: &str) {
        if message.contains("is forbidden: User") {
            self.0.lock().push(format!("{call}: {message}"));
        }
    }

    /// What was refused.
    pub(crate) fn list(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// A service whose answers are looked at.
#[derive(Clone)]
pub(crate) struct Watched<S> {
    inner: S,
    refusals: Refusals,
}

impl<S, B, R> Service<Request<B>> for Watched<S>
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
