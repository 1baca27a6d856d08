//! [`PanicsOnce`]: a service that panics once, for tests of supervision.

use http::Request;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tower::Service;

/// A service that panics in its caller's task at the first call of one gRPC method.
#[derive(Clone)]
pub(crate) struct PanicsOnce<S> {
    inner: S,
    method: &'static str,
    /// Whether the panic is still to come; shared by all clones.
    armed: Arc<AtomicBool>,
}

impl<S> PanicsOnce<S> {
    /// Panics at the first call of `method`; never if it is `None`.
    pub(crate) fn new(inner: S, method: Option<&'static str>) -> Self {
        let armed = Arc::new(AtomicBool::new(method.is_some()));
        Self { inner, method: method.unwrap_or_default(), armed }
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for PanicsOnce<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let is_method = request.uri().path().rsplit('/').next() == Some(self.method);
        if is_method && self.armed.swap(false, Ordering::Relaxed) {
            panic!("a bug that {} meets once", self.method);
        }
        self.inner.call(request)
    }
}
