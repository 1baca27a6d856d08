//! Accounting for the quota: the cost of a write, and the used bytes. Pure, except for two counters; `writer` refuses
//! writes over the quota.
//!
//! Used bytes are those that neither compaction nor defragmentation could free: the versions, tombstones and notes in
//! the engine, and published changes that are not in the engine yet. The log does not count: it holds each change a
//! second time, for at most two checkpoints, and has bounds of its own. Removed records that await defragmentation do
//! not count either. In memory the kept versions count in the same way.

use crate::types::txn::{Op, Txn};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a key costs in addition to its content: index, framing and copies. etcd counts the same, so a quota means
/// the same.
const KEY_COST: u64 = 256;

/// Bytes that a lease costs.
pub(crate) const LEASE_COST: u64 = 64;

/// The most bytes that a transaction may write: the larger of its branches. Zero if neither branch contains a put.
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

/// Used bytes. The writer adds staged changes, and the thread that feeds the engine moves them to the engine's part.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Live bytes in the engine, as of its last change.
    engine: AtomicU64,
    /// Bytes that are staged or published, but not in the engine.
    pending: AtomicU64,
}

impl Usage {
    pub(crate) fn used(&self) -> u64 {
        self.engine.load(Ordering::Relaxed) + self.pending()
    }

    /// Bytes that are not in the engine yet.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// Adds the bytes of a staged change.
    pub(crate) fn staged(&self, bytes: usize) {
        self.pending.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Moves `bytes` from pending to the engine, which now holds `engine` live bytes.
    pub(crate) fn stored(&self, bytes: usize, engine: u64) {
        // The engine's part is set first: for a moment the changes count twice rather than not at all.
        self.engine.store(engine, Ordering::Relaxed);
        self.pending.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyRange, Put, Range};

    #[test]
    fn the_quota_cost_of_a_transaction_is_that_of_its_larger_branch() {
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
