//! Newtypes of revisions and lease ids.

use std::fmt;

/// A revision: a point in the store's history. A new store is at [`Revision::FIRST`]; every transaction that changes
/// something takes the next revision. Revisions never go back, not even over a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub i64);

impl Revision {
    /// In a request: the current revision. No store is ever at this revision.
    pub const CURRENT: Self = Self(0);
    /// The revision of an empty store; the first write makes the next one.
    pub const FIRST: Self = Self(1);
    /// The compacted revision of a store that was never compacted.
    pub const NEVER_COMPACTED: Self = Self(-1);

    /// The revision after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The revision before this one.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0 - 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a lease. Zero means "no lease"; negative ids are valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl LeaseId {
    /// No lease; in a grant request: the store chooses the id.
    pub const NONE: Self = Self(0);

    /// Whether this is [`LeaseId::NONE`].
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
