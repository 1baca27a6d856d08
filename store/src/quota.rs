//! What a write costs against the quota, and what counts as used. Pure but for two numbers. Not the refusal (see `writer`).
//!
//! Used is what neither compaction nor defragmentation could give back: the bytes of the versions, deletions and notes that
//! the engine keeps, and of the published changes that have not reached it yet. The log is not counted beyond that: it
//! holds each change a second time, for at most two checkpoints, and its size has bounds of its own. Nor is what the
//! engine has already given up but not yet won back. In memory the same is counted: the bytes of the versions kept.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::txn::{Op, Txn};

/// What a key costs beside its bytes: index, framing and copies. etcd's figure, so that quotas mean the same.
const KEY_COST: u64 = 256;

/// What a lease costs.
pub(crate) const LEASE_COST: u64 = 64;

/// What a transaction may write at most: the dearer of its branches. Zero if neither can put anything.
pub(crate) fn cost(txn: &Txn) -> u64 {
    let branch = |ops: &[Op]| ops.iter().map(op_cost).sum::<u64>();
    branch(&txn.success).max(branch(&txn.failure))
}

fn op_cost(op: &Op) -> u64 {
    match op {
        Op::Put(put) => KEY_COST + (put.key.len() + put.value.len()) as u64,
        Op::Txn(inner) => cost(inner),
        Op::Range(_) | Op::Delete(_) => 0,
    }
}

/// What is used now. The writer adds to it, whoever feeds the engine moves it there.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Wanted bytes in the engine, as of its last change.
    engine: AtomicU64,
    /// Staged or published, but not in the engine.
    pending: AtomicU64,
}

impl Usage {
    pub(crate) fn used(&self) -> u64 {
        self.engine.load(Ordering::Relaxed) + self.pending()
    }

    /// Bytes on the way to the engine.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// A change was staged.
    pub(crate) fn staged(&self, bytes: usize) {
        self.pending.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The engine has taken changes in and now holds `engine` bytes.
    pub(crate) fn stored(&self, bytes: usize, engine: u64) {
        // The engine first: for a moment the changes count twice rather than not at all.
        self.engine.store(engine, Ordering::Relaxed);
        self.pending.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyRange, Put, Range};

    #[test]
    fn a_transaction_costs_what_its_dearer_branch_puts() {
        let put = |key: &'static str, value: &'static str| Op::Put(Put::new(key, value));
        let free = vec![Op::Range(Range::new(KeyRange::all())), Op::delete("k")];
        let txn = |success: Vec<Op>, failure: Vec<Op>| Txn { success, failure, ..Txn::default() };
        let nested = Op::Txn(txn(vec![put("k", "12345")], vec![put("k", "1"), put("l", "1")]));
        let table = [
            ("nothing", Txn::default(), 0),
            ("reads and deletions", txn(free.clone(), free), 0),
            ("a put", Txn::of(vec![put("key", "value")]), 264),
            ("an empty value", Txn::of(vec![put("key", "")]), 259),
            ("two puts", Txn::of(vec![put("a", "1"), put("b", "2")]), 516),
            ("the branch not taken", txn(vec![put("a", "1")], vec![put("a", "123")]), 260),
            ("the dearer branch inside", Txn::of(vec![nested.clone(), put("m", "1")]), 516 + 258),
            ("a guard costs nothing", Txn { failure: vec![nested], ..Txn::default() }, 516),
        ];
        for (name, txn, expected) in table {
            assert_eq!(cost(&txn), expected, "{name}");
        }
    }
}
