//! Building the index from versions that come in any order, as recovery reads them. Not for use while a store serves.

use super::{Entry, Index, Version};

/// An index being built; of no use before [`Restore::finish`].
#[derive(Debug, Default)]
pub(crate) struct Restore {
    index: Index,
}

impl Restore {
    /// Takes a version. Fastest for versions whose keys are near those of the one before.
    pub(crate) fn add(&mut self, version: Version) {
        self.index.insert(version, Entry::restore);
    }

    /// All versions are there.
    pub(crate) fn finish(mut self) -> Index {
        self.index.root.visit_mut(&mut Entry::restored);
        self.index
    }
}
