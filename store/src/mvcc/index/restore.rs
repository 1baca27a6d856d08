//! Bulk construction of the index during recovery, from versions in any order.

use super::{Index, KeyEntry, Version};

/// An index under construction; usable after [`IndexBuilder::finish`].
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    index: Index,
}

impl IndexBuilder {
    /// Adds a version. Fastest if its key is near the previous one's.
    pub(crate) fn add(&mut self, version: Version) {
        self.index.insert(version, KeyEntry::restore);
    }

    /// Sorts the versions of each entry and returns the index.
    pub(crate) fn finish(mut self) -> Index {
        self.index.root.visit_mut(&mut KeyEntry::restored);
        self.index
    }
}
