//! [`DeltaFifo`]: pending changes, merged per key, ordered by each key's first change. Bounded: at most one
//! entry for each live object and for each deletion that a reader has not seen, and at most [`MAX_PASSED`] for
//! objects that the reader has not seen at all. Pure. Draining it yields [`Delta`]s.

use crate::any_object::{AnyObject, SharedObject, typed};
use crate::cache::indexer::Change;
use crate::limits::MAX_PASSED;
use crate::{Key, Object};
use kstore_nondet::HashMap;
use std::sync::Arc;

/// Change of an object, as one subscriber sees it. For each key the sequence is `Added`, any number of
/// `Updated`, then `Deleted`. The `old` state of an update is the last state that this subscriber got. A
/// subscription that is not [`crate::Delivery::Lossless`] may skip intermediate states. An update merged with
/// a following deletion still arrives as an update before the deletion, because an owner that only the new
/// state names must receive the object. For the same reason, and because its creator may wait for it, an
/// object that was added and deleted in between arrives as `Added` and `Deleted`; of several with one name,
/// the newest does.
#[derive(Debug)]
pub enum Delta<T: ?Sized> {
    /// The object is new to the subscriber.
    Added(Arc<T>),
    /// The same object (same uid) has a new state.
    Updated {
        /// The state that the subscriber got last.
        old: Arc<T>,
        /// The new state.
        new: Arc<T>,
    },
    /// The object is gone. Contains its last known state, at the revision of the deletion if the source
    /// reported it.
    Deleted(Arc<T>),
    /// No change: the state that the subscriber got last, sent again. Only with
    /// [`crate::Subscription::resync_every`].
    Resync(Arc<T>),
}

impl<T: ?Sized> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted(object) => Self::Deleted(object.clone()),
            Self::Resync(object) => Self::Resync(object.clone()),
        }
    }
}

impl<T: ?Sized> Delta<T> {
    /// The newest state in the delta.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Added(object)
            | Self::Updated { new: object, .. }
            | Self::Deleted(object)
            | Self::Resync(object) => object,
        }
    }
}

impl Delta<dyn AnyObject> {
    /// The delta with the type of its objects.
    pub(crate) fn typed<T: Object>(self) -> Delta<T> {
        match self {
            Self::Added(object) => Delta::Added(typed(object)),
            Self::Updated { old, new } => Delta::Updated { old: typed(old), new: typed(new) },
            Self::Deleted(object) => Delta::Deleted(typed(object)),
            Self::Resync(object) => Delta::Resync(typed(object)),
        }
    }
}

/// Gives deltas the type of their objects.
pub(crate) fn typed_deltas<T: Object>(deltas: Vec<Delta<dyn AnyObject>>) -> Vec<Delta<T>> {
    let mut typed = Vec::with_capacity(deltas.len());
    for delta in deltas {
        typed.push(delta.typed());
    }
    typed
}

impl Change {
    /// The deltas of this single change, not merged with others.
    pub(crate) fn deltas(&self) -> impl Iterator<Item = Delta<dyn AnyObject>> + use<> {
        let (first, second) = match (&self.old, &self.new) {
            (Some(old), Some(new)) if old.uid() == new.uid() => {
                (Some(Delta::Updated { old: old.clone(), new: new.clone() }), None)
            }
            (Some(old), new) => {
                let last = self.last.as_ref().filter(|last| last.uid() == old.uid()).unwrap_or(old);
                (Some(Delta::Deleted(last.clone())), new.clone().map(Delta::Added))
            }
            (None, new) => (new.clone().map(Delta::Added), None),
        };
        first.into_iter().chain(second)
    }
}

/// Pending changes of the cache, merged per key.
#[derive(Clone, Default)]
pub(crate) struct DeltaFifo {
    /// Entries by the first change of their key; `None` where changes cancelled out.
    entries: Vec<Option<(Key, PendingChange)>>,
    indices: HashMap<Key, usize>,
    empty: usize,
    /// Number of entries with nothing but a passed object.
    passed: usize,
}

#[derive(Clone)]
struct PendingChange {
    /// The state that the reader got last.
    seen: Option<SharedObject>,
    /// The deleted object, if the object that the reader saw is gone.
    gone: Option<DeletedObject>,
    /// The newest object that was added and deleted since.
    passed: Option<DeletedObject>,
    now: Option<SharedObject>,
}

/// The last states of a deleted object.
#[derive(Clone)]
struct DeletedObject {
    /// The object's newest state in the cache.
    cached: SharedObject,
    /// The object's final state: from the deletion event if the source reported it, else from the cache.
    last: SharedObject,
}

impl DeltaFifo {
    /// Merges one change of the cache.
    pub(crate) fn record(&mut self, change: &Change) {
        let index = self.index(&change.key, change.old.as_ref());
        self.update(index, |pending| {
            pending.now.clone_from(&change.new);
            pending.end(change.old.as_ref().and_then(|old| old.deleted_by(change)));
        });
    }

