//! [`Fences`]: the writes of a run that its caches must show before the key runs again. [`PendingWrites`]: these
//! writes for all keys of a controller.
//!
//! Waiting uses no task. Each informer holds a drop guard of the key until its cache shows the write.
//!
//! A cache shows a write by its event or by a complete state, which is a list. A list can be newer than a change that undid the write: an
//! object that was created and deleted before it leaves no event, and nothing else would queue the key. A key therefore runs again if a
//! complete state replaced a cache between the start of the run that wrote and the moment when the cache shows the write. Replacements
//! before the run do not count, since the run saw their state: so a run that records an old revision does not repeat itself.
//!
//! [`WrittenRevisions`]: the newest revision that the runs of each key wrote; later runs of the key read nothing
//! older. A fence waits for the cache of the written kind. A run that reads several caches at one revision needs
//! more: the slowest cache may still be behind the write, and the common revision with it.

use crate::cache::history::StateNumber;
use crate::limits::{OWN_WRITE_DEADLINE, WRITTEN_KEYS};
use crate::shared::Shared;
use crate::{Causes, Informer, Key, KeyLease, Object, Queue, Revision, Revisions, Ticket, Verdict};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tokio_util::sync::DropGuard;

/// The newest write to the objects of one informer's cache.
#[derive(Clone)]
struct Fence {
    cache: Cache,
    revision: Revision,
    /// The newest complete state of any cache when the run began that wrote.
    begun: StateNumber,
    /// Leaves a guard with the informer until its cache shows the revision.
    hold: Arc<dyn Fn(Revision, FenceGuard) + Send + Sync>,
}

/// Identity of an informer's cache.
#[derive(Clone)]
struct Cache(Weak<Shared>);

impl PartialEq for Cache {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

impl Cache {
    /// Whether a complete state replaced the cache after `begun`. False if the informer has ended.
    fn was_replaced_after(&self, begun: StateNumber) -> bool {
        self.0.upgrade().is_some_and(|informer| informer.shown().1 > begun)
    }
}

/// Writes that caches must show, at most one fence per cache.
#[derive(Clone, Default)]
pub(super) struct Fences {
    pending: Vec<Fence>,
    /// The newest complete state of any cache when the run began.
    begun: StateNumber,
    /// The newest write of the run that a cache showed at once, if a complete state replaced that cache during the run.
    in_complete_state: Option<Revision>,
}

impl Fences {
    /// The fences of a run that begins now, with those of earlier runs.
    pub(super) fn of_run(earlier: Self) -> Self {
        Self { begun: StateNumber::newest(), in_complete_state: None, ..earlier }
    }

    /// Adds a write, unless the cache already shows it or cannot compare revisions.
    pub(super) fn add<T: Object>(&mut self, informer: &Informer<T>, revision: Revision) {
        self.add_to(informer.shared(), informer.guard(), revision);
    }

    fn add_to(&mut self, informer: &Arc<Shared>, guard: &Arc<DropGuard>, revision: Revision) {
        if informer.revisions == Revisions::Opaque {
            return;
        }
        let (shown, replaced) = informer.shown();
        if shown >= revision {
            if replaced > self.begun {
                self.in_complete_state = self.in_complete_state.max(Some(revision));
            }
            return;
        }
        let cache = Cache(Arc::downgrade(informer));
        if let Some(known) = self.pending.iter_mut().find(|fence| fence.cache == cache) {
            known.revision = known.revision.max(revision);
            return;
        }
        // The fence keeps the informer alive.
        let alive = (informer.clone(), guard.clone());
        let hold = Arc::new(move |revision, guard: FenceGuard| {
            let (informer, _) = &alive;
            informer.hold_until(revision, guard);
        });
        self.pending.push(Fence { cache, revision, begun: self.begun, hold });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Adds the fences of `others` and returns those that were not covered yet.
    fn join(&mut self, others: Self) -> Vec<Fence> {
        let known = |mine: &[Fence], other: &Fence| {
            mine.iter().any(|fence| fence.cache == other.cache && fence.revision >= other.revision)
        };
        let new: Vec<_> = others.pending.into_iter().filter(|other| !known(&self.pending, other)).collect();
        self.pending.retain(|fence| new.iter().all(|other| other.cache != fence.cache));
        self.pending.extend(new.iter().cloned());
        new
    }

    /// Removes the fence of `cache` if it is at `revision` or older.
    fn shown(&mut self, cache: &Cache, revision: Revision) {
        self.pending.retain(|fence| fence.cache != *cache || fence.revision > revision);
    }
}

/// Writes of all keys that caches do not show yet. Clones share state. Dropping the last clone discards
/// everything, although informers may keep guards for longer.
#[derive(Clone)]
pub(super) struct PendingWrites(Arc<ParkedKeys>);

struct ParkedKeys {
    /// The queue of the controller.
    queue: Queue<Key>,
    keys: Mutex<BTreeMap<Key, ParkedKey>>,
}

/// A key that waits for its writes, or whose wait has timed out.
#[derive(Default)]
struct ParkedKey {
    fences: Fences,
    /// Keeps the key parked until its fences are gone.
    ticket: Option<Ticket>,
}

impl PendingWrites {
    /// No writes yet of a controller with this queue.
    pub(super) fn new(queue: &Queue<Key>) -> Self {
        Self(Arc::new(ParkedKeys { queue: queue.clone(), keys: Mutex::default() }))
    }

