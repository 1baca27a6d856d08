//! [`Blob`]: an immutable key or value, which are arbitrary bytes but mostly text.

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// Bytes that are cheap to clone. Serialized as a string if they are UTF-8, otherwise as a list of numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blob(Arc<[u8]>);

impl Blob {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the blob has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Blob {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl<T: AsRef<[u8]>> From<T> for Blob {
    fn from(bytes: T) -> Self {
        Self(Arc::from(bytes.as_ref()))
    }
}

impl fmt::Display for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        let cut = self.0.len().min(SHOWN);
        write!(f, "{}{}", self.0[..cut].escape_ascii(), if cut < self.0.len() { "…" } else { "" })
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(self.0.iter()),
        }
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrBytes)
    }
}

struct TextOrBytes;

impl<'de> Visitor<'de> for TextOrBytes {
    type Value = Blob;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of bytes")
    }

    fn visit_str<E>(self, text: &str) -> Result<Blob, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Blob, A::Error> {
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes.into())
    }
}
