//! Flow control of one direction of a stream, for its sender and for its receiver. The proto file has the
//! rules.

use kstore_storage::limits::{STREAM_FRAME_COST, STREAM_WINDOW};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// The cost of a message with this many bytes of data.
pub(super) fn cost(bytes: usize) -> usize {
    bytes + STREAM_FRAME_COST
}

/// The credit of a sender.
pub(super) struct SendCredit(Semaphore);

impl SendCredit {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(STREAM_WINDOW))
    }

    /// Waits for credit and takes it. Returns false if the stream has ended.
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

    /// Adds credit that the receiver granted. Returns false if that is more than was taken.
    pub(super) fn grant(&self, bytes: usize) -> bool {
        let fits = self.0.available_permits().saturating_add(bytes) <= STREAM_WINDOW;
        if fits {
            self.0.add_permits(bytes);
        }
        fits
    }

    /// Ends the stream: all waiting and later calls of [`Self::take`] return false.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

/// The credit that a receiver has granted and the sender has not used.
pub(super) struct ReceiveWindow(AtomicUsize);

impl ReceiveWindow {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(STREAM_WINDOW))
    }

    /// Takes the cost of a received message. Returns false if the sender had no credit for it.
    pub(super) fn fill(&self, cost: usize) -> bool {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |window_left| window_left.checked_sub(cost))
            .is_ok()
    }

    /// Records credit that is granted back.
    pub(super) fn clear(&self, cost: usize) {
        self.0.fetch_add(cost, Ordering::AcqRel);
    }
}
