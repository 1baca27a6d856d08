//! Items of the search: calls, and expiries of leases.

use crate::history::{Call, History, Op, OpReply, Operation, Outcome, Refusal, Reply};

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// An operation that has, or may have, a place in the order.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Index of the call; none for an expiry.
    pub(crate) source: Option<usize>,
    /// The operation took effect at this time or later.
    pub(crate) call: u64,
    /// The operation took effect before this time, if at all.
    pub(crate) ret: u64,
    pub(crate) operation: Operation,
    /// The outcome; `Unknown` if the operation may not have taken effect.
    pub(crate) outcome: Outcome,
    /// The first and last revision of a state in which the operation can have taken effect.
    pub(crate) at: (i64, i64),
    /// The revision that the operation made, if its answer shows that it made one.
    pub(crate) took: Option<i64>,
}

impl Item {
    /// The leases that affect the operation's result.
    pub(crate) fn leases(&self) -> impl Iterator<Item = i64> {
        let own = match &self.operation {
            Operation::LeaseGrant { id, .. } | Operation::LeaseRevoke { id } => Some(*id),
            Operation::Range(_)
            | Operation::Txn(_)
            | Operation::LeaseKeepAlive { .. }
            | Operation::Compact { .. }
            | Operation::Defragment => None,
        };
        let txn = match &self.operation {
            Operation::Txn(txn) => Some(txn),
            _ => None,
        };
        let ops = txn.into_iter().flat_map(|txn| txn.then.iter().chain(&txn.or_else));
        let put = ops.filter_map(|op| match op {
            Op::Put { lease, .. } if *lease != 0 => Some(*lease),
            Op::Put { .. } | Op::Range(_) | Op::Delete { .. } => None,
        });
        own.into_iter().chain(put)
    }

    /// The last revision in the answer.
    pub(crate) fn seen(&self) -> Option<i64> {
        self.took.or_else(|| (self.at.1 < i64::MAX).then_some(self.at.1))
    }

    /// Whether the call was refused.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }

    /// Whether the call was refused because of a compaction, which may be one with unknown outcome.
    pub(crate) fn is_refused_as_compacted(&self) -> bool {
        self.outcome == Outcome::Failed(Refusal::Compacted)
    }
}

/// The items of a history: those that took effect, and those that may have.
pub(crate) fn items(history: &History) -> (Vec<Item>, Vec<Item>) {
    let calls = history.calls.iter().enumerate().filter(|(_, call)| takes_part(call));
    let (mut sure, mut maybe): (Vec<_>, Vec<_>) =
        calls.map(|(at, call)| item(at, call)).partition(|item| item.outcome != Outcome::Unknown);
    maybe.extend(history.calls.iter().filter_map(expiry));
    sure.sort_by_key(|item| item.call);
    maybe.sort_by_key(|item| item.call);
    (sure, maybe)
}

fn takes_part(call: &Call) -> bool {
    let judged = match &call.operation {
        Operation::Range(range) => !range.serializable && call.outcome != Outcome::Unknown,
        Operation::LeaseKeepAlive { .. } | Operation::Defragment => false,
        Operation::Txn(_)
        | Operation::LeaseGrant { .. }
        | Operation::LeaseRevoke { .. }
        | Operation::Compact { .. } => true,
    };
    judged && !matches!(call.outcome, Outcome::Failed(Refusal::Other(_)))
}

fn item(at: usize, call: &Call) -> Item {
    let took = match &call.outcome {
        Outcome::Ok(Reply::Txn { revision, results, .. }) => {
            results.iter().zip(ops(call)).any(|(reply, op)| changed(op, reply)).then_some(*revision)
        }
        _ => None,
    };
    let states = match &call.outcome {
        Outcome::Ok(Reply::Compact { revision }) => (i64::MIN, *revision),
        Outcome::Ok(Reply::LeaseRevoke { revision }) => (revision - 1, *revision),
        Outcome::Ok(reply) => {
            let revision = reply.revision().expect("what has no revision does not take part");
            let before = revision - i64::from(took.is_some());
            (before, before)
        }
        Outcome::Failed(_) | Outcome::Unknown => (i64::MIN, i64::MAX),
    };
    let ret = if call.outcome == Outcome::Unknown { u64::MAX } else { call.ret.max(call.call) };
    let (operation, outcome) = (call.operation.clone(), call.outcome.clone());
    Item { source: Some(at), call: call.call, ret, operation, outcome, at: states, took }
}

/// The operations that a call executed.
fn ops(call: &Call) -> &[Op] {
    match (&call.operation, &call.outcome) {
        (Operation::Txn(txn), Outcome::Ok(Reply::Txn { succeeded: true, .. })) => &txn.then,
        (Operation::Txn(txn), Outcome::Ok(Reply::Txn { succeeded: false, .. })) => &txn.or_else,
        _ => &[],
    }
}

fn changed(op: &Op, reply: &OpReply) -> bool {
    match reply {
        OpReply::Put(_) => matches!(op, Op::Put { .. }),
        OpReply::Delete { deleted, .. } => *deleted > 0,
        OpReply::Range(_) => false,
    }
}

/// The expiry of a lease that was granted, or may have been.
fn expiry(call: &Call) -> Option<Item> {
    let Operation::LeaseGrant { id, ttl } = call.operation else { return None };
    let ttl = match &call.outcome {
        Outcome::Ok(Reply::LeaseGrant { ttl, .. }) => *ttl,
        Outcome::Unknown => ttl,
        Outcome::Ok(_) | Outcome::Failed(_) => return None,
    };
    let time = SECOND.saturating_mul(ttl.try_into().unwrap_or(0));
    Some(Item {
        source: None,
        call: call.call.saturating_add(time),
        ret: u64::MAX,
        operation: Operation::LeaseRevoke { id },
        outcome: Outcome::Unknown,
        at: (i64::MIN, i64::MAX),
        took: None,
    })
}
