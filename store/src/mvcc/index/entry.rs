//! Index entries: one key with its newest version in full and the names of its older versions.

use crate::types::record::RecordKey;
use crate::{KeyValue, Revision};
use std::sync::Arc;

/// The bounds of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionBound {
    /// The lowest revision that can still be read.
    pub(crate) revision: Revision,
    /// Versions superseded below this revision are removed: it is `revision` itself, or the next.
    superseded: Revision,
}

impl From<Revision> for CompactionBound {
    /// Keeps the version superseded exactly at the revision one compaction longer than reads need it: a watch that
    /// starts there can still return the previous version.
    fn from(revision: Revision) -> Self {
        Self { revision, superseded: revision }
    }
}

impl CompactionBound {
    /// Also removes versions that were superseded exactly at the revision.
    pub(crate) fn close(revision: Revision) -> Self {
        Self { revision, superseded: revision.next() }
    }

    /// Something can only be removed if its `garbage_at` is at most this revision.
    pub(super) fn reach(self) -> Revision {
        self.superseded
    }
}

/// A version of a key with its revision and sub-revision.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) kv: Arc<KeyValue>,
    pub(crate) main: Revision,
    pub(crate) sub: u32,
    /// Whether the version is a tombstone.
    pub(crate) dead: bool,
}

impl Version {
    pub(crate) fn live(&self) -> Option<&Arc<KeyValue>> {
        (!self.dead).then_some(&self.kv)
    }

    fn position(&self) -> (Revision, u32) {
        (self.main, self.sub)
    }

    fn mark(&self) -> OlderVersion {
        OlderVersion { main: self.main, sub: self.sub, dead: self.dead }
    }
}

/// An older version's name: its revision, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OlderVersion {
    main: Revision,
    sub: u32,
    dead: bool,
}

/// A key's version at some revision.
#[derive(Clone, Debug)]
pub(crate) enum VersionRef<'a> {
    /// The newest version, whose content is in memory.
    Newest(&'a Arc<KeyValue>),
    /// An older version, to be read from the engine.
    Stored(RecordKey),
}

/// The older versions of a key, ascending. Boxed in the entry, so that the many keys without any pay one word.
#[derive(Clone, Debug, Default)]
struct OlderVersions(Vec<OlderVersion>);

/// A key in the index with its versions.
#[derive(Clone, Debug)]
pub(crate) struct KeyEntry {
    newest: Version,
    older: Option<Box<OlderVersions>>,
}

impl KeyEntry {
    pub(super) fn new(version: Version) -> Self {
        Self { newest: version, older: None }
    }

    pub(super) fn push(&mut self, version: Version) {
        debug_assert!(version.position() > self.newest.position(), "versions of a key arrive in order");
        let older = std::mem::replace(&mut self.newest, version);
        self.add_older(older.mark());
    }

    /// Adds a version in any order. [`KeyEntry::restored`] must be called afterwards.
    pub(super) fn restore(&mut self, version: Version) {
        let newer = version.position() > self.newest.position();
        let older = if newer { std::mem::replace(&mut self.newest, version) } else { version };
        self.add_older(older.mark());
    }

    /// Sorts the older versions and removes duplicates.
    pub(super) fn restored(&mut self) {
        let newest = self.newest.position();
        if let Some(OlderVersions(marks)) = self.older.as_deref_mut() {
            marks.sort_unstable_by_key(|mark| (mark.main, mark.sub));
            marks.dedup();
            marks.pop_if(|mark| (mark.main, mark.sub) == newest);
            marks.shrink_to_fit();
            if marks.is_empty() {
                self.older = None;
            }
        }
    }

    fn add_older(&mut self, mark: OlderVersion) {
        self.older.get_or_insert_default().0.push(mark);
    }

    fn older(&self) -> &[OlderVersion] {
        self.older.as_ref().map_or(&[], |older| &older.0)
    }

    /// The key, read from the newest version: keys are not stored twice.
    pub(crate) fn key(&self) -> &[u8] {
        self.newest.kv.key()
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.newest.dead
    }

