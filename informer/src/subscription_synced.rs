//! [`SubscriptionSynced`]: signals that one subscriber has handled the initial state. For the cache itself
//! see [`crate::Informer::synced`].

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio_util::sync::CancellationToken;

use crate::Stopped;

/// A handle to wait for one subscriber's sync. Clones wait for the same event.
#[derive(Clone, Debug)]
pub struct SubscriptionSynced(Arc<SyncLatch>);

#[derive(Debug, Default)]
struct SyncLatch {
    reached: AtomicBool,
    /// Cancelled when the sync is reached or can no longer be.
    is_decided: CancellationToken,
}

impl SubscriptionSynced {
    /// Waits until the subscriber has handled its initial deltas.
    ///
    /// # Errors
    /// When the subscription is dropped before.
    pub async fn wait(&self) -> Result<(), Stopped> {
        self.0.is_decided.cancelled().await;
        if self.is_synced() { Ok(()) } else { Err(Stopped) }
    }

    /// Whether the subscriber has handled its initial deltas.
    pub fn is_synced(&self) -> bool {
        self.0.reached.load(Ordering::Acquire)
    }
}

/// The subscriber's side of a [`SubscriptionSynced`].
#[derive(Default)]
pub(crate) struct SyncTracker {
    latch: Arc<SyncLatch>,
    /// Whether all of a complete state has been taken.
    caught_up: bool,
}

impl SyncTracker {
    pub(crate) fn synced(&self) -> SubscriptionSynced {
        SubscriptionSynced(self.latch.clone())
    }

    /// Records that the subscriber took its pending changes. `synced` tells whether they lead to a complete
    /// state, `nothing` whether there were none.
    pub(crate) fn took(&mut self, synced: bool, nothing: bool) {
        if (self.caught_up || synced && nothing) && !self.latch.is_decided.is_cancelled() {
            self.latch.reached.store(true, Ordering::Release);
            self.latch.is_decided.cancel();
        }
        self.caught_up |= synced;
    }
}

impl Drop for SyncTracker {
    fn drop(&mut self) {
        self.latch.is_decided.cancel();
    }
}