    /// The fences of earlier runs of `key`. Empty unless the wait of the key has timed out.
    pub(super) fn of(&self, key: &Key) -> Fences {
        self.0.keys.lock().get(key).map(|waiting| waiting.fences.clone()).unwrap_or_default()
    }

    /// Ends the lease of a run, at once or when the caches show all its writes. Changes in the meantime stay
    /// queued with the key, and the worker is free for other keys.
    pub(super) fn conclude(&self, lease: KeyLease<Key>, verdict: Verdict, fences: Fences) {
        if let Some(revision) = fences.in_complete_state {
            // The key still runs, so it runs once more afterwards.
            self.0.queue.add(lease.key().clone(), Causes::one(revision));
        }
        if fences.is_empty() {
            lease.conclude(verdict);
            return;
        }
        let key = lease.key().clone();
        let ticket = lease.park(verdict, OWN_WRITE_DEADLINE);
        let (new, old) = {
            let mut all = self.0.keys.lock();
            let waiting = all.entry(key.clone()).or_default();
            (waiting.fences.join(fences), waiting.ticket.replace(ticket))
        };
        drop(old);
        // An informer whose cache already shows the write drops the guard at once.
        for Fence { cache, revision, begun, hold } in new {
            let parked = Arc::downgrade(&self.0);
            hold(revision, FenceGuard { parked, key: key.clone(), cache, revision, begun });
        }
    }

    /// Number of waiting keys.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.keys.lock().len()
    }
}

/// Guard that an informer holds until its cache shows a write or the informer ends. Dropping it removes the
/// fence, and queues the key if a complete state may have hidden what became of the write.
pub(super) struct FenceGuard {
    parked: Weak<ParkedKeys>,
    key: Key,
    cache: Cache,
    revision: Revision,
    begun: StateNumber,
}

impl Drop for FenceGuard {
    fn drop(&mut self) {
        let Some(parked) = self.parked.upgrade() else { return };
        // Before the release of the key, which then runs once for this and for everything else that queued it. Also if the key is not
        // parked any more because its wait has timed out.
        if self.cache.was_replaced_after(self.begun) {
            parked.queue.add(self.key.clone(), Causes::one(self.revision));
        }
        let mut keys = parked.keys.lock();
        let Some(waiting) = keys.get_mut(&self.key) else { return };
        waiting.fences.shown(&self.cache, self.revision);
        if waiting.fences.is_empty() {
            let done = keys.remove(&self.key);
            // Dropping the ticket locks the queue: release this lock first.
            drop(keys);
            drop(done);
        }
    }
}

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
    pub(super) fn record(&self, key: &Key, revision: Revision) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Key {
        Key::new("default", &format!("set-{n}"))
    }

    #[test]
    fn each_key_has_its_own_newest_write() {
        let written = WrittenRevisions::default();
        written.record(&key(1), Revision(7));
        written.record(&key(1), Revision(5));
        written.record(&key(2), Revision(9));
        assert_eq!([1, 2, 3].map(|n| written.of(&key(n))), [Revision(7), Revision(9), Revision(0)]);
    }

    #[test]
    fn forgotten_writes_are_covered_by_a_later_revision() {
        let written = WrittenRevisions::default();
        for n in 0..3 * WRITTEN_KEYS {
            written.record(&key(n), Revision(n as u64 + 1));
            assert!(written.len() <= 2 * WRITTEN_KEYS);
        }
        for n in 0..3 * WRITTEN_KEYS {
            assert!(written.of(&key(n)) > Revision(n as u64), "{n}");
        }
        let (first, last) = (written.of(&key(0)), written.of(&key(3 * WRITTEN_KEYS - 1)));
        assert_eq!((first, last), (Revision(WRITTEN_KEYS as u64), Revision(3 * WRITTEN_KEYS as u64)));
    }
}
