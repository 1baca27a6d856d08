//! How many requests without credentials one connection may have in flight, and for how long they are answered. Requests
//! with credentials are not counted.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap, HeaderValue, Response};
use http_body::{Frame, SizeHint};
use kstore_access::peer::Peer;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::TOO_MANY;
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// The slots of one connection without a client certificate: an extension of each of its requests.
#[derive(Clone, Debug)]
pub(crate) struct AnonymousSlots(Arc<Semaphore>);

impl AnonymousSlots {
    /// New slots for a connection; `None` if its peer presented a certificate.
    pub(crate) fn of(peer: &Peer) -> Option<Self> {
        let is_unknown = matches!(peer, Peer::Tls { certificate: None, proxy: None, .. });
        is_unknown.then(|| Self(Arc::new(Semaphore::new(limits::ANONYMOUS_IN_FLIGHT))))
    }

    /// Takes a slot for a request of `user` if it needs one; hold it until the answer has been sent.
    ///
    /// # Errors
    /// 429 if [`limits::ANONYMOUS_IN_FLIGHT`] anonymous requests of the connection are in flight.
    pub(crate) fn enter(extensions: &Extensions, user: &UserInfo) -> Result<Option<AnonymousSlot>, Status> {
        match extensions.get() {
            Some(Self(slots)) if user.is_anonymous() => {
                let slot = slots.clone().try_acquire_owned();
                slot.map(|permit| Some(AnonymousSlot { _permit: permit }))
                    .map_err(|_| Status::too_many_requests(TOO_MANY, 1))
            }
            _ => Ok(None),
        }
    }
}

/// The slot of one request without credentials.
#[derive(Debug)]
pub(crate) struct AnonymousSlot {
    _permit: OwnedSemaphorePermit,
}

impl AnonymousSlot {
    /// The response with a body that holds the slot, and ends after [`limits::ANONYMOUS_ANSWER`]: a stream without an end
    /// must not hold its slot without an end.
    pub(crate) fn until_sent(self, response: Response<Body>) -> Response<Body> {
        let grpc = response.headers().get(CONTENT_TYPE);
        let is_grpc = grpc.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
        let end = Box::pin(sleep(limits::ANONYMOUS_ANSWER));
        response.map(|inner| Body::new(AnonymousBody { inner, end, is_grpc, has_ended: false, _slot: self }))
    }
}

/// The body of an answer to a request without credentials.
struct AnonymousBody {
    inner: Body,
    end: Pin<Box<Sleep>>,
    is_grpc: bool,
    has_ended: bool,
    _slot: AnonymousSlot,
}

impl http_body::Body for AnonymousBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame);
        }
        ready!(self.end.as_mut().poll(context));
        self.has_ended = true;
        self.inner = Body::empty();
        Poll::Ready(self.is_grpc.then(|| Ok(Frame::trailers(ended()))))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The trailers of a gRPC call that ends because its time is over.
fn ended() -> HeaderMap {
    let status = HeaderValue::from(tonic::Code::DeadlineExceeded as i32);
    let text = HeaderValue::from_static("calls without credentials end after a minute");
    HeaderMap::from_iter([
        (http::HeaderName::from_static("grpc-status"), status),
        (http::HeaderName::from_static("grpc-message"), text),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn an_endless_answer_without_credentials_holds_its_slot_and_ends_after_a_minute() {
        let peer = Peer::tls(None, "127.0.0.1:1".parse().unwrap());
        let mut extensions = Extensions::new();
        extensions.insert(AnonymousSlots::of(&peer).unwrap());
        let enter = || AnonymousSlots::enter(&extensions, &UserInfo::anonymous());
        let watch = |media: &'static str| {
            let body = Body::from_stream(futures::stream::pending::<Result<Bytes, axum::Error>>());
            let response = Response::builder().header(CONTENT_TYPE, media).body(body).unwrap();
            enter().unwrap().unwrap().until_sent(response).into_body()
        };
        let mut streams: Vec<_> =
            (0..limits::ANONYMOUS_IN_FLIGHT).map(|_| watch("application/grpc+proto")).collect();
        assert_eq!(enter().unwrap_err().code, 429);
        let began = Instant::now();
        let last = streams.remove(0).collect().await.unwrap();
        assert_eq!(began.elapsed(), limits::ANONYMOUS_ANSWER);
        assert_eq!(last.trailers().unwrap()["grpc-status"], "4");
        assert!(enter().unwrap().is_some());
        assert!(watch("application/json").collect().await.unwrap().trailers().is_none());
    }

    #[test]
    fn anonymous_requests_in_flight_are_bounded_per_connection() {
        let peer = Peer::tls(None, "127.0.0.1:1".parse().unwrap());
        let mut extensions = Extensions::new();
        extensions.insert(AnonymousSlots::of(&peer).unwrap());
        let (anonymous, ann) = (UserInfo::anonymous(), UserInfo::new("ann", [""; 0]));
        let slots: Vec<_> = (0..limits::ANONYMOUS_IN_FLIGHT)
            .map(|_| AnonymousSlots::enter(&extensions, &anonymous).unwrap())
            .collect();
        assert_eq!(AnonymousSlots::enter(&extensions, &anonymous).unwrap_err().code, 429);
        assert!(AnonymousSlots::enter(&extensions, &ann).unwrap().is_none());
        drop(slots);
        assert!(AnonymousSlots::enter(&extensions, &anonymous).unwrap().is_some());
    }
}
