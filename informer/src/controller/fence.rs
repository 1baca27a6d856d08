//! [`Fences`]: what a run wrote and which cache must show it before the key runs again; [`Unseen`]: the same for all keys of a
//! controller, as long as a cache does not show it.
//!
//! Nothing waits here: each cache is given a part of the key's ticket to hold until it shows the write.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use crate::{Informer, Key, Lease, Object, Revision, Revisions, Ticket, Verdict, limits::OWN_WRITE_DEADLINE};

/// The newest write to what one informer caches.
#[derive(Clone)]
struct Fence {
    cache: Cache,
    revision: Revision,
    /// Leaves something with the informer until its cache shows a revision.
    hold: Arc<dyn Fn(Revision, Held) + Send + Sync>,
}

/// Tells informers apart.
#[derive(Clone)]
struct Cache(Weak<dyn Send + Sync>);

impl PartialEq for Cache {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

/// At most one fence per cache.
#[derive(Clone, Default)]
pub(super) struct Fences(Vec<Fence>);

impl Fences {
    /// Adds a write, unless the cache shows it already, or can never be known to.
    pub(super) fn add<T: Object>(&mut self, informer: &Informer<T>, revision: Revision) {
        if informer.revisions() == Revisions::Opaque || informer.shared().has(revision) {
            return;
        }
        let shared: Arc<dyn Send + Sync> = informer.shared().clone();
        let cache = Cache(Arc::downgrade(&shared));
        if let Some(known) = self.0.iter_mut().find(|fence| fence.cache == cache) {
            known.revision = known.revision.max(revision);
            return;
        }
        let informer = informer.clone();
        let hold = Arc::new(move |revision, held: Held| informer.hold_until(revision, held));
        self.0.push(Fence { cache, revision, hold });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds others; gives back those that were not known.
    fn join(&mut self, others: Self) -> Vec<Fence> {
        let known = |mine: &[Fence], other: &Fence| {
            mine.iter().any(|fence| fence.cache == other.cache && fence.revision >= other.revision)
        };
        let new: Vec<_> = others.0.into_iter().filter(|other| !known(&self.0, other)).collect();
        self.0.retain(|fence| new.iter().all(|other| other.cache != fence.cache));
        self.0.extend(new.iter().cloned());
        new
    }

    /// Forgets what `cache` shows.
    fn shown(&mut self, cache: &Cache, revision: Revision) {
        self.0.retain(|fence| fence.cache != *cache || fence.revision > revision);
    }
}

/// The writes that caches do not show yet, of all keys. Clones are the same. With the last one everything is forgotten, although
/// informers may hold their part for longer.
#[derive(Clone, Default)]
pub(super) struct Unseen(Arc<Mutex<Keys>>);

type Keys = BTreeMap<Key, Waiting>;

/// A key that waits, or has waited in vain.
#[derive(Default)]
struct Waiting {
    fences: Fences,
    /// Keeps the key parked until the fences are gone.
    ticket: Option<Ticket>,
}

impl Unseen {
    /// Those of earlier runs of `key`. None, unless the key ran because the time to wait for them was over.
    pub(super) fn of(&self, key: &Key) -> Fences {
        self.0.lock().get(key).map(|waiting| waiting.fences.clone()).unwrap_or_default()
    }

    /// Ends the lease of a run: now, or when the caches show what it and the runs before it wrote. What comes meanwhile waits
    /// with the key, and the worker is free for others.
    pub(super) fn conclude(&self, lease: Lease<Key>, verdict: Verdict, fences: Fences) {
        if fences.is_empty() {
            lease.conclude(verdict);
            return;
        }
        let key = lease.key().clone();
        let ticket = lease.park(verdict, OWN_WRITE_DEADLINE);
        let (new, old) = {
            let mut all = self.0.lock();
            let waiting = all.entry(key.clone()).or_default();
            (waiting.fences.join(fences), waiting.ticket.replace(ticket))
        };
        drop(old);
        // What a cache shows already it lets go at once.
        for Fence { cache, revision, hold } in new {
            hold(revision, Held { keys: Arc::downgrade(&self.0), key: key.clone(), cache, revision });
        }
    }

    /// Keys that wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// What an informer holds until its cache shows a write, or until it ends: then there is nothing to wait for.
pub(super) struct Held {
    keys: Weak<Mutex<Keys>>,
    key: Key,
    cache: Cache,
    revision: Revision,
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(keys) = self.keys.upgrade() else { return };
        let mut keys = keys.lock();
        let Some(waiting) = keys.get_mut(&self.key) else { return };
        waiting.fences.shown(&self.cache, self.revision);
        if waiting.fences.is_empty() {
            let done = keys.remove(&self.key);
            // The ticket is a matter of the queue's lock.
            drop(keys);
            drop(done);
        }
    }
}
