//! Operations and replies, with the wire's convention for intervals of keys.

use super::Blob;
use serde::{Deserialize, Serialize};

/// One version of a key, as etcd returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyValue {
    /// The key.
    pub key: Blob,
    /// The value; empty in a deletion or a keys-only read.
    #[serde(default, skip_serializing_if = "Blob::is_empty")]
    pub value: Blob,
    /// The revision that created this generation of the key; zero in a deletion.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub create_revision: i64,
    /// The revision that made this version.
    pub mod_revision: i64,
    /// Number of puts since creation; zero in a deletion.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: i64,
    /// The lease that the key is attached to, or zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A range of keys in etcd's convention: an empty end means the single key, an end of one NUL byte means no end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// The first key.
    pub key: Blob,
    /// The exclusive end.
    #[serde(default, skip_serializing_if = "Blob::is_empty")]
    pub end: Blob,
}

impl Keys {
    /// The range of one key.
    pub fn one(key: impl Into<Blob>) -> Self {
        Self { key: key.into(), end: Blob::default() }
    }

    /// The range from `key` to `end`, exclusive.
    pub fn between(key: impl Into<Blob>, end: impl Into<Blob>) -> Self {
        Self { key: key.into(), end: end.into() }
    }

    /// The range of every key.
    pub fn all() -> Self {
        Self::between([0], [0])
    }

    /// The range of the keys with this prefix.
    pub fn prefix(prefix: &[u8]) -> Self {
        let last = prefix.iter().rposition(|byte| *byte != 0xff);
        let end = last.map_or(vec![0], |last| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        });
        Self::between(if prefix.is_empty() { &[0] } else { prefix }, end)
    }

    /// Whether `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        let first = self.key.as_bytes();
        match self.end.as_bytes() {
            [] => key == first,
            [0] => key >= first,
            end => first <= key && key < end,
        }
    }

    /// Whether the range contains every key.
    pub fn is_all(&self) -> bool {
        self.end.as_bytes() == [0] && matches!(self.key.as_bytes(), [] | [0])
    }
}

/// A range read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The keys to read.
    #[serde(flatten)]
    pub keys: Keys,
    /// The revision to read at; zero reads the current one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: i64,
    /// The most keys to return; zero is no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit: i64,
    /// Whether to omit values.
    #[serde(default)]
    pub keys_only: bool,
    /// Whether to return only the count.
    #[serde(default)]
    pub count_only: bool,
    /// Whether an old state suffices; such a read is not checked for linearizability.
    #[serde(default)]
    pub serializable: bool,
}

/// The field that a compare reads, with the value to compare with. A missing key has zero in every number and no value,
/// so a compare of its value never holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Field {
    /// Number of puts since creation.
    Version(i64),
    /// Create revision.
    Create(i64),
    /// Mod revision.
    Mod(i64),
    /// Value, in byte order.
    Value(Blob),
    /// Lease.
    Lease(i64),
}

/// The relation that a compare requires between the stored and the given value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    /// stored = given
    Equal,
    /// stored > given
    Greater,
    /// stored < given
    Less,
    /// stored ≠ given
    NotEqual,
}

/// A compare of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    /// The key.
    pub key: Blob,
    /// The required relation.
    pub relation: Relation,
    /// The field and the value to compare with.
    pub field: Field,
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Reads a range; at the current revision only.
    Range(Range),
    /// Writes one key.
    Put {
        /// The key.
        key: Blob,
        /// The value.
        value: Blob,
        /// The lease to attach the key to, or zero.
        #[serde(default, skip_serializing_if = "is_zero")]
        lease: i64,
        /// Whether to return the previous version.
        #[serde(default)]
        prev_kv: bool,
    },
    /// Deletes a range of keys.
    Delete {
        /// The keys to delete.
        #[serde(flatten)]
        keys: Keys,
        /// Whether to return the deleted versions.
        #[serde(default)]
        prev_kv: bool,
    },
}

