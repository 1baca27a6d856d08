//! One version of a key, in the encoded form that log, engine and watchers share.

use crate::types::kv_encoding as codec;
use crate::{LeaseId, Revision};
use bytes::Bytes;
use std::fmt;

/// One version of a key. It is encoded once, when it is written, in the form of etcd's `mvccpb.KeyValue`. Log, engine,
/// watchers and front ends share those bytes; key and value are slices of them.
///
/// It holds only those bytes: there may be millions of versions, and decoding a number takes a few nanoseconds.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyValue {
    encoded: Bytes,
}

/// Bytes that a key costs in addition to its content: index, framing and copies. etcd counts the same, so a quota means
/// the same.
pub(crate) const KEY_COST: u64 = 256;

/// The revisions, version and lease of a stored version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The revision of the put that began this generation of the key; zero in a deletion.
    pub create_revision: Revision,
    /// The revision that made this version.
    pub mod_revision: Revision,
    /// How many puts the key has had since it was created; zero in a deletion.
    pub version: i64,
    /// The lease that the key is attached to.
    pub lease: LeaseId,
}

impl KeyValue {
    /// Encodes a version. Copies key and value once.
    pub fn new(key: &[u8], value: &[u8], stamp: Stamp) -> Self {
        Self { encoded: codec::encode(key, value, &stamp) }
    }

    /// Encodes a deletion: the key and the revision that deleted it.
    pub(crate) fn tombstone(key: &[u8], mod_revision: Revision) -> Self {
        Self::new(key, &[], Stamp { mod_revision, ..Stamp::default() })
    }

    /// Decodes a version; shares `encoded`. None if it is not well-formed.
    pub fn decode(encoded: Bytes) -> Option<Self> {
        codec::decode(&encoded)?;
        Some(Self { encoded })
    }

    fn fields(&self) -> codec::Fields {
        codec::decode(&self.encoded).expect("a version's bytes were made or checked here")
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.encoded[codec::key(&self.encoded)]
    }

    /// The key, sharing this version's bytes.
    pub fn key_bytes(&self) -> Bytes {
        self.encoded.slice(codec::key(&self.encoded))
    }

    /// The value; empty in a deletion or a keys-only answer.
    pub fn value(&self) -> &[u8] {
        &self.encoded[self.fields().value]
    }

    /// The value, sharing this version's bytes.
    pub fn value_bytes(&self) -> Bytes {
        self.encoded.slice(self.fields().value)
    }

    /// The encoded version as `mvccpb.KeyValue` (key 1, create_revision 2, mod_revision 3, version 4, value 5, lease 6;
    /// default fields omitted).
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Bytes with which the version counts against a quota while it is the newest of its key.
    pub(crate) fn current_bytes(&self) -> u64 {
        KEY_COST + self.encoded.len() as u64
    }

    /// The revision of the put that began this generation of the key; zero in a deletion.
    pub fn create_revision(&self) -> Revision {
        self.stamp().create_revision
    }

    /// The revision that made this version.
    pub fn mod_revision(&self) -> Revision {
        self.stamp().mod_revision
    }

    /// How many puts the key has had since it was created: 1 for the first.
    pub fn version(&self) -> i64 {
        self.stamp().version
    }

    /// The lease that the key is attached to, or [`LeaseId::NONE`].
    pub fn lease(&self) -> LeaseId {
        self.stamp().lease
    }

    /// The MVCC metadata: create and mod revision, version and lease.
    pub fn stamp(&self) -> Stamp {
        self.fields().stamp
    }

    /// The same version without its value, in bytes of its own: the value's memory can be released.
    pub(crate) fn copied_without_value(&self) -> Self {
        Self::new(self.key(), &[], self.stamp())
    }

    /// The same version without its value. It shares the bytes unless a lease follows the value.
    pub(crate) fn without_value(&self) -> Self {
        let codec::Fields { value, stamp, .. } = self.fields();
        if value.is_empty() {
            return self.clone();
        }
        if stamp.lease.is_none() {
            return Self { encoded: self.encoded.slice(codec::end_before_value(&value)) };
        }
        Self::new(self.key(), &[], stamp)
    }
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamp { create_revision, mod_revision, version, lease } = self.stamp();
        let (key, value) = (self.key().escape_ascii(), self.value().escape_ascii());
        write!(f, "{key}={value}@{mod_revision}(c{create_revision} v{version} l{lease})")
    }
}
