//! Flow control of one direction of a stream, on its sending and on its receiving side: the rule is in the proto file.

use crate::limits::{STREAM_FRAME_COST, STREAM_WINDOW};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// What a message with so many bytes of data costs.
pub(super) fn cost(bytes: usize) -> usize {
    bytes + STREAM_FRAME_COST
}

/// The sending side.
pub(super) struct Allowance(Semaphore);

impl Allowance {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(STREAM_WINDOW))
    }

    /// Waits until so much may be sent. False if the stream has ended.
    pub(super) async fn take(&self, cost: usize) -> bool {
        let cost = u32::try_from(cost).expect("a message is smaller than the window");
        match self.0.acquire_many(cost).await {
            Ok(permits) => {
                permits.forget();
                true
            }
            Err(_) => false,
        }
    }

    /// The receiver grants this much. False if it was never taken.
    pub(super) fn grant(&self, bytes: usize) -> bool {
        let fits = self.0.available_permits().saturating_add(bytes) <= STREAM_WINDOW;
        if fits {
            self.0.add_permits(bytes);
        }
        fits
    }

    /// Nobody may send any more.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

/// The receiving side: how far the sender may still go.
pub(super) struct Room(AtomicUsize);

impl Room {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(STREAM_WINDOW))
    }

    /// Something of this cost has come. False if the sender was not allowed to.
    pub(super) fn fill(&self, cost: usize) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |room| room.checked_sub(cost)).is_ok()
    }

    /// This much is granted back.
    pub(super) fn clear(&self, cost: usize) {
        self.0.fetch_add(cost, Ordering::AcqRel);
    }
}
