//! [`ObservedBody`]: a body that forwards another one unchanged, shows each frame to an observer first, and
//! owns a value until it is dropped: the slot of a request in flight, the line of the access log, or
//! counters.

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A response body with an observer and a value that is dropped with it.
pub struct ObservedBody<K, O> {
    inner: Body,
    kept: K,
    observe: O,
}

impl<K, O: FnMut(&mut K, &Frame<Bytes>)> ObservedBody<K, O> {
    /// Wraps `inner`; `observe` is called with `kept` for each frame, before the client receives it.
    pub fn new(inner: Body, kept: K, observe: O) -> Self {
        Self { inner, kept, observe }
    }
}

/// An observer that does nothing, for bodies that only own a value.
pub fn ignore<K>(_: &mut K, _: &Frame<Bytes>) {}

impl<K: Unpin, O: FnMut(&mut K, &Frame<Bytes>) + Unpin> http_body::Body for ObservedBody<K, O> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Self { inner, kept, observe } = &mut *self;
        let polled = Pin::new(inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            observe(kept, frame);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use std::sync::Arc;

    #[tokio::test]
    async fn frames_pass_unchanged_and_the_kept_value_is_dropped_with_the_body() {
        let kept = Arc::new(());
        let chunks = ["ab", "", "c"].map(|chunk| Ok::<_, axum::Error>(Bytes::from_static(chunk.as_bytes())));
        let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let (observed, value) = (seen.clone(), kept.clone());
        let body = Body::from_stream(futures::stream::iter(chunks));
        let observe = move |_: &mut Arc<()>, frame: &Frame<Bytes>| {
            observed.lock().extend(frame.data_ref().cloned());
        };
        let mut body = Body::new(ObservedBody::new(body, value, observe)).into_data_stream();
        assert_eq!(Arc::strong_count(&kept), 2);
        let mut passed = Vec::new();
        while let Some(chunk) = body.next().await {
            passed.push(chunk.unwrap());
        }
        assert_eq!((passed.concat(), seen.lock().concat()), (b"abc".to_vec(), b"abc".to_vec()));
        drop(body);
        assert_eq!(Arc::strong_count(&kept), 1);
        let sized = Body::new(ObservedBody::new(Body::from("abc"), (), ignore));
        assert_eq!(http_body::Body::size_hint(&sized).exact(), Some(3));
    }
}
