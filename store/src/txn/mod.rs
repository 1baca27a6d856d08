//! Transactions as values: guards, operations, answers. `check` says which are well-formed; `execute` evaluates them.

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod execute;

use std::sync::Arc;

use bytes::Bytes;

use crate::{KeyRange, KeyValue, LeaseId, Range, RangeResult, Revision};

/// If all compares hold, `success`, else `failure`; as one step that nothing can come between.
///
/// At most one revision is taken, and only if something changed. The operations see what earlier ones did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// The guards, all of which must hold. No guards hold.
    pub compares: Vec<Compare>,
    /// Done in order when they hold.
    pub success: Vec<Op>,
    /// Done in order when they do not.
    pub failure: Vec<Op>,
    /// Opaque bytes to keep beside the revision, if one is taken (see [`crate::Store::note`]). Only the note of the
    /// outermost transaction counts.
    pub note: Option<Bytes>,
}

impl Txn {
    /// An unconditional transaction.
    pub fn of(ops: Vec<Op>) -> Self {
        Self { success: ops, ..Self::default() }
    }

    /// If the key's mod revision is `expected` (zero: if the key does not exist), `op`; otherwise read the key.
    pub fn if_unchanged(key: impl Into<Bytes>, expected: Revision, op: Op) -> Self {
        let key = key.into();
        Self {
            compares: vec![Compare::key(key.clone(), CompareOp::Equal, Target::Mod(expected))],
            success: vec![op],
            failure: vec![Op::Range(Range::key(key))],
            note: None,
        }
    }

    /// Whether it cannot change anything, whichever branch it takes. As in etcd, one with a transaction inside counts as one
    /// that can.
    pub fn is_read_only(&self) -> bool {
        let mut ops = self.success.iter().chain(&self.failure);
        ops.all(|op| matches!(op, Op::Range(_)))
    }

    /// The same with a note.
    #[must_use]
    pub fn noted(self, note: impl Into<Bytes>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

/// How a stored field must stand to the given one.
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

/// The field of a key that is compared, with the value to compare to. A key that does not exist has zero in every
/// number and no value: a compare of its value never holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Puts since creation.
    Version(i64),
    /// Create revision.
    Create(Revision),
    /// Mod revision.
    Mod(Revision),
    /// Value, bytewise.
    Value(Bytes),
    /// Lease.
    Lease(LeaseId),
}

/// One guard. Over several keys it holds if it holds for each; over none, if it holds for a missing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// Which keys.
    pub keys: KeyRange,
    /// The relation.
    pub op: CompareOp,
    /// Field and value.
    pub target: Target,
}

impl Compare {
    /// A guard on one key.
    pub fn key(key: impl Into<Bytes>, op: CompareOp, target: Target) -> Self {
        Self { keys: KeyRange::single(key), op, target }
    }
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read.
    Range(Range),
    /// Write one key.
    Put(Put),
    /// Delete keys.
    Delete(Delete),
    /// A transaction inside; its guards are evaluated on the state before the outermost one.
    Txn(Txn),
}

impl Op {
    /// A plain put.
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::Put(Put::new(key, value))
    }

    /// A deletion of one key.
    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self::Delete(Delete { keys: KeyRange::single(key), prev_kv: false })
    }
}

/// A write of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// The key; not empty.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The lease to hang the key on; it must exist. [`LeaseId::NONE`] detaches the key.
    pub lease: LeaseId,
    /// Answer with the version before.
    pub prev_kv: bool,
    /// Keep the value (still a new revision); the key must exist, and `value` must be empty.
    pub ignore_value: bool,
    /// Keep the lease; the key must exist, and `lease` must be none.
    pub ignore_lease: bool,
}

impl Put {
    /// A plain put.
    pub fn new(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { key: key.into(), value: value.into(), ..Self::default() }
    }
}

/// A deletion of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Which keys.
    pub keys: KeyRange,
    /// Answer with what was deleted.
    pub prev_kv: bool,
}

/// What a transaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnResult {
    /// Whether the guards held.
    pub succeeded: bool,
    /// The revision of this transaction's changes or, if it changed nothing, the one it saw.
    pub revision: Revision,
    /// One answer per operation of the branch taken, in order.
    pub responses: Vec<OpResult>,
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// To a read.
    Range(RangeResult),
    /// To a put.
    Put(PutResult),
    /// To a deletion.
    Delete(DeleteResult),
    /// To a nested transaction.
    Txn(TxnResult),
}

impl OpResult {
    /// The answer to a read, if that is what this is.
    pub fn into_range(self) -> Option<RangeResult> {
        match self {
            Self::Range(range) => Some(range),
            Self::Put(_) | Self::Delete(_) | Self::Txn(_) => None,
        }
    }
}

/// The answer to a [`Put`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutResult {
    /// The revision of the put.
    pub revision: Revision,
    /// The version now in the store.
    pub kv: Arc<KeyValue>,
    /// The version before, if asked for and there was one.
    pub prev_kv: Option<Arc<KeyValue>>,
}

/// The answer to a [`Delete`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteResult {
    /// The revision after the operation.
    pub revision: Revision,
    /// How many keys went.
    pub deleted: i64,
    /// What they were, in key order, if asked for.
    pub prev_kvs: Vec<Arc<KeyValue>>,
}
