//! Leaves of the index: sorted entries with search keys. A separate vector has the part of each key that distinguishes
//! it from its neighbours, so that a search touches few cache lines.

use super::tree::{LEAF, grow, split_off};
use super::{KeyEntry, Version};

/// A leaf: a sorted run of entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaf {
    /// Entries, ascending by key.
    entries: Vec<KeyEntry>,
    /// Length of the prefix that all keys share.
    shared: usize,
    /// For each entry, the eight bytes of its key after the shared prefix.
    search_keys: Vec<u64>,
}

/// The first eight bytes as a number with the same order. Shorter input is padded, so it may compare equal to longer
/// input.
pub(crate) fn lead(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; 8];
    first[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(first)
}

/// Length of the common prefix.
pub(crate) fn alike(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Leaf {
    fn of(entries: Vec<KeyEntry>) -> Self {
        let mut leaf = Self { entries, ..Self::default() };
        leaf.recompute_search_keys();
        leaf
    }

    pub(super) fn entries(&self) -> &[KeyEntry] {
        &self.entries
    }

    pub(super) fn entries_mut(&mut self) -> &mut [KeyEntry] {
        &mut self.entries
    }

    /// Number of entries below `key`.
    pub(super) fn rank(&self, key: &[u8]) -> usize {
        let Some(first) = self.entries.first() else { return 0 };
        let (head, tail) = key.split_at(key.len().min(self.shared));
        match head.cmp(&first.key()[..self.shared]) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Greater => self.entries.len(),
            std::cmp::Ordering::Equal => {
                let lead = lead(tail);
                let below = self.search_keys.partition_point(|other| *other < lead);
                let equal = self.search_keys[below..].partition_point(|other| *other == lead);
                let equal = &self.entries[below..below + equal];
                below + equal.partition_point(|entry| entry.key() < key)
            }
        }
    }

    /// The entry of `key`, or the index where it would be.
    pub(super) fn find(&mut self, key: &[u8]) -> Result<&mut KeyEntry, usize> {
        let at = self.rank(key);
        self.entries.get_mut(at).filter(|entry| entry.key() == key).ok_or(at)
    }

    /// Inserts a new entry at `at`. A full leaf is split first; returns its upper part.
    pub(super) fn insert(&mut self, at: usize, version: Version, last: bool) -> Option<Self> {
        let entry = KeyEntry::new(version);
        let Some(upper) = split_off(&mut self.entries, LEAF, last) else {
            self.put(at, entry);
            return None;
        };
        self.recompute_search_keys();
        let (mut upper, lower) = (Self::of(upper), self.entries.len());
        if at > lower {
            upper.put(at - lower, entry);
        } else {
            self.put(at, entry);
        }
        Some(upper)
    }

    fn put(&mut self, at: usize, entry: KeyEntry) {
        grow(&mut self.entries);
        let fits = self.entries.first().is_some_and(|first| {
            let (key, shared) = (entry.key(), &first.key()[..self.shared]);
            key.starts_with(shared)
        });
        let lead = if fits { lead(&entry.key()[self.shared..]) } else { 0 };
        self.entries.insert(at, entry);
        if fits {
            grow(&mut self.search_keys);
            self.search_keys.insert(at, lead);
        } else {
            self.recompute_search_keys();
        }
    }

    /// Keeps the entries for which `keep` returns true.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut KeyEntry) -> bool) {
        let before = self.entries.len();
        self.entries.retain_mut(keep);
        if self.entries.len() < before {
            self.entries.shrink_to(self.entries.len().next_multiple_of(super::tree::GROW));
            self.recompute_search_keys();
        }
    }

    /// Appends the entries of the next leaf.
    pub(super) fn append(&mut self, mut right: Self) {
        self.entries.append(&mut right.entries);
        self.recompute_search_keys();
    }

    /// Recomputes the shared prefix and the search keys.
    fn recompute_search_keys(&mut self) {
        let ends = self.entries.first().zip(self.entries.last());
        self.shared = ends.map_or(0, |(first, last)| alike(first.key(), last.key()));
        let mut search_keys = Vec::with_capacity(self.entries.capacity());
        search_keys.extend(self.entries.iter().map(|entry| lead(&entry.key()[self.shared..])));
        self.search_keys = search_keys;
    }

    /// Panics if the leaf is inconsistent.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.entries.len() <= LEAF, "a leaf is bounded");
        let first = self.entries.first().map_or(&[][..], |entry| &entry.key()[..self.shared]);
        assert!(self.entries.iter().all(|entry| entry.key().starts_with(first)), "keys begin alike");
        let search_keys: Vec<_> =
            self.entries.iter().map(|entry| lead(&entry.key()[self.shared..])).collect();
        assert_eq!(self.search_keys, search_keys, "the search keys match the keys");
    }
}
