//! [`Expectations`]: what a controller has asked for and not yet seen in its cache, by uid. For sources whose revisions cannot be
//! compared; where they can, [`crate::Context::wrote`] does the same with less.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::EXPECTATIONS_TIMEOUT;

/// For each key of a controller, the creations and deletions that its cache does not show yet. A run should act only if the
/// expectations of its key are [satisfied](Expectations::satisfied); otherwise it would repeat what it has done. Clones are the same.
///
/// What the watch shows is reported with [`Expectations::seen`] and [`Expectations::gone`], before the key is queued, from a
/// subscription that delivers every event: one that merges an addition and a deletion into nothing leaves the creation expected
/// until [`EXPECTATIONS_TIMEOUT`]. Holds entries only for keys with something expected.
pub struct Expectations<K>(Arc<Mutex<State<K>>>);

struct State<K> {
    entries: BTreeMap<K, Entry>,
    /// Tells an entry from an earlier one of the same key, which calls still under way may belong to.
    next: u64,
}

struct Entry {
    number: u64,
    /// When the newest expectation was added.
    since: Instant,
    /// Creations whose call has not returned: what they make has no known uid.
    open: usize,
    /// Uids seen while creations were open; one of them may be theirs.
    early: BTreeSet<String>,
    creations: BTreeSet<String>,
    deletions: BTreeSet<String>,
}

impl<K> Clone for Expectations<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for Expectations<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { entries: BTreeMap::new(), next: 0 })))
    }
}

impl<K: Ord + Clone> Expectations<K> {
    /// Nothing is expected.
    pub fn new() -> Self {
        Self::default()
    }

    /// Expects a creation. Call it before the call that creates, and tell the ticket how that went.
    #[must_use = "a dropped ticket stands for a failed call"]
    pub fn creating(&self, key: &K) -> Creation<K> {
        let mut state = self.0.lock();
        let entry = state.expect(key);
        entry.open += 1;
        Creation { of: self.clone(), key: key.clone(), number: entry.number, open: true }
    }

    /// Expects that the object of this uid goes. Call it before the call that deletes, and tell the ticket how that went.
    #[must_use = "a dropped ticket stands for a failed call"]
    pub fn deleting(&self, key: &K, uid: &str) -> Deletion<K> {
        let mut state = self.0.lock();
        let entry = state.expect(key);
        entry.deletions.insert(uid.to_owned());
        Deletion { of: self.clone(), key: key.clone(), number: entry.number, uid: Some(uid.to_owned()) }
    }

    /// The cache shows an object of `key` with this uid.
    pub fn seen(&self, key: &K, uid: &str) {
        self.0.lock().change(key, None, |entry| entry.show(uid));
    }

    /// The object of this uid is gone, or marked as being deleted.
    pub fn gone(&self, key: &K, uid: &str) {
        self.0.lock().change(key, None, |entry| {
            entry.show(uid);
            entry.deletions.remove(uid);
        });
    }

    /// Whether the cache shows everything that was done for `key`; also if the newest expectation is older than
    /// [`EXPECTATIONS_TIMEOUT`], since then something was missed and only acting anew helps.
    pub fn satisfied(&self, key: &K) -> bool {
        let mut state = self.0.lock();
        let expired = |entry: &Entry| entry.since.elapsed() >= EXPECTATIONS_TIMEOUT;
        if state.entries.get(key).is_some_and(expired) {
            state.entries.remove(key);
        }
        !state.entries.contains_key(key)
    }

    /// Expects nothing any more for `key`: its owner is gone. Calls under way have no effect on what is expected later.
    pub fn forget(&self, key: &K) {
        self.0.lock().entries.remove(key);
    }

    /// How many keys expect something.
    pub fn len(&self) -> usize {
        self.0.lock().entries.len()
    }

    /// Whether nothing is expected at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Ord + Clone> State<K> {
    fn expect(&mut self, key: &K) -> &mut Entry {
        let next = &mut self.next;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| {
            *next += 1;
            Entry::new(*next)
        });
        entry.since = Instant::now();
        entry
    }

    /// Changes the entry of `key`, if there is one (with this number), and drops it if nothing is left to expect.
    fn change(&mut self, key: &K, number: Option<u64>, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if number.is_some_and(|number| number != entry.number) {
            return;
        }
        change(entry);
        if entry.is_empty() {
            self.entries.remove(key);
        }
    }
}

impl Entry {
    fn new(number: u64) -> Self {
        Self {
            number,
            since: Instant::now(),
            open: 0,
            early: BTreeSet::new(),
            creations: BTreeSet::new(),
            deletions: BTreeSet::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.open == 0 && self.creations.is_empty() && self.deletions.is_empty()
    }

    fn show(&mut self, uid: &str) {
        if !self.creations.remove(uid) && self.open > 0 {
            self.early.insert(uid.to_owned());
        }
    }

    /// A creation's call returned with the uid that it made, or failed.
    fn close(&mut self, made: Option<&str>) {
        self.open -= 1;
        if let Some(uid) = made
            && !self.early.remove(uid)
        {
            self.creations.insert(uid.to_owned());
        }
        if self.open == 0 {
            self.early.clear();
        }
    }
}

/// A creation under way. Dropped (the call failed, or was never made), it is no longer expected.
pub struct Creation<K: Ord + Clone> {
    of: Expectations<K>,
    key: K,
    number: u64,
    open: bool,
}

impl<K: Ord + Clone> Creation<K> {
    /// The call made the object of this uid, which may have been seen already.
    pub fn made(mut self, uid: &str) {
        self.close(Some(uid));
    }

    fn close(&mut self, made: Option<&str>) {
        if std::mem::take(&mut self.open) {
            self.of.0.lock().change(&self.key, Some(self.number), |entry| entry.close(made));
        }
    }
}

impl<K: Ord + Clone> Drop for Creation<K> {
    fn drop(&mut self) {
        self.close(None);
    }
}

/// A deletion under way. Dropped (the call failed, or was never made), it is no longer expected.
pub struct Deletion<K: Ord + Clone> {
    of: Expectations<K>,
    key: K,
    number: u64,
    /// What is no longer expected if the ticket is dropped.
    uid: Option<String>,
}

impl<K: Ord + Clone> Deletion<K> {
    /// The server took the call: the object will go, or has gone.
    pub fn sent(mut self) {
        self.uid = None;
    }
}

impl<K: Ord + Clone> Drop for Deletion<K> {
    fn drop(&mut self) {
        if let Some(uid) = self.uid.take() {
            self.of.0.lock().change(&self.key, Some(self.number), |entry| {
                entry.deletions.remove(&uid);
            });
        }
    }
}
