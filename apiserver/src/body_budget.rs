//! Reading request bodies within a memory budget, of which each user has a share, and within a time limit. Bodies
//! that no request needs are discarded by `unread_body`.
//!
//! A body counts from the arrival of its bytes until the request has dropped them; what a client only announces is not
//! reserved. Many large bodies of a user at once therefore make its later ones wait instead of growing the server's memory.

use crate::memory_shares::{MemoryBudget, MemoryShare, Reserved, SpareLock};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use kstore_api::status::Status;
use kstore_storage::limits;
use tokio::time::{Instant, timeout_at};

/// Bytes reserved at a time, as the bytes of a body arrive.
const RESERVATION_STEP: usize = 64 * 1024;

/// The memory budget of request bodies, and of requests whose bodies arrive slowly. Cheap to clone; clones share the budgets.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget(MemoryBudget, MemoryBudget);

impl Default for BodyBudget {
    fn default() -> Self {
        let bytes =
            MemoryBudget::new(limits::BODIES_BYTES, limits::BODIES_BYTES_OF_USER, limits::BODIES_SPARE_BYTES);
        Self(bytes, MemoryBudget::new(limits::SLOW_BODIES_BYTES, limits::SLOW_BODIES_BYTES_OF_USER, 0))
    }
}

/// A request body could not be read: the reason.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadBodyError {
    #[error("limit is {}", limits::BODY_BYTES)]
    TooLarge,
    #[error("the request body did not arrive within {} s", limits::BODY_TIME.as_secs())]
    Slow,
    #[error("too many request bodies are being read")]
    Busy,
    #[error("the request body could not be read: {0}")]
    Broken(#[from] axum::Error),
}

impl From<ReadBodyError> for Status {
    fn from(error: ReadBodyError) -> Self {
        let text = error.to_string();
        match error {
            ReadBodyError::TooLarge => Self::too_large(&text),
            ReadBodyError::Slow => Self::timeout(&text, 1),
            ReadBodyError::Busy => Self::too_many_requests(&text, 1),
            ReadBodyError::Broken(_) => Self::bad_request(text),
        }
    }
}

impl BodyBudget {
    /// Reads the whole body of a user's request, at most [`limits::BODY_BYTES`]. The returned bytes hold their part of the
    /// budget until they are dropped.
    ///
    /// # Errors
    /// See [`ReadBodyError`]. A body waits up to [`limits::BODY_TIME`] for the budget.
    pub(crate) async fn read(&self, user: &str, mut body: Body) -> Result<Bytes, ReadBodyError> {
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let hint = body.size_hint();
        if hint.lower() > limits::BODY_BYTES as u64 {
            return Err(ReadBodyError::TooLarge);
        }
        let stated = hint.exact().and_then(|bytes| usize::try_from(bytes).ok());
        let deadline = Instant::now() + limits::BODY_TIME;
        let mut memory = BodyMemory::new(self.share(user), stated, deadline);
        let mut pieces = BodyFrames::default();
        while let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(|_| ReadBodyError::Slow)? {
            let Ok(piece) = frame?.into_data() else { continue };
            if pieces.len + piece.len() > limits::BODY_BYTES {
                return Err(ReadBodyError::TooLarge);
            }
            pieces.push(piece);
            memory.cover(pieces.len).await?;
        }
        Ok(Bytes::from_owner(BudgetedBytes { bytes: pieces.join(), _reserved: memory.reserved }))
    }

    /// The share of a user.
    pub(crate) fn share(&self, user: &str) -> MemoryShare {
        self.0.share(user)
    }

    /// The share of a user for requests whose bodies arrive slowly: each holds [`limits::SLOW_BODY_BYTES`] besides its body.
    pub(crate) fn slow_share(&self, user: &str) -> MemoryShare {
        self.1.share(user)
    }
}

/// The memory of a body that is being read.
struct BodyMemory {
    share: MemoryShare,
    reserved: Reserved,
    /// Bytes of the whole body as far as they are known, else the largest size.
    most: usize,
    deadline: Instant,
    spare_lock: Option<SpareLock>,
}

impl BodyMemory {
    fn new(share: MemoryShare, stated: Option<usize>, deadline: Instant) -> Self {
        let most = stated.unwrap_or(limits::BODY_BYTES);
        Self { reserved: share.nothing(), share, most, deadline, spare_lock: None }
    }

    /// Reserves so many bytes that `arrived` are covered.
    ///
    /// Bodies that hold parts of the budget must not wait for each other. If the budget is used up, one body of each user
    /// therefore gets all that it may still need from the spare bytes, and the user's next body goes on after it.
    async fn cover(&mut self, arrived: usize) -> Result<(), ReadBodyError> {
        let Some(missing) = arrived.checked_sub(self.reserved.bytes()).filter(|missing| *missing > 0) else {
            return Ok(());
        };
        let wanted = missing.max(RESERVATION_STEP.min(self.most.saturating_sub(self.reserved.bytes())));
        let more = match self.share.try_reserve(wanted) {
            Some(more) => more,
            None => timeout_at(self.deadline, self.wait(wanted)).await.map_err(|_| ReadBodyError::Busy)?,
        };
        self.reserved.merge(more);
        Ok(())
    }

    async fn wait(&mut self, wanted: usize) -> Reserved {
        let spare_lock = self.share.spare_lock().await;
        // Others may have ended meanwhile.
        if let Some(more) = self.share.try_reserve(wanted) {
            return more;
        }
        let rest = wanted.max(self.most.saturating_sub(self.reserved.bytes()));
        let spare = self.share.spare(rest, &spare_lock).await;
        self.spare_lock = Some(spare_lock);
        spare
    }
}

/// The frames of a body in order of arrival.
#[derive(Default)]
struct BodyFrames {
    first: Bytes,
    rest: BytesMut,
    len: usize,
}

