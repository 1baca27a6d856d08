//! Report of damaged records: stored records without an intact copy.

use crate::Revision;
use bytes::Bytes;
use std::fmt;
use std::path::PathBuf;

/// A history record that was damaged on disk and has no intact copy. The store never serves it: a read that needs it
/// fails with its revision, and every other read succeeds. The report drops the record when compaction has removed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRecord {
    /// The key; none for a note, and for a record that compaction is about to remove.
    pub key: Option<Bytes>,
    /// The revision that wrote it.
    pub revision: Revision,
    /// Whether the record is the note of the revision rather than a version of a key.
    pub is_note: bool,
    /// The file in which the damage was found.
    pub file: PathBuf,
    /// Offset of the record in the file, in bytes.
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
