//! [`DiscardingBody`]: discards the rest of request bodies that are answered before they are read, so that
//! the connection stays usable. `body_budget` reads bodies that a request needs.
//!
//! An early answer (404, 403, 415, …) leaves data in transit. Over HTTP/2 the server library resets the
//! stream and counts each frame that still arrives for it against the client. At 1,024 of them it closes the
//! connection with all its watches, although the client did nothing wrong. Over HTTP/1.1 it closes the
//! connection at once. Go's server discards the rest as well.

use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use kstore_storage::limits;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio_util::sync::CancellationToken;

/// A request body whose unread rest is discarded in the background on drop, up to
/// [`limits::UNREAD_BODY_BYTES`] and for [`limits::UNREAD_BODY_TIME`].
pub(crate) struct DiscardingBody<B: Body<Data = Bytes> + Unpin + Send + 'static> {
    /// `None` after the body was read to its end, or failed.
    body: Option<B>,
    /// Whether the rest may be read: a client that waits for "100 Continue" sends nothing that could be
    /// discarded.
    discards: bool,
    stop: CancellationToken,
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> DiscardingBody<B> {
    /// Wraps the body of a request with these headers. `stop` ends the discarding, so that a stopping server
    /// waits for no client.
    pub(crate) fn new(headers: &HeaderMap, body: B, stop: CancellationToken) -> Self {
        Self { body: Some(body), discards: !headers.contains_key(EXPECT), stop }
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Body for DiscardingBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Drop for DiscardingBody<B> {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        let too_long = body.size_hint().lower() > limits::UNREAD_BODY_BYTES as u64;
        if !self.discards || too_long || body.is_end_stream() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(discard(body, self.stop.clone()));
        }
    }
}

/// Reads until the end of the body, an error, or a bound.
async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B, stop: CancellationToken) {
    let reading = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > limits::UNREAD_BODY_BYTES {
                break;
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        _ = tokio::time::timeout(limits::UNREAD_BODY_TIME, reading) => {}
    }
}

#[cfg(test)]
mod tests;
