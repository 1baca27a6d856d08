//! What a client can ask, and the answers. The wire's conventions for intervals of keys, without the wire.

use serde::{Deserialize, Serialize};

use super::Blob;

/// One version of a key, as etcd tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyValue {
    /// The key.
    pub key: Blob,
    /// The value; empty in a deletion or where only keys were asked for.
    #[serde(default, skip_serializing_if = "Blob::is_empty")]
    pub value: Blob,
    /// The revision that began this generation of the key; zero in a deletion.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub create_revision: i64,
    /// The revision that made this version.
    pub mod_revision: i64,
    /// Puts since creation; zero in a deletion.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: i64,
    /// The lease the key hangs on, or zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// An interval of keys by etcd's convention: an empty end is the one key, an end of one NUL has no end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// The first key.
    pub key: Blob,
    /// The first key that does not belong to it.
    #[serde(default, skip_serializing_if = "Blob::is_empty")]
    pub end: Blob,
}

impl Keys {
    /// One key.
    pub fn one(key: impl Into<Blob>) -> Self {
        Self { key: key.into(), end: Blob::default() }
    }

    /// Keys from `key` up to but without `end`.
    pub fn between(key: impl Into<Blob>, end: impl Into<Blob>) -> Self {
        Self { key: key.into(), end: end.into() }
    }

    /// Every key.
    pub fn all() -> Self {
        Self::between([0], [0])
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let last = prefix.iter().rposition(|byte| *byte != 0xff);
        let end = last.map_or(vec![0], |last| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        });
        Self::between(if prefix.is_empty() { &[0] } else { prefix }, end)
    }

    /// Whether `key` belongs to it.
    pub fn contains(&self, key: &[u8]) -> bool {
        let first = self.key.as_bytes();
        match self.end.as_bytes() {
            [] => key == first,
            [0] => key >= first,
            end => first <= key && key < end,
        }
    }

    /// Whether no key is outside.
    pub fn is_all(&self) -> bool {
        self.end.as_bytes() == [0] && matches!(self.key.as_bytes(), [] | [0])
    }
}

/// A read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Which keys.
    #[serde(flatten)]
    pub keys: Keys,
    /// At which revision; zero reads the current one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: i64,
    /// At most this many; zero is no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limit: i64,
    /// Leave values out.
    #[serde(default)]
    pub keys_only: bool,
    /// Only count.
    #[serde(default)]
    pub count_only: bool,
    /// Content with an old state: not judged as linearizable.
    #[serde(default)]
    pub serializable: bool,
}

/// The field of a key that a guard looks at, with what it is compared to. A key that is absent has zero in every number
/// and no value, so that a guard on its value never holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Field {
    /// Puts since creation.
    Version(i64),
    /// Create revision.
    Create(i64),
    /// Mod revision.
    Mod(i64),
    /// Value, bytewise.
    Value(Blob),
    /// Lease.
    Lease(i64),
}

/// How the stored field must stand to the given one.
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

/// A guard on one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    /// The key.
    pub key: Blob,
    /// The relation.
    pub relation: Relation,
    /// What is compared.
    pub field: Field,
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Read; at the current revision only.
    Range(Range),
    /// Write one key.
    Put {
        /// The key.
        key: Blob,
        /// Its value.
        value: Blob,
        /// The lease to hang it on, or zero.
        #[serde(default, skip_serializing_if = "is_zero")]
        lease: i64,
        /// Answer with the version before.
        #[serde(default)]
        prev_kv: bool,
    },
    /// Delete keys.
    Delete {
        /// Which.
        #[serde(flatten)]
        keys: Keys,
        /// Answer with what was deleted.
        #[serde(default)]
        prev_kv: bool,
    },
}

/// If all guards hold, do the first list, otherwise the second. A plain put or deletion is one without guards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Txn {
    /// The guards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compares: Vec<Compare>,
    /// Done in order when they hold. No key may be changed twice.
    pub then: Vec<Op>,
    /// Done in order when they do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_else: Vec<Op>,
}

impl Txn {
    /// One operation without guards.
    pub fn of(op: Op) -> Self {
        Self { compares: Vec::new(), then: vec![op], or_else: Vec::new() }
    }
}

/// What a client asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Read keys.
    Range(Range),
    /// Write, delete, or both, guarded or not.
    Txn(Txn),
    /// Grant a lease. The client must choose the id, so that an unanswered grant can be recognised.
    LeaseGrant {
        /// The id; not zero.
        id: i64,
        /// Seconds.
        ttl: i64,
    },
    /// End a lease and delete its keys.
    LeaseRevoke {
        /// The id.
        id: i64,
    },
    /// Count a lease's time anew.
    LeaseKeepAlive {
        /// The id.
        id: i64,
    },
    /// Give up what only reads below this revision could see.
    Compact {
        /// The revision.
        revision: i64,
    },
    /// Win back space. Changes nothing that can be seen.
    Defragment,
}

/// The answer to a read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeReply {
    /// The header's revision. Not judged inside a transaction.
    pub revision: i64,
    /// The versions found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kvs: Vec<KeyValue>,
    /// Whether the limit cut something off.
    #[serde(default)]
    pub more: bool,
    /// How many keys there are, limit or not.
    pub count: i64,
}

/// The answer to one operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpReply {
    /// To a read.
    Range(RangeReply),
    /// To a put: the version before, if asked for and there was one.
    Put(Option<KeyValue>),
    /// To a deletion.
    Delete {
        /// How many keys went.
        deleted: i64,
        /// What they were, in key order, if asked for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prev_kvs: Vec<KeyValue>,
    },
}

/// The answer to an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To a read.
    Range(RangeReply),
    /// To a transaction.
    Txn {
        /// The header's revision: of its changes or, if it changed nothing, the current one.
        revision: i64,
        /// Whether the guards held.
        succeeded: bool,
        /// One answer per operation of the list that was done.
        results: Vec<OpReply>,
    },
    /// To a lease grant.
    LeaseGrant {
        /// The header's revision.
        revision: i64,
        /// The seconds granted, which may be more than were asked for.
        ttl: i64,
    },
    /// To the end of a lease.
    LeaseRevoke {
        /// The header's revision: of the deletions, if it had keys.
        revision: i64,
    },
    /// To a renewal; zero seconds if there is no such lease.
    LeaseKeepAlive {
        /// The seconds counted anew.
        ttl: i64,
    },
    /// To a compaction.
    Compact {
        /// The header's revision; some revision since the compaction took effect.
        revision: i64,
    },
    /// To a defragmentation.
    Defragment,
}

impl Reply {
    /// The header's revision, where it says something.
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

/// A refusal that says something about the store's state, or another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The revision has been compacted.
    Compacted,
    /// The revision is in the future.
    FutureRevision,
    /// There is no such lease.
    LeaseNotFound,
    /// There is such a lease already.
    LeaseExists,
    /// Certainly not done, for a reason that is not judged.
    Other(String),
}
