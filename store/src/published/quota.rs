//! Accounting for the quota: the cost of a write, and the used bytes. Pure, except for two counters; `writer` refuses
//! writes over the quota.
//!
//! What counts depends on [`crate::Limits::history_bytes`]. Without that bound all used bytes count, as in etcd. With it only the current
//! bytes count: those of the versions that exist now. All other used bytes are history, which has that bound of its own.
//!
//! Used bytes are those that neither compaction nor defragmentation could free: the versions, tombstones and notes in
//! the engine, and published changes that are not in the engine yet. The log does not count: it holds each change a
//! second time, for at most two checkpoints, and has bounds of its own. Removed records that await defragmentation do
//! not count either. In memory the kept versions count in the same way.

use crate::types::kv::KEY_COST;
use crate::types::txn::{Op, Txn};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a lease costs.
pub(crate) const LEASE_COST: u64 = 64;

/// The most bytes that a transaction may write: the larger of its branches. Zero if neither branch contains a put.
pub(crate) fn cost(txn: &Txn) -> u64 {
    let branch = |ops: &[Op]| ops.iter().map(op_cost).sum::<u64>();
    branch(&txn.success).max(branch(&txn.failure))
}

/// The most that a transaction may add to the current bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Bytes: those of the larger branch.
    pub(crate) bytes: i64,
    /// It may put a key that does not exist.
    pub(crate) creates: bool,
}

impl Growth {
    /// The growth by a transaction; `existing` are the current bytes of a key that exists. Its deletions count nothing.
    pub(crate) fn of(txn: &Txn, existing: &dyn Fn(&[u8]) -> Option<u64>) -> Self {
        let branch =
            |ops: &[Op]| ops.iter().fold(Self::default(), |sum, op| sum.and(Self::of_op(op, existing)));
        let (success, failure) = (branch(&txn.success), branch(&txn.failure));
        Self { bytes: success.bytes.max(failure.bytes), creates: success.creates || failure.creates }
    }

    /// The growth by a lease.
    pub(crate) fn of_lease() -> Self {
        Self { bytes: LEASE_COST as i64, creates: false }
    }

    fn of_op(op: &Op, existing: &dyn Fn(&[u8]) -> Option<u64>) -> Self {
        match op {
            Op::Put(put) => {
                let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
                match existing(&put.key) {
                    Some(_) if put.ignore_value => Self::default(),
                    Some(before) => Self { bytes: signed(op_cost(op)) - signed(before), creates: false },
                    None => Self { bytes: signed(op_cost(op)), creates: true },
                }
            }
            Op::Txn(inner) => Self::of(inner, existing),
            Op::Range(_) | Op::Delete(_) => Self::default(),
        }
    }

    fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), creates: self.creates || other.creates }
    }

    /// Whether the current bytes may grow by this under a quota. Updates that add little are accepted a little above the quota, so that an
    /// object with finalizers, or one that ends in time, can be marked as deleted.
    pub(crate) fn fits(self, current: u64, quota: u64) -> bool {
        let after = current.saturating_add_signed(self.bytes);
        match self.creates {
            _ if after < quota => true,
            true => false,
            false => {
                self.bytes <= 0
                    || (self.bytes <= UPDATE && after < quota.saturating_add(quota / UPDATES_PART))
            }
        }
    }
}

/// Bytes that an update above the quota may add.
const UPDATE: i64 = 1_024;
/// The part of the quota that such updates may take above it.
const UPDATES_PART: u64 = 16;

/// Whether the current bytes are so far below the quota that the alarm for reaching it ends. The distance keeps the alarm from changing
/// with each write.
pub(crate) fn has_room(current: u64, quota: u64) -> bool {
    current < quota - quota / UPDATES_PART
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
    /// Bytes of the versions that exist in staged state: see `KeyValue::current_bytes`.
    current: AtomicU64,
}

impl Usage {
    pub(crate) fn used(&self) -> u64 {
        self.engine.load(Ordering::Relaxed) + self.pending()
    }

    /// Bytes that are not in the engine yet.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// Bytes of the versions that exist in staged state.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Relaxed)
    }

    /// Used bytes that are not current: superseded versions, tombstones and what the engine adds.
    pub(crate) fn history(&self) -> u64 {
        self.used().saturating_sub(self.current())
    }

    /// Sets the bytes of the versions that exist, when a store is opened.
    pub(crate) fn set_current(&self, bytes: u64) {
        self.current.store(bytes, Ordering::Relaxed);
    }

    /// Adds a staged change to the bytes of the versions that exist. Only the writer calls it.
    pub(crate) fn change_current(&self, added: u64, removed: u64) {
        self.set_current((self.current() + added).saturating_sub(removed));
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
    fn the_growth_of_a_transaction_is_what_it_adds_to_existing_keys() {
        let put = |key: &'static str, bytes: usize| Op::put(key, vec![0; bytes]);
        let existing = |key: &[u8]| (key == b"old").then_some(356 + 3);
        let kept = Op::Put(Put { ignore_value: true, ..Put::new("old", "") });
        let table = [
            ("a new key", vec![put("new", 100)], 359, true),
            ("an update of the same size", vec![put("old", 100)], 0, false),
            ("a larger update", vec![put("old", 150)], 50, false),
            ("a smaller update, or the other branch", vec![put("old", 40)], 0, false),
            ("a new lease for a key", vec![kept], 0, false),
            ("both", vec![put("old", 40), put("new", 100)], 299, true),
            ("inside", vec![Op::Txn(Txn::of(vec![put("old", 150)]))], 50, false),
            ("a deletion", vec![Op::delete("old")], 0, false),
        ];
        for (name, ops, bytes, creates) in table {
            assert_eq!(Growth::of(&Txn::of(ops), &existing), Growth { bytes, creates }, "{name}");
        }
        let branches =
            Txn { success: vec![put("old", 10)], failure: vec![put("old", 150)], ..Txn::default() };
        assert_eq!(Growth::of(&branches, &existing), Growth { bytes: 50, creates: false });
    }

    #[test]
    fn small_updates_fit_a_little_above_the_quota_and_new_keys_do_not() {
        let table = [
            (1_000, true, 98_999, true),
            (1_000, true, 99_000, false),
            (1_000, false, 99_000, true),
            (1_024, false, 105_000, true),
            (1_024, false, 105_300, false),
            (2_000, false, 99_000, false),
            (0, false, 500_000, true),
            (-5, false, 500_000, true),
            (-5, true, 500_000, false),
        ];
        for (bytes, creates, current, fits) in table {
            assert_eq!(Growth { bytes, creates }.fits(current, 100_000), fits, "{bytes} {creates} {current}");
        }
        assert!(has_room(93_000, 100_000) && !has_room(94_000, 100_000));
    }

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