    /// The newest version, possibly a tombstone.
    pub(crate) fn newest(&self) -> &Version {
        &self.newest
    }

    pub(crate) fn newest_revision(&self) -> Revision {
        self.newest.main
    }

    /// The key's version at `revision`; none if it did not exist.
    pub(crate) fn at(&self, revision: Revision) -> Option<VersionRef<'_>> {
        if self.newest.main <= revision {
            return self.newest.live().map(VersionRef::Newest);
        }
        let older = self.older();
        let at = older.partition_point(|mark| mark.main <= revision).checked_sub(1)?;
        let mark = older[at];
        (!mark.dead).then_some(VersionRef::Stored(RecordKey::new(mark.main, mark.sub)))
    }

    /// The version that a compaction at `revision` keeps for reads: the newest up to it, unless that is a tombstone. As
    /// in etcd, a tombstone at `revision` itself hides a later put of the same revision.
    pub(crate) fn kept_at(&self, revision: Revision) -> Option<RecordKey> {
        let Version { main, sub, dead, .. } = self.newest;
        let mut kept = None;
        for mark in self.older().iter().copied().chain([OlderVersion { main, sub, dead }]) {
            if mark.main > revision {
                break;
            }
            kept = (!mark.dead).then_some(RecordKey::new(mark.main, mark.sub));
            if mark.dead && mark.main == revision {
                break;
            }
        }
        kept
    }

    /// The names of all kept versions, ascending, each with whether it is a tombstone.
    pub(crate) fn record_keys(&self) -> impl Iterator<Item = (RecordKey, bool)> + '_ {
        let Version { main, sub, dead, .. } = self.newest;
        let marks = self.older().iter().copied().chain([OlderVersion { main, sub, dead }]);
        marks.map(|mark| (RecordKey::new(mark.main, mark.sub), mark.dead))
    }

    /// The revisions of all kept versions.
    pub(crate) fn revisions(&self) -> impl Iterator<Item = Revision> + '_ {
        self.older().iter().map(|mark| mark.main).chain([self.newest.main])
    }

    /// The lowest revision at which a compaction removes something.
    pub(super) fn garbage_at(&self) -> Option<Revision> {
        let (newest, older) = (&self.newest, self.older());
        let successor = older.get(1).map_or(newest.main, |mark| mark.main);
        let superseded =
            older.first().map(|first| if first.dead { first.main.next() } else { successor.next() });
        superseded.or(newest.dead.then_some(newest.main.next()))
    }

    /// Removes the versions that no read at or above the cut's revision needs. Returns whether any version is left.
    ///
    /// A version is removed if its successor is below `cut.superseded`; a tombstone if its own revision is below
    /// `cut.revision`.
    pub(super) fn compact(&mut self, cut: CompactionBound, removed: &mut Vec<RecordKey>) -> bool {
        let newest = &self.newest;
        if let Some(older) = &mut self.older {
            older.compact(newest.main, cut, removed);
            if older.0.is_empty() {
                self.older = None;
            }
        }
        let gone = self.older.is_none() && newest.dead && newest.main < cut.revision;
        if gone {
            removed.push(RecordKey::new(newest.main, newest.sub));
        }
        !gone
    }
}

impl OlderVersions {
    /// Compacts all versions except the newest, whose revision is `newest`.
    fn compact(&mut self, newest: Revision, cut: CompactionBound, removed: &mut Vec<RecordKey>) {
        let Self(marks) = self;
        let mut kept = 0;
        for at in 0..marks.len() {
            let mark = marks[at];
            let successor = marks.get(at + 1).map_or(newest, |next| next.main);
            if successor < cut.superseded || mark.dead && mark.main < cut.revision {
                removed.push(RecordKey::new(mark.main, mark.sub));
            } else {
                marks[kept] = mark;
                kept += 1;
            }
        }
        marks.truncate(kept);
        marks.shrink_to(kept * 2);
    }
}
