//! The writer's view: the published index overlaid with staged changes. Readers do not see the overlay, so no unsynced
//! change is visible.

use crate::mvcc::index::{Index, Version, VersionRef};
use crate::{KeyRange, KeyValue, Revision};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Staged versions per key, in order. Once published, a version stays until the writer forgets it; until then it hides
/// the same version of the index.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    keys: BTreeMap<Bytes, Vec<Version>>,
    /// The keys of all staged versions, by ascending revision.
    order: VecDeque<(Revision, Bytes)>,
}

impl Overlay {
    /// Adds a version, whose revision must be the newest.
    pub(crate) fn push(&mut self, version: Version) {
        let key = version.kv.key_bytes();
        self.order.push_back((version.main, key.clone()));
        self.keys.entry(key).or_default().push(version);
    }

    /// Forgets the versions up to `revision`, which the index now has.
    pub(crate) fn forget(&mut self, revision: Revision) {
        if self.order.back().is_none_or(|(newest, _)| *newest <= revision) {
            self.order.clear();
            self.keys.clear();
            return;
        }
        while self.order.front().is_some_and(|(main, _)| *main <= revision) {
            let (_, key) = self.order.pop_front().expect("it is there");
            let versions = self.keys.get_mut(&key).expect("a staged key has its versions");
            if versions.len() == 1 {
                self.keys.remove(&key);
            } else {
                versions.remove(0);
            }
        }
    }

    fn newest(&self, key: &[u8]) -> Option<&Version> {
        if self.keys.is_empty() {
            return None;
        }
        self.keys.get(key).map(|versions| versions.last().expect("a staged key has a version"))
    }

    fn range<'a>(&'a self, keys: &'a KeyRange) -> impl Iterator<Item = (&'a Bytes, &'a [Version])> {
        // `range` on an empty map costs nothing. On others the lower bound keeps the iteration short.
        let from = self
            .keys
            .range::<[u8], _>((std::ops::Bound::Included(&keys.start[..]), std::ops::Bound::Unbounded));
        from.take_while(|(key, _)| !keys.is_past(key)).map(|(key, versions)| (key, &versions[..]))
    }
}

/// The published index and the overlay of staged versions.
#[derive(Clone, Copy)]
pub(crate) struct StagedView<'a> {
    pub(crate) index: &'a Index,
    pub(crate) overlay: &'a Overlay,
}

impl<'a> StagedView<'a> {
    /// The newest version of a key, tombstones included.
    fn newest(self, key: &[u8]) -> Option<&'a Version> {
        self.overlay.newest(key).or_else(|| self.index.get(key).map(|entry| entry.newest()))
    }

    /// The current version of a key; none if it does not exist.
    pub(crate) fn live(self, key: &[u8]) -> Option<&'a Arc<KeyValue>> {
        self.newest(key)?.live()
    }

    /// The version of a key before `revision`, which is staged or about to be staged.
    pub(crate) fn before(self, key: &[u8], revision: Revision) -> Option<&'a Arc<KeyValue>> {
        let staged = self.overlay.keys.get(key).map_or(&[][..], |versions| versions);
        match staged.iter().rev().find(|version| version.main < revision) {
            Some(version) => version.live(),
            None => self.index.get(key)?.newest().live(),
        }
    }

    /// The current versions of the keys in a range, in key order.
    pub(crate) fn live_in(self, keys: &'a KeyRange) -> Vec<&'a Arc<KeyValue>> {
        let mut found = Vec::new();
        self.visit(keys, Revision(i64::MAX), |it| match it {
            VersionRef::Newest(kv) => found.push(kv),
            VersionRef::Stored(_) => unreachable!("at the end of time every version is the newest"),
        });
        found
    }

    /// Visits the keys of a range as of `revision`, in key order. A staged version counts as newest, since its bytes
    /// are in memory.
    pub(crate) fn visit(self, keys: &'a KeyRange, revision: Revision, mut visit: impl FnMut(VersionRef<'a>)) {
        let mut staged = self.overlay.range(keys).peekable();
        let mut published = self.index.range(keys).peekable();
        loop {
            let order = match (staged.peek(), published.peek()) {
                (None, None) => return,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((key, _)), Some(entry)) => key.as_ref().cmp(entry.key()),
            };
            let over = if order.is_le() { staged.next() } else { None };
            let under = if order.is_ge() { published.next() } else { None };
            let version =
                over.and_then(|(_, versions)| versions.iter().rev().find(|version| version.main <= revision));
            let found = match version {
                Some(version) => version.live().map(VersionRef::Newest),
                None => under.and_then(|entry| entry.at(revision)),
            };
            found.into_iter().for_each(&mut visit);
        }
    }

    /// Number of keys of a range that exist at `revision`.
    pub(crate) fn count(self, keys: &'a KeyRange, revision: Revision) -> usize {
        if self.overlay.range(keys).next().is_none() {
            return self.index.count(keys, revision);
        }
        let mut count = 0;
        self.visit(keys, revision, |_| count += 1);
        count
    }
}
