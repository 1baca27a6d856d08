//! [`Delivery`]: how a subscription stores changes that its reader has not taken. Every mode is bounded.

use std::num::NonZeroUsize;

/// How a [`crate::Subscription`] stores changes that its reader has not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Merges the changes of each key. Stores at most one entry for each live object and for each deletion
    /// that the reader has not seen. A slow reader delays no other. Suits most readers, which act on the
    /// newest state.
    #[default]
    Coalesce,
    /// Delivers every change, in the order of the source.
    Lossless {
        /// Number of pending changes at which `overflow` applies. The batch that reaches the limit is still
        /// stored whole. Memory is bounded by `capacity` and the changes of one network message, which all
        /// subscriptions share.
        capacity: NonZeroUsize,
        /// Behaviour when `capacity` is reached.
        overflow: Overflow,
    },
}

/// Behaviour of a lossless subscription whose reader is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The informer stops reading its source until the reader catches up. No change is lost, and *all*
    /// readers of this informer wait. The reader must not wait for the informer's progress, or both wait
    /// forever.
    SlowSource,
    /// The subscription drops its backlog. The reader then gets the merged changes from its last seen state
    /// to the cache, as with [`Delivery::Coalesce`]. Afterwards it gets every change again.
    /// [`crate::Subscription::replays`] counts these replays.
    Replay,
}
