//! Transactions: compares, operations, and results. `txn::check` validates them, `txn::execute` evaluates them.

use crate::{KeyRange, KeyValue, LeaseId, Range, RangeResult, Revision};
use bytes::Bytes;
use std::sync::Arc;

/// An atomic transaction: executes `success` if all compares hold, otherwise `failure`.
///
/// It takes at most one revision, and only if it changes something. An operation sees the effects of earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// The compares. All must hold; an empty list holds.
    pub compares: Vec<Compare>,
    /// Operations executed in order if the compares hold.
    pub success: Vec<Op>,
    /// Operations executed in order if a compare does not hold.
    pub failure: Vec<Op>,
    /// Opaque bytes that the store keeps with the transaction's revision, if it takes one (see [`crate::Store::note`]).
    /// The store ignores notes of nested transactions.
    pub note: Option<Bytes>,
}

impl Txn {
    /// An unconditional transaction.
    pub fn of(ops: Vec<Op>) -> Self {
        Self { success: ops, ..Self::default() }
    }

    /// A transaction that executes `op` if the key's mod revision is `expected` (zero: if the key does not exist), and
    /// otherwise reads the key.
    pub fn if_unchanged(key: impl Into<Bytes>, expected: Revision, op: Op) -> Self {
        let key = key.into();
        Self {
            compares: vec![Compare::key(key.clone(), CompareOp::Equal, Target::Mod(expected))],
            success: vec![op],
            failure: vec![Op::Range(Range::key(key))],
            note: None,
        }
    }

    /// Whether the transaction only reads, in both branches. As in etcd, one with a nested transaction counts as
    /// writing.
    pub fn is_read_only(&self) -> bool {
        let mut ops = self.success.iter().chain(&self.failure);
        ops.all(|op| matches!(op, Op::Range(_)))
    }

    /// Sets the note.
    #[must_use]
    pub fn noted(self, note: impl Into<Bytes>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

/// The relation that a compare requires between the stored and the given value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// stored = given
    Equal,
    /// stored > given
    Greater,
    /// stored < given
    Less,
    /// stored ≠ given
    NotEqual,
}

/// The field of a key that is compared, and the value to compare with. A missing key has zero in every number and no
/// value: a compare of its value never holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Number of puts since creation.
    Version(i64),
    /// Create revision.
    Create(Revision),
    /// Mod revision.
    Mod(Revision),
    /// Value, in byte order.
    Value(Bytes),
    /// Lease.
    Lease(LeaseId),
}

/// One compare. Over several keys it holds if it holds for each; over none, if it holds for a missing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The keys to compare.
    pub keys: KeyRange,
    /// The required relation.
    pub op: CompareOp,
    /// The field and the value to compare with.
    pub target: Target,
}

impl Compare {
    /// A compare of one key.
    pub fn key(key: impl Into<Bytes>, op: CompareOp, target: Target) -> Self {
        Self { keys: KeyRange::single(key), op, target }
    }
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads a range.
    Range(Range),
    /// Writes one key.
    Put(Put),
    /// Deletes a range of keys.
    Delete(Delete),
    /// A nested transaction. Its compares are evaluated on the state before the outermost one.
    Txn(Txn),
}

impl Op {
    /// A put without options.
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::Put(Put::new(key, value))
    }

    /// A deletion of one key.
    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self::Delete(Delete { keys: KeyRange::single(key), prev_kv: false })
    }
}

/// A put: a write of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// The key; not empty.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The lease to attach the key to; it must exist. [`LeaseId::NONE`] detaches the key.
    pub lease: LeaseId,
    /// Whether to return the previous version.
    pub prev_kv: bool,
    /// Whether to keep the stored value (the put still makes a new revision). The key must exist, and `value` must be
    /// empty.
    pub ignore_value: bool,
    /// Whether to keep the key's lease. The key must exist, and `lease` must be none.
    pub ignore_lease: bool,
}

impl Put {
    /// A put without options.
    pub fn new(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { key: key.into(), value: value.into(), ..Self::default() }
    }
}

/// A deletion of a range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// The keys to delete.
    pub keys: KeyRange,
    /// Whether to return the deleted versions.
    pub prev_kv: bool,
}

/// The result of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnResult {
    /// Whether all compares succeeded.
    pub succeeded: bool,
    /// The revision of this transaction's changes, or the current revision if it changed nothing.
    pub revision: Revision,
    /// One result per operation of the executed branch, in order.
    pub responses: Vec<OpResult>,
}

/// The result of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// Result of a range.
    Range(RangeResult),
    /// Result of a put.
    Put(PutResult),
    /// Result of a deletion.
    Delete(DeleteResult),
    /// Result of a nested transaction.
    Txn(TxnResult),
}

impl OpResult {
    /// The result of a range, if this is one.
    pub fn into_range(self) -> Option<RangeResult> {
        match self {
            Self::Range(range) => Some(range),
            Self::Put(_) | Self::Delete(_) | Self::Txn(_) => None,
        }
    }
}

/// The result of a [`Put`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutResult {
    /// The revision of the put.
    pub revision: Revision,
    /// The written version.
    pub kv: Arc<KeyValue>,
    /// The previous version, if requested and there was one.
    pub prev_kv: Option<Arc<KeyValue>>,
}

/// The result of a [`Delete`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteResult {
    /// The revision after the operation.
    pub revision: Revision,
    /// Number of deleted keys.
    pub deleted: i64,
    /// The deleted versions in key order, if requested.
    pub prev_kvs: Vec<Arc<KeyValue>>,
}