/// A transaction: executes `then` if all compares hold, otherwise `or_else`. A plain put or deletion is a transaction
/// without compares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Txn {
    /// The compares; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compares: Vec<Compare>,
    /// Operations executed in order if the compares hold. No key may be changed twice.
    pub then: Vec<Op>,
    /// Operations executed in order if a compare does not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_else: Vec<Op>,
}

impl Txn {
    /// A transaction of one operation without compares.
    pub fn of(op: Op) -> Self {
        Self { compares: Vec::new(), then: vec![op], or_else: Vec::new() }
    }
}

/// The operation that a client requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Reads a range.
    Range(Range),
    /// Executes a transaction.
    Txn(Txn),
    /// Grants a lease. The client must choose the id, so that an unanswered grant can be recognized.
    LeaseGrant {
        /// The id; not zero.
        id: i64,
        /// Time to live in seconds.
        ttl: i64,
    },
    /// Revokes a lease and deletes its keys.
    LeaseRevoke {
        /// The id.
        id: i64,
    },
    /// Renews a lease.
    LeaseKeepAlive {
        /// The id.
        id: i64,
    },
    /// Compacts: discards versions that only reads below this revision could see.
    Compact {
        /// The revision.
        revision: i64,
    },
    /// Defragments. It has no observable effect.
    Defragment,
}

/// The reply to a range read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeReply {
    /// The header's revision. It is not checked inside a transaction.
    pub revision: i64,
    /// The versions found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kvs: Vec<KeyValue>,
    /// Whether the limit left keys out.
    #[serde(default)]
    pub more: bool,
    /// Number of keys in the range, regardless of the limit.
    pub count: i64,
}

/// The reply to one operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpReply {
    /// Reply to a range read.
    Range(RangeReply),
    /// Reply to a put: the previous version, if requested and there was one.
    Put(Option<KeyValue>),
    /// Reply to a deletion.
    Delete {
        /// Number of deleted keys.
        deleted: i64,
        /// The deleted versions in key order, if requested.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prev_kvs: Vec<KeyValue>,
    },
}

/// The reply to an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Reply to a range read.
    Range(RangeReply),
    /// Reply to a transaction.
    Txn {
        /// The header's revision: that of its changes or, if it changed nothing, the current one.
        revision: i64,
        /// Whether the compares held.
        succeeded: bool,
        /// One reply per executed operation.
        results: Vec<OpReply>,
    },
    /// Reply to a lease grant.
    LeaseGrant {
        /// The header's revision.
        revision: i64,
        /// The granted time to live in seconds, which may be more than requested.
        ttl: i64,
    },
    /// Reply to a revocation.
    LeaseRevoke {
        /// The header's revision: that of the deletions, if the lease had keys.
        revision: i64,
    },
    /// Reply to a renewal.
    LeaseKeepAlive {
        /// The renewed time to live in seconds; zero if the lease does not exist.
        ttl: i64,
    },
    /// Reply to a compaction.
    Compact {
        /// The header's revision: some revision since the compaction took effect.
        revision: i64,
    },
    /// Reply to a defragmentation.
    Defragment,
}

impl Reply {
    /// The header's revision, where it is meaningful.
    pub fn revision(&self) -> Option<i64> {
        match self {
            Self::Range(RangeReply { revision, .. })
            | Self::Txn { revision, .. }
            | Self::LeaseGrant { revision, .. }
            | Self::LeaseRevoke { revision }
            | Self::Compact { revision } => Some(*revision),
            Self::LeaseKeepAlive { .. } | Self::Defragment => None,
        }
    }
}

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The revision has been compacted.
    Compacted,
    /// The revision is in the future.
    FutureRevision,
    /// The lease does not exist.
    LeaseNotFound,
    /// The lease exists already.
    LeaseExists,
    /// Another reason, which is not checked; the call certainly had no effect.
    Other(String),
}
