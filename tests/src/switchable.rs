//! [`Line`]: the way to an apiserver in this process, as a connection that can break and be made again to another one.

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

/// Cheap to clone; clones are the same line. A tower service like the door that it leads to.
#[derive(Clone)]
pub struct Line(Arc<Mutex<(InProcess, CancellationToken)>>);

impl Line {
    /// A line to this door.
    pub fn new(door: InProcess) -> Self {
        Self(Arc::new(Mutex::new((door, CancellationToken::new()))))
    }

    /// Ends every answer that is under way in its middle.
    pub fn cut(&self) {
        let mut line = self.0.lock().expect("nobody panics with it");
        std::mem::take(&mut line.1).cancel();
    }

    /// Leads to another door from now on. Answers under way go on.
    pub fn switch(&self, door: InProcess) {
        self.0.lock().expect("nobody panics with it").0 = door;
    }

    fn now(&self) -> (InProcess, CancellationToken) {
        self.0.lock().expect("nobody panics with it").clone()
    }

    /// The door's watch without a wire, which breaks with the line.
    ///
    /// # Errors
    /// The door's.
    pub async fn watch(
        self,
        request: tonic::Request<pb::WatchRequest>,
    ) -> Result<WatchBatches, tonic::Status> {
        let (door, cut) = self.now();
        Ok(Box::pin(door.watch(request).await?.take_until(cut.cancelled_owned())))
    }
}

impl<B> Service<Request<B>> for Line
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
        let (door, cut) = self.now();
        Box::pin(async move {
            let response = door.oneshot(request).await?;
            let frames = |body| BodyStream::new(body).take_until(cut.cancelled_owned());
            Ok(response.map(|body| Body::new(StreamBody::new(frames(body)))))
        })
    }
}
