//! [`AnswerBody`]: the body of an answer on a connection. Its frames tell when their bytes were sent. What clients have not
//! taken counts against a budget of their users, and an answer of which the client takes nothing is found by its
//! [`AnswerProgress`].

use super::activity::InFlight;
use crate::answer_kind::AnswerKind;
use crate::memory_shares::{MemoryShare, Reserved};
use axum::body::Body;
use bytes::{Buf, Bytes};
use futures::future::BoxFuture;
use http::{HeaderMap, Response};
use http_body::{Body as _, Frame, SizeHint};
use kstore_storage::limits;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// How much of an answer its client has taken. Shared by the answer's body, its unsent frames, and its stream.
pub(super) struct AnswerProgress {
    in_flight: InFlight,
    untaken: Mutex<Untaken>,
}

#[derive(Default)]
struct Untaken {
    /// Bytes that the connection has and has not sent.
    bytes: usize,
    /// The time since which the client takes nothing of what there is; `None` if it has taken everything.
    since: Option<Instant>,
    /// The task of the body, if it waits until bytes are sent.
    waker: Option<Waker>,
}

impl AnswerProgress {
    fn new(in_flight: InFlight) -> Arc<Self> {
        Arc::new(Self { in_flight, untaken: Mutex::default() })
    }

    /// The time since which the client takes nothing, although there is something to take.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.untaken.lock().since
    }

    /// The connection gets bytes to send.
    fn passed_on(&self, bytes: usize) {
        let mut untaken = self.untaken.lock();
        if bytes > 0 && untaken.bytes == 0 {
            self.in_flight.waits_for_client();
            untaken.since = Some(Instant::now());
        }
        untaken.bytes += bytes;
    }

    /// The connection has sent bytes, or dropped them.
    fn sent(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut untaken = self.untaken.lock();
        untaken.bytes -= bytes;
        if untaken.bytes == 0 {
            self.in_flight.waits_for_server();
            untaken.since = None;
        } else {
            self.in_flight.was_taken();
            untaken.since = Some(Instant::now());
        }
        let waker = untaken.waker.take();
        drop(untaken);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether at most `bytes` are unsent. If not, the task is woken when some were sent.
    fn poll_unsent(&self, bytes: usize, context: &Context<'_>) -> Poll<()> {
        let mut untaken = self.untaken.lock();
        if untaken.bytes <= bytes {
            return Poll::Ready(());
        }
        untaken.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn unsent(&self) -> usize {
        self.untaken.lock().bytes
    }
}

/// The bytes of a frame. The connection takes them from it as it sends them.
pub(super) struct AnswerBytes {
    bytes: Bytes,
    /// `None` for an answer that may pause.
    progress: Option<Arc<AnswerProgress>>,
    _memory: Option<Arc<Reserved>>,
}

impl Buf for AnswerBytes {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
        if let Some(progress) = &self.progress {
            progress.sent(bytes);
        }
    }
}

impl Drop for AnswerBytes {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress {
            progress.sent(self.bytes.len());
        }
    }
}

/// The body of an answer. The request is in flight until the body and all its bytes are dropped.
pub(super) struct AnswerBody {
    inner: Body,
    share: MemoryShare,
    kind: Option<AnswerKind>,
    /// The reservation of an answer that is in memory as a whole.
    whole: Option<Arc<Reserved>>,
    progress: Arc<AnswerProgress>,
    /// A large frame that waits for memory.
    waiting: Option<(Bytes, BoxFuture<'static, Reserved>)>,
    trailers: Option<HeaderMap>,
    /// Whether the end waits until everything before it was sent, so that the stream exists until then.
    is_large: bool,
    has_ended: bool,
}

/// The answer of a user with too many unsent bytes was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes of answers to this user wait to be taken")]
pub(super) struct TooManyUnsent;

impl AnswerBody {
    /// Wraps an answer. Returns the way to follow its progress as well.
    ///
    /// # Errors
    /// The answer is in memory as a whole, and the budget of its user is used up.
    pub(super) fn wrap(
        response: Response<Body>,
        share: MemoryShare,
        in_flight: InFlight,
    ) -> Result<(Response<Self>, Arc<AnswerProgress>), (TooManyUnsent, InFlight)> {
        let kind = response.extensions().get::<AnswerKind>().copied();
        let size = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let whole = match (kind, size) {
            (None, Some(bytes)) if bytes > limits::UNSENT_FROM => match share.try_reserve(bytes) {
                Some(reserved) => Some(Arc::new(reserved)),
                None => return Err((TooManyUnsent, in_flight)),
            },
            _ => None,
        };
        let progress = AnswerProgress::new(in_flight);
        let watched = progress.clone();
        let response = response.map(|inner| Self {
            inner,
            share,
            kind,
            whole,
            progress,
            waiting: None,
            trailers: None,
            is_large: false,
            has_ended: false,
        });
        Ok((response, watched))
    }

    /// The frame of data whose memory is reserved, if it must be.
    fn frame(&self, bytes: Bytes, memory: Option<Arc<Reserved>>) -> Frame<AnswerBytes> {
        let progress = (self.kind != Some(AnswerKind::Patient)).then(|| self.progress.clone());
        if let Some(progress) = &progress {
            progress.passed_on(bytes.len());
        }
        Frame::data(AnswerBytes { bytes, progress, _memory: memory })
    }

    /// Reserves memory for data, unless it is small, paused by its own flow control, or reserved already. If the memory is not
    /// free, the data waits for it.
    fn reserve(&mut self, bytes: Bytes) -> Option<Frame<AnswerBytes>> {
        self.is_large |= bytes.len() > limits::UNSENT_FROM;
        let has_memory =
            self.whole.is_some() || matches!(self.kind, Some(AnswerKind::Shared | AnswerKind::Patient));
        if has_memory || bytes.len() <= limits::UNSENT_FROM {
            return Some(self.frame(bytes, self.whole.clone()));
        }
        if let Some(reserved) = self.share.try_reserve(bytes.len()) {
            return Some(self.frame(bytes, Some(Arc::new(reserved))));
        }
        let reserving = Box::pin(self.share.clone().reserve(bytes.len()));
        self.waiting = Some((bytes, reserving));
        None
    }
}

impl http_body::Body for AnswerBody {
    type Data = AnswerBytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerBytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            let most = match (this.has_ended, this.is_large) {
                (false, _) => limits::UNSENT_AHEAD,
                (true, true) => 0,
                (true, false) => usize::MAX,
            };
            if this.progress.poll_unsent(most, context).is_pending() {
                return Poll::Pending;
            }
            if this.has_ended {
                return Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            }
            if let Some((bytes, mut reserving)) = this.waiting.take() {
                return match reserving.as_mut().poll(context) {
                    Poll::Ready(reserved) => {
                        Poll::Ready(Some(Ok(this.frame(bytes, Some(Arc::new(reserved))))))
                    }
                    Poll::Pending => {
                        this.waiting = Some((bytes, reserving));
                        Poll::Pending
                    }
                };
            }
            let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
                return Poll::Pending;
            };
            let frame = match frame {
                None => {
                    this.has_ended = true;
                    continue;
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => frame,
            };
            match frame.into_data() {
                Ok(bytes) => {
                    if let Some(frame) = this.reserve(bytes) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                Err(frame) => {
                    this.trailers = frame.into_trailers().ok();
                    this.has_ended = true;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_sent = self.waiting.is_none() && (!self.is_large || self.progress.unsent() == 0);
        is_sent && self.trailers.is_none() && (self.has_ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self.waiting {
            None => self.inner.size_hint(),
            Some(_) => SizeHint::default(),
        }
    }
}
