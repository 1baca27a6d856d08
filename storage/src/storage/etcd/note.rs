//! The record that a commit stores beside its objects: its note (see `provenance`), and a stamp by which its
//! author recognizes the commit if the reply was lost. Stored under one key, which every commit overwrites:
//! etcd's history keeps the old values as long as the objects'.

use bytes::Bytes;
use kstore_nondet::Rng;

const VERSION: u8 = 1;
const STAMP: usize = 16;

/// A random number that identifies one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp([u8; STAMP]);

impl Stamp {
    /// Draws a new stamp.
    pub(super) fn new(rng: &Rng) -> Self {
        let (high, low) = (rng.next_u64(), rng.next_u64());
        Self(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
    }
}

/// The stored record of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub stamp: Stamp,
    pub text: Bytes,
}

impl Note {
    pub(super) fn encode(&self) -> Bytes {
        [&[VERSION], &self.stamp.0[..], &self.text].concat().into()
    }

    /// Decodes a record; `None` if it has another version or was not written by kstore.
    pub(super) fn decode(bytes: &Bytes) -> Option<Self> {
        let stamp = bytes.strip_prefix(&[VERSION])?.first_chunk()?;
        Some(Self { stamp: Stamp(*stamp), text: bytes.slice(1 + STAMP..) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_survives_its_encoding_and_garbage_is_no_note() {
        let rng = Rng::seeded(1);
        let note = Note { stamp: Stamp::new(&rng), text: Bytes::from_static(b"why") };
        assert_eq!(Note::decode(&note.encode()), Some(note.clone()));
        assert_ne!(note.stamp, Stamp::new(&rng));
        for garbage in [&b""[..], b"\x01short", b"\x02................."] {
            assert_eq!(Note::decode(&Bytes::from_static(garbage)), None);
        }
    }
}
