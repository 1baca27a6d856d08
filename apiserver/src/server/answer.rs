//! [`AnswerBody`]: the body of an answer on a connection. Large answers are passed on in pieces that tell when they were
//! sent. What clients have not taken counts against a budget of their users, and an answer of which the client takes
//! nothing is found by its [`AnswerProgress`].

use super::activity::InFlight;
use crate::answer_kind::AnswerKind;
use crate::limits;
use crate::memory_shares::{MemoryShare, Reserved};
use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Response};
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// Bytes of one piece of a large answer, by which progress is noticed: one of HTTP/2's frames.
const PIECE: usize = 16 * 1024;

/// How much of an answer its client has taken. Shared by the answer's body, its unsent pieces, and its stream.
pub(super) struct AnswerProgress {
    in_flight: InFlight,
    untaken: Mutex<Untaken>,
}

#[derive(Default)]
struct Untaken {
    /// Bytes of large pieces that the connection has and has not sent.
    bytes: usize,
    /// Whether the connection has a small frame that it may have sent or not.
    has_frame: bool,
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

    fn change(&self, change: impl FnOnce(&mut Untaken)) {
        let mut untaken = self.untaken.lock();
        let was_waiting = untaken.since.is_some();
        change(&mut untaken);
        let waits = untaken.bytes > 0 || untaken.has_frame;
        match (was_waiting, waits) {
            (false, true) => self.in_flight.waits_for_client(),
            (true, true) => self.in_flight.was_taken(),
            (true, false) => self.in_flight.waits_for_server(),
            (false, false) => {}
        }
        untaken.since = waits.then(Instant::now);
    }

    /// The body is asked for its next frame: the connection has done with the one before.
    fn asked(&self) {
        if self.untaken.lock().has_frame {
            self.change(|untaken| untaken.has_frame = false);
        }
    }

    fn sent(&self, bytes: usize) {
        let mut waker = None;
        self.change(|untaken| {
            untaken.bytes -= bytes;
            waker = untaken.waker.take();
        });
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

    fn has_unsent(&self) -> bool {
        self.untaken.lock().bytes > 0
    }
}

/// A piece of a large answer; the connection drops it when it has sent it.
struct UnsentPiece {
    bytes: Bytes,
    progress: Arc<AnswerProgress>,
    _memory: Option<Arc<Reserved>>,
}

impl AsRef<[u8]> for UnsentPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for UnsentPiece {
    fn drop(&mut self) {
        self.progress.sent(self.bytes.len());
    }
}

/// The body of an answer. The request is in flight until the body and all its pieces are dropped.
pub(super) struct AnswerBody {
    inner: Body,
    share: MemoryShare,
    kind: Option<AnswerKind>,
    /// The reservation of an answer that is in memory as a whole.
    whole: Option<Arc<Reserved>>,
    progress: Arc<AnswerProgress>,
    /// A large frame that waits for memory.
    waiting: Option<(Bytes, BoxFuture<'static, Reserved>)>,
    /// The rest of a large frame, and its memory.
    rest: Bytes,
    memory: Option<Arc<Reserved>>,
    trailers: Option<HeaderMap>,
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
            rest: Bytes::new(),
            memory: None,
            trailers: None,
            has_ended: false,
        });
        Ok((response, watched))
    }

    /// Takes a large frame: its pieces are passed on when there is memory for it.
    fn take(&mut self, frame: Bytes) {
        if self.whole.is_some() || self.kind == Some(AnswerKind::Shared) {
            (self.rest, self.memory) = (frame, self.whole.clone());
            return;
        }
        match self.share.try_reserve(frame.len()) {
            Some(reserved) => (self.rest, self.memory) = (frame, Some(Arc::new(reserved))),
            None => {
                let reserving = Box::pin(self.share.clone().reserve(frame.len()));
                self.waiting = Some((frame, reserving));
            }
        }
    }

    /// The next piece of the present large frame.
    fn piece(&mut self) -> Frame<Bytes> {
        let bytes = self.rest.split_to(self.rest.len().min(PIECE));
        let memory = match self.rest.is_empty() {
            true => self.memory.take(),
            false => self.memory.clone(),
        };
        self.progress.change(|untaken| untaken.bytes += bytes.len());
        let progress = self.progress.clone();
        Frame::data(Bytes::from_owner(UnsentPiece { bytes, progress, _memory: memory }))
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.progress.asked();
    }
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        this.progress.asked();
        loop {
            // The end waits for everything before it, so that a stream exists until its answer was sent.
            let most = if this.has_ended { 0 } else { limits::UNSENT_AHEAD };
            if this.progress.poll_unsent(most, context).is_pending() {
                return Poll::Pending;
            }
            if this.has_ended {
                return Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            }
            if !this.rest.is_empty() {
                return Poll::Ready(Some(Ok(this.piece())));
            }
            if let Some((frame, mut reserving)) = this.waiting.take() {
                match reserving.as_mut().poll(context) {
                    Poll::Ready(reserved) => (this.rest, this.memory) = (frame, Some(Arc::new(reserved))),
                    Poll::Pending => {
                        this.waiting = Some((frame, reserving));
                        return Poll::Pending;
                    }
                }
                continue;
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
                Ok(data) if data.len() > limits::UNSENT_FROM && this.kind != Some(AnswerKind::Patient) => {
                    this.take(data);
                }
                Ok(data) => {
                    if this.kind != Some(AnswerKind::Patient) {
                        this.progress.change(|untaken| untaken.has_frame = true);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Err(frame) => {
                    this.trailers = frame.into_trailers().ok();
                    this.has_ended = true;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let has_passed_on = self.rest.is_empty() && self.waiting.is_none() && !self.progress.has_unsent();
        has_passed_on && self.trailers.is_none() && (self.has_ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.is_empty() && self.waiting.is_none() {
            true => self.inner.size_hint(),
            false => SizeHint::default(),
        }
    }
}
