//! The bridge for requests that are not answered on the connection's task: each runs in its own task through the
//! router. The request body enters through [`Bridge`], and the response comes back as [`ResponsePart`]s, bounded by what the
//! client takes.

use super::stream::{ResponseEnd, ResponsePart};
use crate::budget::{BodyPermits, ConnectionBudget, StreamBudget};
use crate::limits::{ANSWER_BYTES, CHUNK_BYTES, LEASE_LIST_BYTES, PIECE_BYTES, REQUEST_TIME, STREAM_WINDOW};
use crate::service::Service;
use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use kstore_proto::MessageBoundary;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// The budget that is reserved for a part of a response before it is made, for calls whose responses may be large: those that tasks make
/// in parts, and lists that are one message. None for others.
fn reservation(path: &str) -> Option<usize> {
    match path {
        "/etcdserverpb.KV/RangeStream" | "/etcdserverpb.Maintenance/Snapshot" => Some(CHUNK_BYTES),
        "/etcdserverpb.Lease/LeaseLeases" | "/etcdserverpb.Lease/LeaseTimeToLive" => Some(LEASE_LIST_BYTES),
        _ => None,
    }
}

/// Channel for the parts of responses, each with its stream id.
pub(super) type PartSender = mpsc::Sender<(u32, ResponsePart)>;

/// Sends the parts of one stream's response to its connection.
pub(super) struct ResponseSender {
    stream: u32,
    parts: PartSender,
}

impl ResponseSender {
    /// The sender for the stream with this number.
    pub(super) fn new(stream: u32, parts: &PartSender) -> Self {
        Self { stream, parts: parts.clone() }
    }

    /// Sends a part, and says whether the connection still exists.
    pub(super) async fn send(&self, part: ResponsePart) -> bool {
        self.parts.send((self.stream, part)).await.is_ok()
    }
}

/// The connection's side of a request. Dropping it cancels the request.
pub(super) struct Bridge {
    body: Option<mpsc::UnboundedSender<Bytes>>,
    /// Bytes of the body that the request's task has not read.
    queued: Arc<AtomicUsize>,
    boundary: MessageBoundary,
    /// Budget for the message that is not complete, and when it began.
    permits: BodyPermits,
    partial_since: Option<Instant>,
    _task: AbortOnDropHandle<()>,
}

/// Error: the client sends faster than the request's task reads, or there is no budget for an incomplete message.
#[derive(Debug)]
pub(super) struct BodyOverflow;

impl Bridge {
    /// Starts a request; it has a body unless it is `complete`.
    pub(super) fn open(
        service: &Service,
        request: Request<()>,
        complete: bool,
        response: ResponseSender,
        budget: StreamBudget,
    ) -> Self {
        let service = service.clone();
        Self::begin(complete, |body| route(service, request.map(|()| body), response, budget))
    }

    /// Starts the task that `answer` creates from the request's body, which is empty if the request is `complete`.
    pub(super) fn begin<F>(complete: bool, answer: impl FnOnce(RequestBody) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Bounded by bytes rather than by messages: `push` refuses bytes beyond the stream's window.
        let (sender, receiver) = mpsc::unbounded_channel();
        let queued = Arc::<AtomicUsize>::default();
        let body = RequestBody { pieces: receiver, queued: queued.clone() };
        let task = AbortOnDropHandle::new(tokio::spawn(answer(body)));
        let (boundary, permits, partial_since) = Default::default();
        Self { body: (!complete).then_some(sender), queued, boundary, permits, partial_since, _task: task }
    }

    /// Passes on a piece of the body, and whether it is the last one.
    pub(super) fn push(
        &mut self,
        piece: Bytes,
        last: bool,
        budget: &ConnectionBudget,
    ) -> Result<(), BodyOverflow> {
        self.boundary.pass(&piece);
        self.hold_partial(budget)?;
        if self.queued.fetch_add(cost(&piece), Relaxed) > STREAM_WINDOW {
            return Err(BodyOverflow);
        }
        if let Some(body) = &self.body
            && !piece.is_empty()
        {
            // The task may respond without reading the whole body.
            let _ = body.send(detached(piece));
        }
        if last {
            self.body = None;
        }
        Ok(())
    }

    /// Acquires budget for the message that is not complete: the request's task holds its bytes until it is.
    fn hold_partial(&mut self, budget: &ConnectionBudget) -> Result<(), BodyOverflow> {
        let partial = self.boundary.partial();
        if partial < self.permits.bytes() {
            self.permits = BodyPermits::default();
        }
        let more = partial - self.permits.bytes();
        if more > 0 && !budget.acquire_body(&mut self.permits, more) {
            return Err(BodyOverflow);
        }
        self.partial_since = match (partial, self.partial_since) {
            (0, _) => None,
            (_, since) => Some(since.unwrap_or_else(Instant::now)),
        };
        Ok(())
    }

