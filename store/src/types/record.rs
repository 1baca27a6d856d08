//! Records of the history: one for each change of a key, and one for the note of a revision. They are what engines store
//! and snapshots contain.

use crate::Revision;
use crate::types::event::EventKind;
use bytes::Bytes;

/// Identifies a stored version: the revision that wrote it, and its index among that revision's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordKey {
    pub(crate) main: Revision,
    pub(crate) sub: u32,
}

impl RecordKey {
    /// The sub-revision of a revision's note, which sorts after all its changes.
    pub(crate) const NOTE: u32 = u32::MAX;

    pub(crate) fn new(main: Revision, sub: u32) -> Self {
        Self { main, sub }
    }

    pub(crate) fn note(main: Revision) -> Self {
        Self { main, sub: Self::NOTE }
    }

    pub(crate) fn is_note(self) -> bool {
        self.sub == Self::NOTE
    }
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A version of a key.
    Put,
    /// The deletion of a key.
    Delete,
    /// The note of a revision.
    Note,
}

impl RecordKind {
    const ALL: [Self; 3] = [Self::Put, Self::Delete, Self::Note];

    /// The stored form.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Put => 0,
            Self::Delete => 1,
            Self::Note => 2,
        }
    }

    /// Decodes [`RecordKind::code`].
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The kind of the event that the record stores; none for a note.
    pub(crate) fn event(self) -> Option<EventKind> {
        match self {
            Self::Put => Some(EventKind::Put),
            Self::Delete => Some(EventKind::Delete),
            Self::Note => None,
        }
    }
}

impl From<EventKind> for RecordKind {
    fn from(kind: EventKind) -> Self {
        match kind {
            EventKind::Put => Self::Put,
            EventKind::Delete => Self::Delete,
        }
    }
}

/// One immutable record of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: RecordKey,
    pub(crate) kind: RecordKind,
    /// The encoded version, its tombstone, or the note.
    pub(crate) bytes: Bytes,
}
