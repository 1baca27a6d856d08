//! Bulk construction of the index during recovery, from versions in any order.

use super::{Entry, Index, Version};

/// An index under construction; usable after [`Restore::finish`].
#[derive(Debug, Default)]
pub(crate) struct Restore {
    index: Index,
}

impl Restore {
    /// Adds a version. Fastest if its key is near the previous one's.
    pub(crate) fn add(&mut self, version: Version) {
        self.index.insert(version, Entry::restore);
    }

    /// Sorts the versions of each entry and returns the index.
    pub(crate) fn finish(mut self) -> Index {
        self.index.root.visit_mut(&mut Entry::restored);
        self.index
    }
}
