//! One key of the index: its newest version in full, the names of its older ones.

use std::sync::Arc;

use crate::commit::RecordKey;
use crate::{KeyValue, Revision};

/// A version with its place in history.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) kv: Arc<KeyValue>,
    pub(crate) main: Revision,
    pub(crate) sub: u32,
    /// It is a deletion.
    pub(crate) dead: bool,
}

impl Version {
    pub(crate) fn live(&self) -> Option<&Arc<KeyValue>> {
        (!self.dead).then_some(&self.kv)
    }
}

/// An older version: where it is, not what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    main: Revision,
    sub: u32,
    dead: bool,
}

/// What a key was at some revision.
#[derive(Clone, Debug)]
pub(crate) enum Found<'a> {
    /// The version that is still the newest.
    Newest(&'a Arc<KeyValue>),
    /// An older one, to be fetched.
    Stored(RecordKey),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Entry {
    key: Box<[u8]>,
    newest: Version,
    /// Ascending.
    older: Vec<Mark>,
}

impl Entry {
    pub(super) fn new(version: Version) -> Self {
        Self { key: version.kv.key().into(), newest: version, older: Vec::new() }
    }

    pub(super) fn push(&mut self, version: Version) {
        debug_assert!(
            (version.main, version.sub) > (self.newest.main, self.newest.sub),
            "versions of a key arrive in order"
        );
        let Version { main, sub, dead, .. } = self.newest;
        self.older.push(Mark { main, sub, dead });
        self.newest = version;
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.newest.dead
    }

    /// The newest version, deletion or not.
    pub(crate) fn newest(&self) -> &Version {
        &self.newest
    }

    pub(crate) fn newest_revision(&self) -> Revision {
        self.newest.main
    }

    /// What the key was at `revision`; none if it did not exist.
    pub(crate) fn at(&self, revision: Revision) -> Option<Found<'_>> {
        if self.newest.main <= revision {
            return self.newest.live().map(Found::Newest);
        }
        let mark = self.older.iter().rev().find(|mark| mark.main <= revision)?;
        (!mark.dead).then_some(Found::Stored(RecordKey::new(mark.main, mark.sub)))
    }

    /// The version that a compaction at `revision` keeps for reads: the newest up to it, unless that is a deletion. A
    /// deletion at `revision` itself hides what the same revision put behind it, as it does in etcd.
    pub(crate) fn kept_at(&self, revision: Revision) -> Option<RecordKey> {
        let Version { main, sub, dead, .. } = self.newest;
        let mut kept = None;
        for mark in self.older.iter().copied().chain([Mark { main, sub, dead }]) {
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

    /// The revisions of all versions that are kept.
    pub(crate) fn revisions(&self) -> impl Iterator<Item = Revision> + '_ {
        self.older.iter().map(|mark| mark.main).chain([self.newest.main])
    }

    /// The lowest revision whose compaction removes something.
    pub(super) fn garbage_at(&self) -> Option<Revision> {
        let newest = &self.newest;
        let successor = self.older.get(1).map_or(newest.main, |mark| mark.main);
        let superseded =
            self.older.first().map(|first| if first.dead { first.main.next() } else { successor.next() });
        superseded.or(newest.dead.then_some(newest.main.next()))
    }

    /// Removes the versions that no read at or above `revision` needs; says whether any is left.
    ///
    /// A version goes when its successor is older than `revision`; a deletion when it itself is. The version superseded
    /// exactly at `revision` stays one compaction longer than a read needs it: a watch that begins there can still say
    /// what was before.
    pub(super) fn compact(&mut self, revision: Revision, removed: &mut Vec<RecordKey>) -> bool {
        let Self { older, newest, .. } = self;
        let mut kept = 0;
        for at in 0..older.len() {
            let mark = older[at];
            let successor = older.get(at + 1).map_or(newest.main, |next| next.main);
            if successor < revision || mark.dead && mark.main < revision {
                removed.push(RecordKey::new(mark.main, mark.sub));
            } else {
                older[kept] = mark;
                kept += 1;
            }
        }
        older.truncate(kept);
        older.shrink_to(kept * 2);
        let gone = older.is_empty() && newest.dead && newest.main < revision;
        if gone {
            removed.push(RecordKey::new(newest.main, newest.sub));
        }
        !gone
    }
}
