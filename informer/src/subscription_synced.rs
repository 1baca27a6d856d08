//! [`SubscriptionSynced`]: tells when one subscriber has handled the first state. Not when the cache has it: that is
//! [`crate::Informer::synced`].

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio_util::sync::CancellationToken;

use crate::Stopped;

/// A handle to wait for one subscriber's sync. Clones wait for the same.
#[derive(Clone, Debug)]
pub struct SubscriptionSynced(Arc<Latch>);

#[derive(Debug, Default)]
struct Latch {
    reached: AtomicBool,
    /// It is decided, one way or the other.
    decided: CancellationToken,
}

impl SubscriptionSynced {
    /// Waits until the subscriber has handled its initial deltas.
    ///
    /// # Errors
    /// When the subscription is dropped before.
    pub async fn wait(&self) -> Result<(), Stopped> {
        self.0.decided.cancelled().await;
        if self.is_synced() { Ok(()) } else { Err(Stopped) }
    }

    /// Whether it has.
    pub fn is_synced(&self) -> bool {
        self.0.reached.load(Ordering::Acquire)
    }
}

/// The subscriber's side.
#[derive(Default)]
pub(crate) struct Gate {
    latch: Arc<Latch>,
    /// Everything of a complete state has been taken.
    caught_up: bool,
}

impl Gate {
    pub(crate) fn synced(&self) -> SubscriptionSynced {
        SubscriptionSynced(self.latch.clone())
    }

    /// The subscriber came, and took what there was, perhaps nothing; `synced` if that leads to a complete state.
    pub(crate) fn took(&mut self, synced: bool, nothing: bool) {
        if (self.caught_up || synced && nothing) && !self.latch.decided.is_cancelled() {
            self.latch.reached.store(true, Ordering::Release);
            self.latch.decided.cancel();
        }
        self.caught_up |= synced;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.latch.decided.cancel();
    }
}
