//! [`Expectations`]: creations and deletions of a controller that its cache does not show yet, by uid. For
//! sources whose revisions cannot be compared; [`crate::Context::wrote`] is cheaper where they can.

#[cfg(test)]
mod tests;

use crate::limits::EXPECTATIONS_TIMEOUT;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

/// For each key of a controller, the creations and deletions that its cache does not show yet. A run should
/// act only if the expectations of its key are [satisfied](Expectations::satisfied); otherwise it would
/// repeat its writes. Clones share state.
///
/// Report watch events with [`Expectations::seen`] and [`Expectations::gone`] before queueing the key. Use a
/// subscription that delivers every event. One that merges an addition and a deletion away leaves the
/// creation expected until [`EXPECTATIONS_TIMEOUT`]. Only keys with expectations use memory.
pub struct Expectations<K>(Arc<Mutex<ExpectationsState<K>>>);

struct ExpectationsState<K> {
    entries: BTreeMap<K, KeyExpectations>,
    /// Distinguishes an entry from earlier entries of the same key, to which pending calls may belong.
    next: u64,
}

struct KeyExpectations {
    number: u64,
    /// When the newest expectation was added.
    since: Instant,
    /// Number of creations whose call has not returned, so that the uid is not known yet.
    open: usize,
    /// Uids seen while creations were open; any of them may belong to these creations.
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
        Self(Arc::new(Mutex::new(ExpectationsState { entries: BTreeMap::new(), next: 0 })))
    }
}

impl<K: Ord + Clone> Expectations<K> {
    /// No expectations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Expects a creation. Call it before the create call, and report the result to the returned ticket.
    #[must_use = "a dropped ticket stands for a failed call"]
    pub fn creating(&self, key: &K) -> Creation<K> {
        let mut state = self.0.lock();
        let entry = state.expect(key);
        entry.open += 1;
        Creation { of: self.clone(), key: key.clone(), number: entry.number, open: true }
    }

    /// Expects the deletion of the object with this uid. Call it before the delete call, and report the
    /// result to the returned ticket.
    #[must_use = "a dropped ticket stands for a failed call"]
    pub fn deleting(&self, key: &K, uid: &str) -> Deletion<K> {
        let mut state = self.0.lock();
        let entry = state.expect(key);
        entry.deletions.insert(uid.to_owned());
        Deletion { of: self.clone(), key: key.clone(), number: entry.number, uid: Some(uid.to_owned()) }
    }

    /// Records that the cache shows an object of `key` with this uid.
    pub fn seen(&self, key: &K, uid: &str) {
        self.0.lock().change(key, None, |entry| entry.show(uid));
    }

    /// Records that the object with this uid is deleted or has a deletion timestamp.
    pub fn gone(&self, key: &K, uid: &str) {
        self.0.lock().change(key, None, |entry| {
            entry.show(uid);
            entry.deletions.remove(uid);
        });
    }

    /// Whether the cache shows all writes of `key`. Also true when the newest expectation is older than
    /// [`EXPECTATIONS_TIMEOUT`]: an event was missed then, and only a new run helps.
    pub fn satisfied(&self, key: &K) -> bool {
        let mut state = self.0.lock();
        let expired = |entry: &KeyExpectations| entry.since.elapsed() >= EXPECTATIONS_TIMEOUT;
        if state.entries.get(key).is_some_and(expired) {
            state.entries.remove(key);
        }
        !state.entries.contains_key(key)
    }

    /// Removes the expectations of `key`, whose owner is gone. Pending calls do not affect later
    /// expectations.
    pub fn forget(&self, key: &K) {
        self.0.lock().entries.remove(key);
    }

    /// Number of keys with expectations.
    pub fn len(&self) -> usize {
        self.0.lock().entries.len()
    }

    /// Whether no key has expectations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Ord + Clone> ExpectationsState<K> {
    fn expect(&mut self, key: &K) -> &mut KeyExpectations {
        let next = &mut self.next;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| {
            *next += 1;
            KeyExpectations::new(*next)
        });
        entry.since = Instant::now();
        entry
    }

    /// Changes the entry of `key`, if it exists and has this number, and removes it when nothing is expected
    /// any more.
    fn change(&mut self, key: &K, number: Option<u64>, change: impl FnOnce(&mut KeyExpectations)) {
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

impl KeyExpectations {
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

    /// Ends an open creation; `made` is the uid of the created object, `None` if the call failed.
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

/// Ticket of a pending creation. Dropping it (the call failed or was never made) removes the expectation.
pub struct Creation<K: Ord + Clone> {
    of: Expectations<K>,
    key: K,
    number: u64,
    open: bool,
}

impl<K: Ord + Clone> Creation<K> {
    /// The call created the object with this uid, which [`Expectations::seen`] may have reported already.
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

/// Ticket of a pending deletion. Dropping it (the call failed or was never made) removes the expectation.
pub struct Deletion<K: Ord + Clone> {
    of: Expectations<K>,
    key: K,
    number: u64,
    /// The uid whose expectation is removed when the ticket is dropped.
    uid: Option<String>,
}

impl<K: Ord + Clone> Deletion<K> {
    /// The server accepted the call: the object is deleted or will be.
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
