//! [`Delivery`]: what a subscription does with changes that nobody has taken yet. Every way is bounded.

use std::num::NonZeroUsize;

/// How a [`crate::Subscription`] keeps what its reader has not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Changes of one key are merged into one. At most one entry for each live object and each deletion that the reader has
    /// to hear of; a slow reader slows nobody. What most readers want, since they act on the newest state.
    #[default]
    Coalesce,
    /// Every change, in the order of the source.
    Lossless {
        /// Changes that may wait before `overflow` applies. The batch that reaches it is still taken whole: the bound in
        /// memory is this and the changes of one network message, which all subscriptions share.
        capacity: NonZeroUsize,
        /// What happens then.
        overflow: Overflow,
    },
}

/// What a lossless subscription does when its reader is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The informer stops reading its source until there is room: nothing is lost, and *everyone* who reads this informer
    /// waits. The reader must not itself wait for the informer's progress, which would then never come.
    SlowSource,
    /// The backlog is dropped. The reader gets what leads from the state it saw last to the cache, merged as in
    /// [`Delivery::Coalesce`], and from there every change again. [`crate::Subscription::replays`] counts these.
    Replay,
}
