//! Reading request bodies within a memory budget that all requests share, and within a time limit. Bodies
//! that no request needs are discarded by `unread_body`.
//!
//! A body counts from the arrival of its bytes until the request has dropped them. Many large bodies at once
//! therefore make later ones wait instead of growing the server's memory.

use crate::limits;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use kstore_api::status::Status;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Bytes reserved for a body without a stated length, at first and each time the reservation is used up.
const RESERVATION_STEP: usize = 64 * 1024;

/// The memory budget of request bodies. Cheap to clone; clones share the budget.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    free: Arc<Semaphore>,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self::new(limits::BODIES_BYTES)
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
    fn new(bytes: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes)) }
    }

    /// Reads the whole body, at most [`limits::BODY_BYTES`]. The returned bytes hold their part of the budget
    /// until they are dropped.
    ///
    /// # Errors
    /// See [`ReadBodyError`]. A body with a stated length waits up to [`limits::BODY_TIME`] for the budget. A
    /// body without one is refused when the budget is used up: it may hold a part of the budget that other
    /// bodies wait for.
    pub(crate) async fn read(&self, mut body: Body) -> Result<Bytes, ReadBodyError> {
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let hint = body.size_hint();
        if hint.lower() > limits::BODY_BYTES as u64 {
            return Err(ReadBodyError::TooLarge);
        }
        let stated = hint.exact().and_then(|bytes| usize::try_from(bytes).ok());
        let deadline = Instant::now() + limits::BODY_TIME;
        let mut reserved = self.reserve(stated.unwrap_or(RESERVATION_STEP), deadline).await?;
        let mut pieces = BodyFrames::default();
        while let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(|_| ReadBodyError::Slow)? {
            let Ok(piece) = frame?.into_data() else { continue };
            if pieces.len + piece.len() > limits::BODY_BYTES {
                return Err(ReadBodyError::TooLarge);
            }
            pieces.push(piece);
            if let Some(missing) = pieces.len.checked_sub(reserved.num_permits()).filter(|bytes| *bytes > 0) {
                reserved.merge(self.try_reserve(missing.max(RESERVATION_STEP))?);
            }
        }
        Ok(Bytes::from_owner(BudgetedBytes { bytes: pieces.join(), _reserved: reserved }))
    }

    async fn reserve(&self, bytes: usize, deadline: Instant) -> Result<OwnedSemaphorePermit, ReadBodyError> {
        let reserved = timeout_at(deadline, self.free.clone().acquire_many_owned(permits(bytes))).await;
        reserved.ok().and_then(Result::ok).ok_or(ReadBodyError::Busy)
    }

    /// Reserves a part of the budget if it is free now.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ReadBodyError> {
        self.free.clone().try_acquire_many_owned(permits(bytes)).map_err(|_| ReadBodyError::Busy)
    }
}

/// Converts bytes to semaphore permits. A reservation is at most [`limits::BODY_BYTES`] or a step, so this
/// never saturates.
fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
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
    _reserved: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use std::convert::Infallible;
    use std::time::Duration;

    fn pieces(pieces: Vec<Bytes>) -> Body {
        Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, Infallible>)))
    }

    #[tokio::test]
    async fn a_body_holds_its_budget_until_it_is_dropped() {
        let budget = BodyBudget::new(3 * RESERVATION_STEP);
        let body = pieces(vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"cd")]);
        let read = budget.read(body).await.unwrap();
        assert_eq!(read, "abcd");
        assert_eq!(budget.free.available_permits(), 2 * RESERVATION_STEP);
        drop(read);
        assert_eq!(budget.free.available_permits(), 3 * RESERVATION_STEP);
        assert_eq!(budget.read(Body::from("stated")).await.unwrap(), "stated");
        assert_eq!(budget.read(Body::empty()).await.unwrap(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_times_out_releases_its_budget() {
        let budget = BodyBudget::new(RESERVATION_STEP);
        let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{"))]);
        let body = Body::from_stream(futures::StreamExt::chain(first, stream::pending()));
        let began = Instant::now();
        assert!(matches!(budget.read(body).await, Err(ReadBodyError::Slow)));
        assert_eq!(began.elapsed(), limits::BODY_TIME);
        assert_eq!(budget.free.available_permits(), RESERVATION_STEP);
    }

    #[tokio::test(start_paused = true)]
    async fn without_free_budget_sized_bodies_wait_and_unsized_ones_are_refused() {
        let budget = BodyBudget::new(2 * RESERVATION_STEP);
        let held = budget.read(Body::from(vec![b'x'; RESERVATION_STEP + 1])).await.unwrap();
        assert!(matches!(
            budget.read(pieces(vec![vec![b'x'; 2 * RESERVATION_STEP].into()])).await,
            Err(ReadBodyError::Busy)
        ));
        let waiting = budget.read(Body::from(vec![b'y'; RESERVATION_STEP]));
        let leaving = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(held);
        };
        let (read, ()) = tokio::join!(waiting, leaving);
        assert_eq!(read.unwrap().len(), RESERVATION_STEP);
        assert_eq!(budget.free.available_permits(), 2 * RESERVATION_STEP);
    }

    #[tokio::test]
    async fn bodies_beyond_the_limit_are_refused_with_and_without_a_stated_length() {
        let budget = BodyBudget::default();
        let long = Bytes::from(vec![b'x'; limits::BODY_BYTES + 1]);
        assert!(matches!(budget.read(Body::from(long.clone())).await, Err(ReadBodyError::TooLarge)));
        assert!(matches!(budget.read(pieces(vec![long])).await, Err(ReadBodyError::TooLarge)));
        assert_eq!(budget.free.available_permits(), limits::BODIES_BYTES);
    }
}
