//! [`Switchable`]: an in-process connection to an apiserver that a test can break, and switch to another
//! apiserver.

use axum::body::Body;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyStream, StreamBody};
use kstore_apiserver::{InProcess, WatchBatches};
use kstore_proto::kstore::v1 as pb;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt as _};

/// A tower service that forwards to a replaceable apiserver. Clones share one connection.
#[derive(Clone)]
pub struct Switchable(Arc<Mutex<(InProcess, CancellationToken)>>);

impl Switchable {
    /// Connects to this apiserver.
    pub fn new(api: InProcess) -> Self {
        Self(Arc::new(Mutex::new((api, CancellationToken::new()))))
    }

    /// Breaks every answer in flight.
    pub fn cut(&self) {
        let mut line = self.0.lock().expect("no holder panics");
        std::mem::take(&mut line.1).cancel();
    }

    /// Forwards to another apiserver from now on. Answers in flight continue.
    pub fn switch(&self, api: InProcess) {
        self.0.lock().expect("no holder panics").0 = api;
    }

    fn now(&self) -> (InProcess, CancellationToken) {
        self.0.lock().expect("no holder panics").clone()
    }

    /// A watch without a wire format, which breaks with the connection.
    ///
    /// # Errors
    ///
    /// The apiserver's.
    pub async fn watch(
        self,
        request: tonic::Request<pb::WatchRequest>,
    ) -> Result<WatchBatches, tonic::Status> {
        let (api, cut) = self.now();
        Ok(Box::pin(api.watch(request).await?.take_until(cut.cancelled_owned())))
    }
}

impl<B> Service<Request<B>> for Switchable
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (api, cut) = self.now();
        Box::pin(async move {
            let response = api.oneshot(request).await?;
            let frames = |body| BodyStream::new(body).take_until(cut.cancelled_owned());
            Ok(response.map(|body| Body::new(StreamBody::new(frames(body)))))
        })
    }
}
