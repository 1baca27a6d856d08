//! [`WrittenRevisions`]: the newest revision that the runs of each key wrote; later runs of the key read nothing
//! older.
//!
//! A fence (`fence`) delays a key until the cache of the written kind shows the write. A run that reads
//! several caches at one revision needs more: the slowest cache may still be behind the write, and the common
//! revision with it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::{Key, Revision, limits::WRITTEN_KEYS};

/// Newest own write of each key. For keys that have not written for long, the newest of all forgotten writes
/// stands in. Every cache shows that revision, so the stand-in delays no run.
#[derive(Default)]
pub(super) struct WrittenRevisions(Mutex<Generations>);

/// Two generations of entries: when the young map is full, it replaces the old one. A key costs no more than
/// its entry.
#[derive(Default)]
struct Generations {
    young: BTreeMap<Key, Revision>,
    old: BTreeMap<Key, Revision>,
    /// The newest revision among the discarded entries.
    forgotten: Revision,
}

impl WrittenRevisions {
    /// The lowest revision that a run of `key` may read.
    pub(super) fn of(&self, key: &Key) -> Revision {
        let Generations { young, old, forgotten } = &*self.0.lock();
        let known = young.get(key).or_else(|| old.get(key)).copied().unwrap_or_default();
        known.max(*forgotten)
    }

    /// Records `revision`, the newest write of a run of `key`.
    pub(super) fn note(&self, key: &Key, revision: Revision) {
        let all = &mut *self.0.lock();
        if let Some(known) = all.young.get_mut(key) {
            *known = revision.max(*known);
            return;
        }
        if all.young.len() >= WRITTEN_KEYS {
            let given_up = std::mem::replace(&mut all.old, std::mem::take(&mut all.young));
            all.forgotten = given_up.into_values().max().unwrap_or_default().max(all.forgotten);
        }
        let before = all.old.remove(key).unwrap_or_default();
        all.young.insert(key.clone(), revision.max(before));
    }

    /// Number of known keys.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let all = self.0.lock();
        all.young.len() + all.old.len()
    }
}
