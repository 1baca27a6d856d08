//! [`Key`]: the bytes of an encryption key, which no log shows, and [`NamedKey`], a key with its name in the
//! configuration.

use std::fmt;

/// Bytes of a key. `Debug` shows only their number.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key(Vec<u8>);

impl Key {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
}

/// A key of a provider. Its name precedes every value that is encrypted with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedKey {
    pub(super) name: String,
    pub(super) key: Key,
}
