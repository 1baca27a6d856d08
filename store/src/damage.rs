//! What is reported of stored records that were damaged and of which no copy is left.

use std::fmt;
use std::path::PathBuf;

use bytes::Bytes;

use crate::Revision;

/// A record of the history that was damaged below the store, and of which no copy is left. It is never served: a read that
/// needs it is refused, with its revision. Everything else goes on. It is gone from the report when compaction has removed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRecord {
    /// The key; none for a note, and for a record that is about to be removed anyway.
    pub key: Option<Bytes>,
    /// The revision that wrote it.
    pub revision: Revision,
    /// It is the note of the revision, not a version of a key.
    pub is_note: bool,
    /// The file in which the damage was found.
    pub file: PathBuf,
    /// Where in the file the record begins.
    pub offset: u64,
}

impl fmt::Display for DamagedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "the version of key {} at revision {}", key.escape_ascii(), self.revision),
            None if self.is_note => write!(f, "the note of revision {}", self.revision),
            None => write!(f, "a version of revision {}", self.revision),
        }?;
        write!(f, " ({}, byte {})", self.file.display(), self.offset)
    }
}
