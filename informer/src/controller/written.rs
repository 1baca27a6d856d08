//! [`Written`]: the newest revision that the runs of each key wrote, below which no later run of the key reads.
//!
//! A fence (`fence`) keeps a key until the cache of what it wrote shows the write. That is not enough for a run that reads several
//! caches at one revision: the slowest of them may still be behind the write, and the common revision with it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::{Key, Revision, limits::WRITTEN_KEYS};

/// The newest own write of each key. Of keys that have not written for long only the newest write of all is known, which is as
/// good: every cache shows it.
#[derive(Default)]
pub(super) struct Written(Mutex<Generations>);

/// Two maps, of which the older is given up as a whole when the younger is full: no cost for a key beyond its own entry.
#[derive(Default)]
struct Generations {
    young: BTreeMap<Key, Revision>,
    old: BTreeMap<Key, Revision>,
    /// The newest write that was given up.
    forgotten: Revision,
}

impl Written {
    /// The least revision that a run of `key` may read.
    pub(super) fn of(&self, key: &Key) -> Revision {
        let Generations { young, old, forgotten } = &*self.0.lock();
        let known = young.get(key).or_else(|| old.get(key)).copied().unwrap_or_default();
        known.max(*forgotten)
    }

    /// Notes that a run of `key` wrote `revision`, the newest of its writes.
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

    /// Keys that are known.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let all = self.0.lock();
        all.young.len() + all.old.len()
    }
}
