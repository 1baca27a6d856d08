//! Validation of a transaction, independent of the store's state. Pure; done before the transaction is queued.

use crate::types::txn::{Delete, Op, Put, Txn};
use crate::{End, KeyRange, Limits, TxnError};
use bytes::Bytes;
use std::collections::BTreeSet;

/// Validates a transaction. Returns the number of bytes that it carries.
pub(crate) fn check(txn: &Txn, limits: &Limits) -> Result<usize, TxnError> {
    check_count(txn, limits.txn_ops)?;
    let bytes = txn.note.as_ref().map_or(0, Bytes::len) + check_ops(txn)?;
    if bytes > limits.request_bytes {
        return Err(TxnError::TooLarge);
    }
    for branch in [&txn.success, &txn.failure] {
        if may_repeat(branch) {
            changes(branch)?;
        }
    }
    Ok(bytes)
}

/// Validates transactions that are executed one after the other. Returns the number of bytes that they carry together.
pub(crate) fn check_each(txns: &[Txn], limits: &Limits) -> Result<usize, TxnError> {
    if txns.len() > limits.txn_ops {
        return Err(TxnError::TooManyOps);
    }
    let mut bytes = 0;
    for txn in txns {
        bytes += check(txn, limits)?;
    }
    if bytes > limits.request_bytes { Err(TxnError::TooLarge) } else { Ok(bytes) }
}

/// Checks the number of operations: each level's longest list reduces what its nested transactions may have.
fn check_count(txn: &Txn, remaining: usize) -> Result<(), TxnError> {
    let longest = txn.compares.len().max(txn.success.len()).max(txn.failure.len());
    let left = remaining.checked_sub(longest).ok_or(TxnError::TooManyOps)?;
    nested(&txn.success).chain(nested(&txn.failure)).try_for_each(|inner| check_count(inner, left))
}

fn nested(ops: &[Op]) -> impl Iterator<Item = &Txn> {
    ops.iter().filter_map(|op| match op {
        Op::Txn(txn) => Some(txn),
        Op::Range(_) | Op::Put(_) | Op::Delete(_) => None,
    })
}

fn check_ops(txn: &Txn) -> Result<usize, TxnError> {
    let mut bytes = 0;
    for compare in &txn.compares {
        bytes += check_keys(&compare.keys)?;
    }
    for op in txn.success.iter().chain(&txn.failure) {
        bytes += match op {
            Op::Range(range) => check_keys(&range.keys)?,
            Op::Put(put) => check_put(put)?,
            Op::Delete(delete) => check_keys(&delete.keys)?,
            Op::Txn(inner) => check_ops(inner)?,
        };
    }
    Ok(bytes)
}

fn check_keys(keys: &KeyRange) -> Result<usize, TxnError> {
    match &keys.end {
        End::Single if keys.start.is_empty() => Err(TxnError::EmptyKey),
        End::Single | End::Unbounded => Ok(keys.start.len()),
        End::Before(end) => Ok(keys.start.len() + end.len()),
    }
}

fn check_put(put: &Put) -> Result<usize, TxnError> {
    if put.key.is_empty() {
        Err(TxnError::EmptyKey)
    } else if put.ignore_value && !put.value.is_empty() {
        Err(TxnError::ValueProvided)
    } else if put.ignore_lease && !put.lease.is_none() {
        Err(TxnError::LeaseProvided)
    } else {
        Ok(put.key.len() + put.value.len())
    }
}

/// Whether two operations may change the same key. A single plain operation, which most transactions have, cannot.
fn may_repeat(ops: &[Op]) -> bool {
    ops.len() > 1 || nested(ops).next().is_some()
}

/// The keys that a list of operations may change.
#[derive(Default)]
struct ChangedKeys<'a> {
    puts: BTreeSet<&'a Bytes>,
    deletes: Vec<&'a KeyRange>,
}

impl<'a> ChangedKeys<'a> {
    fn deletes(&self, key: &[u8]) -> bool {
        // As in etcd, a delete range without an end is not checked. Clients rely on neither result.
        self.deletes.iter().any(|keys| keys.end != End::Unbounded && keys.contains(key))
    }

    fn put(&mut self, key: &'a Bytes) -> Result<(), TxnError> {
        if self.deletes(key) || !self.puts.insert(key) { Err(TxnError::DuplicateKey) } else { Ok(()) }
    }
}

/// Collects the changes of a branch. Fails if two of its operations change the same key. The order is etcd's: this
/// level's deletions, then each nested transaction (whose two branches exclude each other), then this level's puts.
fn changes(ops: &[Op]) -> Result<ChangedKeys<'_>, TxnError> {
    let mut all = ChangedKeys::default();
    all.deletes.extend(ops.iter().filter_map(|op| match op {
        Op::Delete(Delete { keys, .. }) => Some(keys),
        Op::Range(_) | Op::Put(_) | Op::Txn(_) => None,
    }));
    for inner in nested(ops) {
        let (success, failure) = (changes(&inner.success)?, changes(&inner.failure)?);
        let puts: BTreeSet<_> = success.puts.union(&failure.puts).copied().collect();
        puts.into_iter().try_for_each(|key| all.put(key))?;
        all.deletes.extend(success.deletes.into_iter().chain(failure.deletes));
    }
    for op in ops {
        if let Op::Put(put) = op {
            all.put(&put.key)?;
        }
    }
    Ok(all)
}
