//! Linearizability: whether all answers are those of a store that executed one operation after the other, each between
//! its call and its return (Herlihy and Wing); and in which order. The search is Wing's and Gong's with Lowe's memory
//! of visited configurations. etcd's answers have revisions, which makes it fast:
//!
//! - An answer fits at one revision only, so hardly more than one of the possible next calls fits.
//! - An operation that changes nothing is placed as soon as it fits: that excludes no other order, so no alternative
//!   is tried.
//! - A call with unknown outcome is tried only where it is needed: to make a revision that no answered call made, or
//!   because another call waits for its lease or compaction.
//!
//! Serializable reads, renewals and defragmentations are not part of the search. For a read of an old revision it
//! checks only possibility and header; `serializable` checks the content.

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
    /// The operations in order.
    pub(crate) done: Vec<PlacedOperation>,
    /// Number of calls with unknown outcome that took effect.
    pub(crate) unknown_done: usize,
    /// Number of steps that the search took.
    pub(crate) steps: u64,
}

/// An operation in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedOperation {
    /// When the operation was called; for an expiry, its earliest time.
    pub(crate) call: u64,
    /// The operation.
    pub(crate) operation: Operation,
    /// Whether it is the expiry of a lease rather than a call.
    pub(crate) is_expiry: bool,
    /// Whether its outcome is unknown, so that another unanswered call may have taken effect instead.
    pub(crate) is_guess: bool,
}

/// Why no order was found.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// No order exists; describes the end of the longest attempt.
    Stuck(Box<Violation>),
    /// The search exceeded its budget.
    GivenUp,
}

/// Finds an order that agrees with `evidence`, trying at most `budget` operations. An order may contain changes of
/// answered calls that a watch did not deliver: the watch check reports those.
pub(crate) fn linearize(history: &History, evidence: &Evidence<'_>, budget: u64) -> Result<Order, Failure> {
    search::Search::new(history, evidence, false, budget).run()
}

/// Finds an order like [`linearize`], in which every watch received all matching changes. The reply to LeaseRevoke does
/// not name the deleted keys, so several orders can fit the replies. Only such an order does not report a watch
/// wrongly.
pub(crate) fn linearize_unmissed(
    history: &History,
    evidence: &Evidence<'_>,
    budget: u64,
) -> Result<Order, Failure> {
    search::Search::new(history, evidence, true, budget).run()
}
