//! Evaluation of compares: chooses the branch of a transaction and of each nested transaction. Pure.

use crate::mvcc::staged::StagedView;
use crate::types::txn::{Compare, CompareOp, Op, Target, Txn};
use crate::{End, KeyValue, LeaseId, Revision};
use std::cmp::Ordering;

/// The chosen branch, with the paths of its nested transactions in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BranchPath {
    pub(crate) succeeded: bool,
    pub(crate) nested: Vec<BranchPath>,
}

impl Txn {
    /// The operations of the chosen branch.
    pub(crate) fn branch(&self, path: &BranchPath) -> &[Op] {
        if path.succeeded { &self.success } else { &self.failure }
    }
}

/// Chooses all branches on the state before the transaction: a nested compare does not see the effects of outer
/// operations.
pub(crate) fn decide(txn: &Txn, staged: StagedView<'_>) -> BranchPath {
    let succeeded = txn.compares.iter().all(|compare| holds(compare, staged));
    let ops = if succeeded { &txn.success } else { &txn.failure };
    let nested = ops.iter().filter_map(|op| match op {
        Op::Txn(inner) => Some(decide(inner, staged)),
        Op::Range(_) | Op::Put(_) | Op::Delete(_) => None,
    });
    BranchPath { succeeded, nested: nested.collect() }
}

fn holds(compare: &Compare, staged: StagedView<'_>) -> bool {
    if compare.keys.end == End::Single {
        return holds_for(compare, staged.live(&compare.keys.start).map(|kv| &**kv));
    }
    let found = staged.live_in(&compare.keys);
    if found.is_empty() {
        return holds_for(compare, None);
    }
    found.into_iter().all(|kv| holds_for(compare, Some(kv)))
}

fn holds_for(compare: &Compare, kv: Option<&KeyValue>) -> bool {
    let stamp = kv.map(KeyValue::stamp).unwrap_or_default();
    let order = match &compare.target {
        Target::Version(given) => stamp.version.cmp(given),
        Target::Create(Revision(given)) => stamp.create_revision.0.cmp(given),
        Target::Mod(Revision(given)) => stamp.mod_revision.0.cmp(given),
        Target::Lease(LeaseId(given)) => stamp.lease.0.cmp(given),
        Target::Value(given) => match kv {
            Some(kv) => kv.value().cmp(given),
            None => return false,
        },
    };
    match compare.op {
        CompareOp::Equal => order == Ordering::Equal,
        CompareOp::NotEqual => order != Ordering::Equal,
        CompareOp::Greater => order == Ordering::Greater,
        CompareOp::Less => order == Ordering::Less,
    }
}
