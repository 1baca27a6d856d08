//! One version of a key, with the bytes that represent it everywhere. Not the index that finds it.

use std::fmt;

use bytes::Bytes;

use crate::codec::kv as codec;
use crate::{LeaseId, Revision};

/// One version of a key. Encoded once, when it is written, in the form of etcd's `mvccpb.KeyValue`; log, engine, watchers
/// and façades share those bytes, and key and value are slices of them.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyValue {
    encoded: Bytes,
    key: codec::Span,
    value: codec::Span,
    create_revision: Revision,
    mod_revision: Revision,
    version: i64,
    lease: LeaseId,
}

/// The numbers of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The revision of the put that began this generation of the key; zero in a deletion.
    pub create_revision: Revision,
    /// The revision that made this version.
    pub mod_revision: Revision,
    /// How many puts the key has had since it was created; zero in a deletion.
    pub version: i64,
    /// The lease the key hangs on.
    pub lease: LeaseId,
}

impl KeyValue {
    /// Encodes a version. Copies key and value once.
    pub fn new(key: &[u8], value: &[u8], stamp: Stamp) -> Self {
        let (encoded, key, value) = codec::encode(key, value, &stamp);
        Self::from_parts(encoded, key, value, stamp)
    }

    /// What stands in the history for a deletion: the key and the revision that deleted it.
    pub(crate) fn tombstone(key: &[u8], mod_revision: Revision) -> Self {
        Self::new(key, &[], Stamp { mod_revision, ..Stamp::default() })
    }

    /// Reads the encoded form; shares `encoded`. None if it is not a well-formed version.
    pub fn decode(encoded: Bytes) -> Option<Self> {
        let (key, value, stamp) = codec::decode(&encoded)?;
        Some(Self::from_parts(encoded, key, value, stamp))
    }

    fn from_parts(encoded: Bytes, key: codec::Span, value: codec::Span, stamp: Stamp) -> Self {
        let Stamp { create_revision, mod_revision, version, lease } = stamp;
        Self { encoded, key, value, create_revision, mod_revision, version, lease }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.encoded[self.key.range()]
    }

    /// The key, sharing this version's bytes.
    pub fn key_bytes(&self) -> Bytes {
        self.encoded.slice(self.key.range())
    }

    /// The value; empty in a deletion or a keys-only answer.
    pub fn value(&self) -> &[u8] {
        &self.encoded[self.value.range()]
    }

    /// The value, sharing this version's bytes.
    pub fn value_bytes(&self) -> Bytes {
        self.encoded.slice(self.value.range())
    }

    /// The whole version as `mvccpb.KeyValue` (key 1, create_revision 2, mod_revision 3, version 4, value 5, lease 6;
    /// default fields left out).
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// The revision of the put that began this generation of the key; zero in a deletion.
    pub fn create_revision(&self) -> Revision {
        self.create_revision
    }

    /// The revision that made this version.
    pub fn mod_revision(&self) -> Revision {
        self.mod_revision
    }

    /// How many puts the key has had since it was created: 1 for the first.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The lease the key hangs on, or [`LeaseId::NONE`].
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// All the numbers at once.
    pub fn stamp(&self) -> Stamp {
        let Self { create_revision, mod_revision, version, lease, .. } = *self;
        Stamp { create_revision, mod_revision, version, lease }
    }

    /// The same version without its value. Shares the bytes unless a lease follows the value.
    pub(crate) fn without_value(&self) -> Self {
        if self.value == codec::Span::EMPTY {
            return self.clone();
        }
        if self.lease.is_none() {
            let encoded = self.encoded.slice(codec::end_before_value(self.value));
            return Self { encoded, value: codec::Span::EMPTY, ..*self };
        }
        Self::new(self.key(), &[], self.stamp())
    }
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}={}@{}(c{} v{} l{})",
            self.key().escape_ascii(),
            self.value().escape_ascii(),
            self.mod_revision,
            self.create_revision,
            self.version,
            self.lease
        )
    }
}
