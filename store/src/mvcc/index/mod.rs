//! The index: every key with its newest version in full and the names of its older versions. The engine has the older
//! versions' content.
//!
//! It is a tree of sorted leaves with sums in its nodes (see `tree`). Lookups are binary searches, scans read dense
//! memory, and the cost of counting is the tree's depth. A clone shares every node until one of the two changes it.

mod entry;
mod leaf;
mod restore;
#[cfg(test)]
mod tests;
mod tree;

use self::leaf::Leaf;
use self::tree::{CompactStep, Node};
use crate::types::record::RecordKey;
use crate::{End, KeyRange, Revision};
pub(crate) use entry::{CompactionBound, KeyEntry, Version, VersionRef};
pub(crate) use leaf::{alike, lead};
pub(crate) use restore::IndexBuilder;
use std::slice;

/// A sorted map from keys to entries.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    root: Node,
}

impl Default for Index {
    fn default() -> Self {
        Self { root: Node::empty() }
    }
}

impl Index {
    /// The entry of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&KeyEntry> {
        let (leaf, _) = self.root.leaf(key);
        leaf.entries().get(leaf.rank(key)).filter(|entry| entry.key() == key)
    }

    /// Adds `version` as the newest of its key. Versions of a key must arrive in order.
    pub(crate) fn apply(&mut self, version: Version) {
        self.insert(version, KeyEntry::push);
    }

    fn insert(&mut self, version: Version, push: fn(&mut KeyEntry, Version)) {
        if let Some(upper) = self.root.apply(version, true, push).split() {
            self.root.grow(upper);
        }
    }

    /// The entries of a range, ascending by key.
    pub(crate) fn range<'a>(&'a self, keys: &'a KeyRange) -> impl Iterator<Item = &'a KeyEntry> + 'a {
        if keys.end == End::Single {
            let found = self.get(&keys.start).map_or(&[][..], slice::from_ref);
            return RangeIter { index: self, keys, entries: found.iter(), next: None };
        }
        let (leaf, next) = self.root.leaf(&keys.start);
        let entries = inside(keys, leaf, next).get(leaf.rank(&keys.start)..).unwrap_or_default();
        RangeIter { index: self, keys, entries: entries.iter(), next }
    }

    /// Number of keys of a range that exist at a revision. The cost depends on the size of the range only where keys
    /// have changed after `revision`.
    pub(crate) fn count(&self, keys: &KeyRange, revision: Revision) -> usize {
        let to = match &keys.end {
            End::Single => {
                return usize::from(self.get(&keys.start).is_some_and(|entry| entry.at(revision).is_some()));
            }
            End::Before(end) if *end <= keys.start => return 0,
            End::Before(end) => Some(&end[..]),
            End::Unbounded => None,
        };
        self.root.count(Some(&keys.start[..]).filter(|start| !start.is_empty()), to, revision)
    }

    /// All entries, ascending by key.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyEntry> {
        let mut next = Some(&[][..]);
        let leaves = std::iter::from_fn(move || {
            let (leaf, behind) = self.root.leaf(next?);
            next = behind;
            Some(leaf.entries())
        });
        leaves.flatten()
    }

    /// The entries of the leaf that contains `from`, and the start of the next leaf: a traversal in steps, between
    /// which the index may change.
    pub(crate) fn step(&self, from: &[u8]) -> (&[KeyEntry], Option<Box<[u8]>>) {
        let (leaf, next) = self.root.leaf(from);
        (leaf.entries(), next.map(Into::into))
    }

    /// Compacts the first leaf at or after `from` that has something to remove, and appends the removed versions to
    /// `removed`. Returns the key to continue from. Idempotent.
    pub(crate) fn compact(
        &mut self,
        from: &[u8],
        cut: impl Into<CompactionBound>,
        removed: &mut Vec<RecordKey>,
    ) -> Option<Box<[u8]>> {
        let CompactStep::Leaf(next) = self.root.sweep(Some(from), cut.into(), removed) else { return None };
        self.root.shrink();
        next
    }

    /// Panics if the index is inconsistent.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        tree::check(&self.root);
        assert!(self.iter().is_sorted_by(|a, b| a.key() < b.key()), "keys ascend");
    }
}

/// The entries of a leaf that are before the end of a range; `next` is the start of the next leaf.
fn inside<'a>(keys: &KeyRange, leaf: &'a Leaf, next: Option<&[u8]>) -> &'a [KeyEntry] {
    let entries = leaf.entries();
    match &keys.end {
        End::Before(end) if next.is_none_or(|next| next > &end[..]) => &entries[..leaf.rank(end)],
        End::Before(_) | End::Single | End::Unbounded => entries,
    }
}

/// Iterator of [`Index::range`].
struct RangeIter<'a> {
    index: &'a Index,
    keys: &'a KeyRange,
    /// Remaining entries of the current leaf.
    entries: slice::Iter<'a, KeyEntry>,
    /// Start of the next leaf.
    next: Option<&'a [u8]>,
}

impl<'a> Iterator for RangeIter<'a> {
    type Item = &'a KeyEntry;

    fn next(&mut self) -> Option<&'a KeyEntry> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(entry);
            }
            let from = self.next.take().filter(|from| !self.keys.is_past(from))?;
            let (leaf, next) = self.index.root.leaf(from);
            self.entries = inside(self.keys, leaf, next).iter();
            self.next = next;
        }
    }
}
