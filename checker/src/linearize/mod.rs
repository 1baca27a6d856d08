//! Whether all answers are those of a store that did one operation after the other, each between its call and its return
//! (Herlihy and Wing), and in which order that was. The search is Wing's and Gong's with Lowe's memory of what was tried;
//! what makes it fast is that etcd's answers carry revisions:
//!
//! - An answer fits at one revision only, so that of the calls that may come next hardly more than one can.
//! - What changes nothing is taken as soon as it fits: that takes nothing away from the others, so it need not be tried
//!   otherwise.
//! - A call with unknown outcome is tried only where it is needed: to make a revision that nobody was answered for, or so
//!   that a call which waits for its lease or its compaction can fit.
//!
//! Reads that were content with an old state, renewals and defragmentations do not take part. Of a read of an old
//! revision only possibility and header are judged here; its content is `serializable`'s.

mod explain;
mod item;
mod queue;
mod search;

use crate::evidence::Evidence;
use crate::history::{History, Operation};
use crate::verdict::Violation;

/// An order of operations that explains every answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// What was done, one after the other.
    pub(crate) done: Vec<Done>,
    /// Calls with unknown outcome that were done.
    pub(crate) unknown_done: usize,
    /// How many steps the search took.
    pub(crate) steps: u64,
}

/// An operation in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// When it was called or, of a lease's end, the earliest time for it.
    pub(crate) call: u64,
    /// What was done.
    pub(crate) operation: Operation,
    /// Nobody asked for it: a lease ended by itself.
    pub(crate) is_expiry: bool,
    /// Nobody was answered for it: another one that was not answered may have been done in its place.
    pub(crate) is_guess: bool,
}

/// Why there is no order.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// There is none. Where the best attempt ended.
    Stuck(Box<Violation>),
    /// The search took too long.
    GivenUp,
}

/// Finds an order that agrees with `evidence`, trying at most `budget` operations. An order may contain changes of answered calls
/// that a watch did not deliver: the watch check reports those.
pub(crate) fn linearize(history: &History, evidence: &Evidence<'_>, budget: u64) -> Result<Order, Failure> {
    search::Search::new(history, evidence, false, budget).run()
}

/// Finds an order as [`linearize`] does, in which every watch received all matching changes. The reply to LeaseRevoke does not name
/// the deleted keys, so several orders can fit the replies; only this one does not blame a watch.
pub(crate) fn linearize_unmissed(
    history: &History,
    evidence: &Evidence<'_>,
    budget: u64,
) -> Result<Order, Failure> {
    search::Search::new(history, evidence, true, budget).run()
}