    /// Whether a message has been incomplete for too long.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.partial_since.is_some_and(|since| now >= since + REQUEST_TIME)
    }
}

/// Bytes that a queued piece counts: small pieces take more memory than their length.
fn cost(piece: &Bytes) -> usize {
    if piece.is_empty() { 0 } else { piece.len() + PIECE_BYTES }
}

/// Copies a small piece, so that it does not keep the whole read buffer in memory.
fn detached(piece: Bytes) -> Bytes {
    if piece.len() < PIECE_BYTES { Bytes::copy_from_slice(&piece) } else { piece }
}

async fn route(
    service: Service,
    request: Request<RequestBody>,
    response: ResponseSender,
    budget: StreamBudget,
) {
    let part_bytes = reservation(request.uri().path());
    let is_list = part_bytes == Some(LEASE_LIST_BYTES);
    // Budget for the next part, before it is made: many streams whose clients take nothing hold no part each.
    let reserve = async |bytes: Option<usize>| match bytes {
        Some(bytes) => budget.acquire(bytes).await,
        None => Vec::new(),
    };
    let mut reserved = reserve(part_bytes).await;
    let (head, mut body) = service.calls.route(service.router, request).await.into_parts();
    if body.is_end_stream() {
        let end = ResponseEnd::HeadOnly(head.status, head.headers);
        response.send(ResponsePart::ResponseEnd(end)).await;
        return;
    }
    if !response.send(ResponsePart::Head(head.status, head.headers)).await {
        return;
    }
    let room = Arc::new(Semaphore::new(ANSWER_BYTES));
    let mut tail = ResponseEnd::Bare;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { break };
        match frame.into_data() {
            Ok(data) => {
                let mut permits = match part_bytes {
                    Some(_) => budget.fit(reserved, data.len()),
                    None => budget.acquire(data.len()).await,
                };
                let cost = data.len().min(ANSWER_BYTES) as u32;
                permits.extend(room.clone().acquire_many_owned(cost).await.ok());
                if !response.send(ResponsePart::Data(data, permits)).await {
                    return;
                }
                // A list is complete.
                reserved = reserve(part_bytes.filter(|_| !is_list)).await;
            }
            Err(frame) => tail = frame.into_trailers().map_or(ResponseEnd::Bare, ResponseEnd::Trailers),
        }
    }
    drop(reserved);
    response.send(ResponsePart::ResponseEnd(tail)).await;
}

/// The task's side of a request's body.
pub(super) struct RequestBody {
    pieces: mpsc::UnboundedReceiver<Bytes>,
    queued: Arc<AtomicUsize>,
}

impl RequestBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let piece = std::task::ready!(self.pieces.poll_recv(cx));
        self.queued.fetch_sub(piece.as_ref().map_or(0, cost), Relaxed);
        Poll::Ready(piece)
    }

    /// The next piece of the body; none at its end.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.poll(cx).map(|piece| Some(Ok(Frame::data(piece?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::limits::BODY_BYTES;

    #[tokio::test]
    async fn small_body_pieces_count_their_memory() {
        let mut bridge = Bridge::begin(false, |body| async {
            let _unread = body;
            std::future::pending::<()>().await;
        });
        let most = STREAM_WINDOW / PIECE_BYTES + 2;
        let budget = ConnectionBudget::of(Budget::default());
        assert!((0..most).any(|_| bridge.push(Bytes::from_static(b"x"), false, &budget).is_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_messages_count_against_the_budget_and_become_overdue() {
        let budget = ConnectionBudget::of(Budget::default());
        let read_all = |mut body: RequestBody| async move { while body.next().await.is_some() {} };
        let mut bridge = Bridge::begin(false, read_all);
        let mut push = async |bytes: &[u8]| {
            bridge.push(Bytes::copy_from_slice(bytes), false, &budget).unwrap();
            tokio::task::yield_now().await;
            (budget.free_body_bytes(), bridge.is_overdue(Instant::now() + REQUEST_TIME))
        };
        assert_eq!(push(&[0, 0, 0, 0, 9, 1]).await, (BODY_BYTES - 6, true));
        assert_eq!(push(&[2; 7]).await, (BODY_BYTES - 13, true));
        assert_eq!(push(&[3]).await, (BODY_BYTES, false), "the message is complete");
        assert_eq!(push(&[0]).await, (BODY_BYTES - 1, true));
        let mut rest = BodyPermits::default();
        assert!(budget.acquire_body(&mut rest, BODY_BYTES - 1));
        assert!(bridge.push(Bytes::from_static(b"1"), false, &budget).is_err());
    }
}
