//! [`ReadBound`]: how far the reads of one request see. Outside the lab and the views of the past no request has one, and a read tests one
//! pointer.

use super::watch::WatchEnd;
use super::watchers::Delivery;
use crate::kinds::Kinds;
use std::sync::Arc;
use tokio::sync::Notify;

/// Bounds what one GET, list or watch shows, as a second API server with a lagging watch cache would. The lab implements it, and the API
/// server for views of the cluster as of a revision; each method must answer at once.
pub trait ReadBound: Send + Sync + std::fmt::Debug {
    /// The revision at which a GET, a list or the initial state of a watch is read; `None`: at the one that the request asks for.
    fn state(&self) -> Option<i64>;

    /// Why a watch ends as soon as it has begun; `None`: it goes on.
    fn refusal(&self) -> Option<WatchEnd>;

    /// The newest revision whose changes a watch shows at present.
    fn limit(&self) -> i64;

    /// Decides about the next delivery of a watch, whose revision is within the limit. After [`Verdict::Hold`] the watch asks again when
    /// [`ReadBound::changed`] is notified.
    fn due(&self, delivery: &Delivery) -> Verdict;

    /// Notified, for all waiting, after a limit or a verdict may have changed.
    fn changed(&self) -> &Notify;

    /// Whether the limit never rises: a watch that has shown everything up to it is silent from then on. The state of such a bound is the
    /// past, which a caller sees by the rights that it has for it.
    fn is_final(&self) -> bool {
        false
    }

    /// The kinds by whose definitions a watch reads the history; `None`: those of the present.
    fn kinds(&self) -> Option<Arc<Kinds>> {
        None
    }
}

/// What a [`ReadBound`] decides about a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is delivered.
    Show,
    /// It waits, and with it all later ones.
    Hold,
    /// The watch ends before it.
    End(WatchEnd),
}