impl BodyFrames {
    fn push(&mut self, piece: Bytes) {
        self.len += piece.len();
        if self.first.is_empty() {
            self.first = piece;
        } else {
            if self.rest.is_empty() {
                self.rest.extend_from_slice(&self.first);
            }
            self.rest.extend_from_slice(&piece);
        }
    }

    /// Joins the frames; a single frame is not copied.
    fn join(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}

/// Body bytes that hold their part of the budget.
struct BudgetedBytes {
    bytes: Bytes,
    _reserved: Reserved,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt as _, StreamExt as _, stream};
    use std::convert::Infallible;
    use std::time::Duration;

    fn pieces(pieces: Vec<Bytes>) -> Body {
        Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, Infallible>)))
    }

    /// A budget of this many steps, of which a user may occupy `share`, with spare bytes for one large body.
    fn budget(steps: usize, share: usize) -> BodyBudget {
        let step = RESERVATION_STEP;
        let bytes = MemoryBudget::new(steps * step, share * step, limits::BODY_BYTES);
        BodyBudget(bytes, BodyBudget::default().1)
    }

    /// A body that announces its length and sends only its first bytes.
    fn announced(bytes: u64, sent: &'static [u8]) -> Body {
        let first = stream::iter([Ok::<_, Infallible>(http_body::Frame::data(Bytes::from_static(sent)))]);
        let frames = first.chain(stream::pending());
        Body::new(Announced { frames: http_body_util::StreamBody::new(Box::pin(frames)), bytes })
    }

    struct Announced<B> {
        frames: B,
        bytes: u64,
    }

    impl<B: http_body::Body + Unpin> http_body::Body for Announced<B> {
        type Data = B::Data;
        type Error = B::Error;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<B::Data>, B::Error>>> {
            std::pin::Pin::new(&mut self.frames).poll_frame(context)
        }

        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(self.bytes)
        }
    }

    #[tokio::test]
    async fn a_body_holds_its_budget_until_it_is_dropped() {
        let budget = budget(3, 3);
        let body = pieces(vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"cd")]);
        let read = budget.read("ann", body).await.unwrap();
        assert_eq!(read, "abcd");
        assert_eq!(budget.0.free(), 2 * RESERVATION_STEP);
        drop(read);
        assert_eq!(budget.0.free(), 3 * RESERVATION_STEP);
        assert_eq!(budget.read("ann", Body::from("stated")).await.unwrap(), "stated");
        assert_eq!(budget.read("ann", Body::empty()).await.unwrap(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn an_announced_length_reserves_nothing_and_a_body_that_times_out_releases_its_budget() {
        let budget = budget(3, 3);
        let stalled: Vec<_> = (0..45).map(|_| announced(limits::BODY_BYTES as u64, b"")).collect();
        let mut reading: Vec<_> =
            stalled.into_iter().map(|body| Box::pin(budget.read("eve", body))).collect();
        reading.iter_mut().for_each(|read| assert!(read.now_or_never().is_none()));
        assert_eq!(budget.0.free(), 3 * RESERVATION_STEP);
        let began = Instant::now();
        assert!(matches!(budget.read("eve", announced(9, b"{")).await, Err(ReadBodyError::Slow)));
        assert_eq!(began.elapsed(), limits::BODY_TIME);
        assert_eq!(budget.0.free(), 3 * RESERVATION_STEP);
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_that_fills_its_share_delays_its_own_bodies_and_not_those_of_others() {
        let budget = budget(4, 2);
        let full = || Body::from(vec![b'x'; 2 * RESERVATION_STEP]);
        let bodies = (budget.read("eve", full()).await.unwrap(), budget.read("mal", full()).await.unwrap());
        assert_eq!(budget.0.free(), 0);
        let ann = budget.read("ann", full()).now_or_never().expect("no wait").unwrap();
        assert_eq!(ann.len(), 2 * RESERVATION_STEP);
        drop(ann);
        // The third body of a user waits for the second, which reads within the spare bytes.
        let mut second = Box::pin(budget.read("eve", announced(limits::BODY_BYTES as u64, b"{")));
        assert!((&mut second).now_or_never().is_none());
        let mut third = Box::pin(budget.read("eve", Body::from("{}")));
        assert!((&mut third).now_or_never().is_none());
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(second);
        assert_eq!(third.await.unwrap(), "{}");
        drop(bodies);
        assert_eq!(budget.0.free(), 4 * RESERVATION_STEP);
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_of_one_user_that_exceed_its_share_together_are_all_read() {
        let budget = budget(8, 4);
        let piece = || Ok::<_, Infallible>(Bytes::from(vec![b'x'; RESERVATION_STEP]));
        let arriving = || stream::repeat_with(piece).take(4);
        let body = || Body::from_stream(arriving().then(|piece| tokio::task::yield_now().map(|()| piece)));
        let read = |_| async { budget.read("ann", body()).await.map(|read| read.len()) };
        let all = futures::future::join_all((0..20).map(read)).await;
        assert!(all.iter().all(|read| matches!(read, Ok(len) if *len == 4 * RESERVATION_STEP)), "{all:?}");
    }

    #[tokio::test]
    async fn bodies_beyond_the_limit_are_refused_with_and_without_a_stated_length() {
        let budget = BodyBudget::default();
        let long = Bytes::from(vec![b'x'; limits::BODY_BYTES + 1]);
        let stated = budget.read("ann", Body::from(long.clone())).await;
        assert!(matches!(stated, Err(ReadBodyError::TooLarge)));
        assert!(matches!(budget.read("ann", pieces(vec![long])).await, Err(ReadBodyError::TooLarge)));
        assert_eq!(budget.0.free(), limits::BODIES_BYTES);
    }
}