    /// Merges `later`, the changes that follow those in this FIFO.
    pub(crate) fn absorb(&mut self, later: &Self) {
        for (key, after) in later.entries.iter().flatten() {
            // `after.seen` is the state that this FIFO ended with.
            let index = self.index(key, after.seen.as_ref());
            self.update(index, |pending| {
                pending.now.clone_from(&after.now);
                pending.end(after.gone.clone());
                if after.passed.is_some() {
                    pending.passed.clone_from(&after.passed);
                }
            });
        }
    }

    /// Changes an entry. Removes it if it then has nothing but a passed object, and enough of those wait.
    fn update(&mut self, index: usize, change: impl FnOnce(&mut PendingChange)) {
        let Some((key, pending)) = &mut self.entries[index] else { return };
        self.passed -= usize::from(pending.is_passed_only());
        change(pending);
        if !pending.is_passed_only() {
            return;
        }
        if self.passed < MAX_PASSED {
            self.passed += 1;
            return;
        }
        self.indices.remove(key);
        self.entries[index] = None;
        self.empty += 1;
        self.compact();
    }

    /// Index of the entry of `key`; a new entry starts with `seen`, the state that the reader knows.
    fn index(&mut self, key: &Key, seen: Option<&SharedObject>) -> usize {
        if let Some(index) = self.indices.get(key) {
            return *index;
        }
        let pending = PendingChange { seen: seen.cloned(), gone: None, passed: None, now: seen.cloned() };
        self.entries.push(Some((key.clone(), pending)));
        self.indices.insert(key.clone(), self.entries.len() - 1);
        self.entries.len() - 1
    }

    /// Removes cancelled entries when they outnumber the others, so that memory is proportional to pending
    /// keys.
    fn compact(&mut self) {
        if self.empty < 64 || self.empty * 2 < self.entries.len() {
            return;
        }
        self.entries.retain(Option::is_some);
        self.empty = 0;
        self.indices.clear();
        for (index, entry) in self.entries.iter().enumerate() {
            if let Some((key, _)) = entry {
                self.indices.insert(key.clone(), index);
            }
        }
    }

    /// Takes all pending deltas.
    pub(crate) fn drain(&mut self) -> Vec<Delta<dyn AnyObject>> {
        self.indices.clear();
        (self.empty, self.passed) = (0, 0);
        let mut deltas = Vec::with_capacity(self.entries.len());
        for (_, pending) in self.entries.drain(..).flatten() {
            match (pending.seen, pending.gone, pending.now) {
                (Some(old), _, Some(new)) if old.uid() == new.uid() => {
                    deltas.push(Delta::Updated { old, new });
                }
                (seen, gone, now) => {
                    if let (Some(old), Some(DeletedObject { cached, last })) = (seen, gone) {
                        if !Arc::ptr_eq(&old, &cached) {
                            deltas.push(Delta::Updated { old, new: cached });
                        }
                        deltas.push(Delta::Deleted(last));
                    }
                    if let Some(DeletedObject { cached, last }) = pending.passed {
                        deltas.extend([Delta::Added(cached), Delta::Deleted(last)]);
                    }
                    deltas.extend(now.map(Delta::Added));
                }
            }
        }
        deltas
    }

    /// Number of keys with pending changes.
    pub(crate) fn len(&self) -> usize {
        self.indices.len()
    }
}

impl PendingChange {
    /// Records that an object has ended: the one that the reader saw, or else one that it never got.
    fn end(&mut self, ended: Option<DeletedObject>) {
        if ended.is_none() {
            return;
        }
        if self.seen.is_some() && self.gone.is_none() {
            self.gone = ended;
        } else {
            self.passed = ended;
        }
    }

    /// Whether the reader saw no object of this key, and there is none now.
    fn is_passed_only(&self) -> bool {
        self.passed.is_some() && self.seen.is_none() && self.now.is_none()
    }
}

trait DetectDeletion {
    /// The last states of this object if `change` ends it, by deletion or by a new object of the same name.
    fn deleted_by(&self, change: &Change) -> Option<DeletedObject>;
}

impl DetectDeletion for SharedObject {
    fn deleted_by(&self, change: &Change) -> Option<DeletedObject> {
        let own = |state: Option<&Self>| state.filter(|state| state.uid() == self.uid()).cloned();
        let cached = own(change.old.as_ref()).unwrap_or_else(|| self.clone());
        let last = match &change.new {
            None => own(change.last.as_ref()).unwrap_or_else(|| cached.clone()),
            Some(new) if new.uid() != self.uid() => cached.clone(),
            Some(_) => return None,
        };
        Some(DeletedObject { cached, last })
    }
}
