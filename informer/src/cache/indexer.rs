//! [`Indexer`]: the cached objects and their indexes, updated by batches. Pure: no lock, no I/O.

use crate::cache::index::{AnyIndex, IndexState};
use crate::cache::objects::Objects;
use crate::limits::MAX_UNDECODABLE;
use crate::reflector::whole::CompleteState;
use crate::{Frame, Index, Key, Object, Revision, Undecodable};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Change of one key in the cache, with the old and the new object. The two are never the same state.
#[derive(Debug)]
pub(crate) struct Change<T> {
    pub key: Key,
    pub old: Option<Arc<T>>,
    pub new: Option<Arc<T>>,
    /// The last state that the source reported, if `new` is none: from the deletion event, else `old`.
    pub last: Option<Arc<T>>,
    /// The revision of the change.
    pub revision: Revision,
}

/// Changes of the cache from one step of the source, in order, and the resulting revision.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    pub changes: Vec<Change<T>>,
    /// Whether no key occurs twice.
    pub distinct: bool,
    pub revision: Revision,
}

/// The cached objects and indexes at one revision. A clone is cheap and never changes.
pub(crate) struct Indexer<T> {
    objects: Objects<T>,
    indexes: Vec<Box<dyn AnyIndex<T>>>,
    undecodable: Arc<BTreeMap<Key, Undecodable>>,
    revision: Revision,
}

impl<T: Object> Clone for Indexer<T> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            indexes: self.indexes.iter().map(|index| index.boxed_clone()).collect(),
            undecodable: self.undecodable.clone(),
            revision: self.revision,
        }
    }
}

impl<T: Object> Default for Indexer<T> {
    fn default() -> Self {
        Self {
            objects: Objects::default(),
            indexes: Vec::new(),
            undecodable: Arc::default(),
            revision: Revision::default(),
        }
    }
}

impl<T: Object> Indexer<T> {
    /// Adds an index; only before the first object.
    pub(crate) fn declare<K: Ord + Clone + Send + Sync + 'static>(&mut self, index: &Index<T, K>) {
        debug_assert_eq!(self.objects.len(), 0, "indexes are declared before objects come");
        self.indexes.push(Box::new(IndexState::new(index)));
    }

    /// Seeds the hash of keys; only before the first object.
    pub(crate) fn seed(&mut self, seed: u64) {
        self.objects.seed(seed);
    }

    pub(crate) fn has_indexes(&self) -> bool {
        !self.indexes.is_empty()
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.iter()
    }

    /// The objects of a namespace, in key order.
    pub(crate) fn namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<T>> + use<'_, T> {
        self.objects.namespace(namespace)
    }

    pub(crate) fn undecodable(&self) -> impl Iterator<Item = &Undecodable> {
        self.undecodable.values()
    }

    /// The objects under `value` in an index, in key order.
    ///
    /// # Panics
    /// When the index was not declared.
    pub(crate) fn by<K, Q>(&self, index: &Index<T, K>, value: &Q) -> impl Iterator<Item = &Arc<T>>
    where
        K: Ord + Clone + Borrow<Q> + Send + Sync + 'static,
        Q: Ord + ?Sized,
    {
        let slots = self.index(index).slots(value);
        slots.into_iter().flat_map(|slots| slots.iter().filter_map(|slot| self.objects.at(slot)))
    }

    /// Number of objects under `value` in an index.
    ///
    /// # Panics
    /// When the index was not declared.
    pub(crate) fn count_by<K, Q>(&self, index: &Index<T, K>, value: &Q) -> usize
    where
        K: Ord + Clone + Borrow<Q> + Send + Sync + 'static,
        Q: Ord + ?Sized,
    {
        self.index(index).slots(value).map_or(0, |slots| slots.len())
    }

    /// The values of an index that have objects, in order.
    pub(crate) fn values<K>(&self, index: &Index<T, K>) -> impl Iterator<Item = &K>
    where
        K: Ord + Clone + Send + Sync + 'static,
    {
        self.index(index).values()
    }

    fn index<K: Ord + Clone + Send + Sync + 'static>(&self, index: &Index<T, K>) -> &IndexState<T, K> {
        IndexState::of(&self.indexes, index)
            .expect("an index is declared with Builder::index before it is read")
    }

    /// Applies frames in order and advances the revision to their highest. Ignores frames that are older than
    /// the cache, and known frames of its newest revision: a repeated batch changes nothing. Accepts unknown
    /// frames of the newest revision, because a source may split a revision that several objects share.
    pub(crate) fn apply(&mut self, frames: Vec<Frame<T>>) -> Batch<T> {
        let (before, mut changes) = (self.revision, Vec::with_capacity(frames.len()));
        // Looks up all slots before the first change, so that the independent memory accesses overlap.
        let slots: Vec<Option<u32>> = frames.iter().map(|frame| self.seek(frame)).collect();
        for (frame, slot) in frames.into_iter().zip(slots) {
            let revision = frame.revision();
            if revision < before {
                continue;
            }
            self.revision = self.revision.max(revision);
            match frame {
                Frame::Put(object) => changes.extend(self.put(Arc::new(object), slot)),
                Frame::Gone { key, revision, last } => changes.extend(self.gone(&key, revision, last)),
                Frame::Undecodable(what) => self.quarantine(what),
                Frame::Progress { .. } => {}
            }
        }
        self.compact();
        // A key occurs again if its old state is from this batch, or was deleted by it. A change in the
        // revision that the batch continues also counts; then the merge is merely superfluous.
        let again = |change: &Change<T>| match &change.old {
            Some(old) => old.revision() >= before || change.new.is_none(),
            None => false,
        };
        Batch { distinct: !changes.iter().any(again), changes, revision: self.revision }
    }

    /// The slot of the object that a frame puts.
    fn seek(&self, frame: &Frame<T>) -> Option<u32> {
        match frame {
            Frame::Put(object) => self.objects.slot(&object.key()),
            Frame::Gone { .. } | Frame::Undecodable(_) | Frame::Progress { .. } => None,
        }
    }

    /// Stores an object. `slot` is its slot from before the batch, which may be outdated.
    fn put(&mut self, object: Arc<T>, slot: Option<u32>) -> Option<Change<T>> {
        let (key, revision) = (object.key(), object.revision());
        self.readmit(&key);
        let is_there = |slot: &u32| self.objects.at(*slot).is_some_and(|other| other.key() == key);
        let slot = slot.filter(is_there).or_else(|| self.objects.slot(&key));
        if slot.and_then(|slot| self.objects.at(slot)).is_some_and(|old| old.revision() >= revision) {
            return None;
        }
        let old = self.set(slot, &key, Some(&object));
        Some(Change { key, old, new: Some(object), last: None, revision })
    }

    fn gone(&mut self, key: &Key, revision: Revision, last: Option<T>) -> Option<Change<T>> {
        self.readmit(key);
        let slot = self.objects.slot(key)?;
        let old = self.objects.at(slot)?;
        if old.revision() >= revision {
            return None;
        }
        let key = old.key();
        let old = self.set(Some(slot), &key, None)?;
        let last = last.map_or_else(|| old.clone(), Arc::new);
        Some(Change { key, old: Some(old), new: None, last: Some(last), revision })
    }

    /// Replaces the state of `key`, which is in slot `slot` if cached, and returns the old state. Objects
    /// and indexes change only in this function.
    fn set(&mut self, slot: Option<u32>, key: &Key, new: Option<&Arc<T>>) -> Option<Arc<T>> {
        match (slot, new) {
            (Some(slot), Some(new)) => {
                let old = self.objects.replace(slot, new.clone());
                self.reindex(slot, key, old.as_deref(), Some(new));
                old
            }
            (None, Some(new)) => {
                let slot = self.objects.insert(key, new.clone());
                self.reindex(slot, key, None, Some(new));
                None
            }
            (Some(slot), None) => {
                let old = self.objects.at(slot).cloned();
                self.reindex(slot, key, old.as_deref(), None);
                self.objects.remove(slot, key);
                old
            }
            (None, None) => None,
        }
    }

    /// Replaces the cache with a complete state: deletions first, then new and changed objects, each in key
    /// order. Unchanged objects stay in memory and yield no change.
    pub(crate) fn replace(&mut self, whole: CompleteState<T>) -> Batch<T> {
        let revision = whole.revision;
        let keys = self.objects.iter().map(|object| object.key());
        let lost: Vec<Key> = keys.filter(|key| !whole.has(key)).collect();
        let mut changes = Vec::with_capacity(whole.objects.len().saturating_sub(self.len()));
        for key in lost {
            let old = self.set(self.objects.slot(&key), &key, None);
            changes.push(Change { key, last: old.clone(), old, new: None, revision });
        }
        for (key, object) in whole.objects {
            let same = |old: &Arc<T>| {
                let equal = old.revision() == object.revision() && old.uid() == object.uid();
                Arc::ptr_eq(old, &object) || equal && !whole.other_history
            };
            let slot = self.objects.slot(&key);
            if slot.and_then(|slot| self.objects.at(slot)).is_some_and(same) {
                continue;
            }
            let old = self.set(slot, &key, Some(&object));
            changes.push(Change { key, old, new: Some(object), last: None, revision });
        }
        if !self.undecodable.is_empty() {
            // Objects that are still undecodable are not logged again.
            Arc::make_mut(&mut self.undecodable).retain(|key, _| whole.undecodable.contains_key(key));
        }
        whole.undecodable.into_values().for_each(|what| self.quarantine(what));
        self.compact();
        self.revision = revision;
        Batch { changes, distinct: true, revision }
    }

    /// Undoes a change, which must be the last one of its key.
    pub(crate) fn undo(&mut self, change: &Change<T>) {
        self.set(self.objects.slot(&change.key), &change.key, change.old.as_ref());
    }

    /// Sets the revision after enough changes were undone.
    pub(crate) fn rewind(&mut self, revision: Revision) {
        debug_assert!(revision <= self.revision, "the way back leads to the past");
        self.revision = revision;
    }

    /// Compacts the objects when most of their slots are free.
    fn compact(&mut self) {
        if !self.objects.is_sparse() {
            return;
        }
        let sparse = std::mem::take(&mut self.objects);
        self.objects = sparse.emptied();
        self.indexes = self.indexes.iter().map(|index| index.emptied()).collect();
        for object in sparse.iter() {
            self.set(None, &object.key(), Some(object));
        }
    }

    fn reindex(&mut self, slot: u32, key: &Key, old: Option<&T>, new: Option<&Arc<T>>) {
        let against = self.objects.against(key);
        for index in &mut self.indexes {
            index.change(slot, old, new.map(Arc::as_ref), &against);
        }
    }

    /// Records an undecodable object and keeps its last decodable state. Logs it again only if the error
    /// changes.
    fn quarantine(&mut self, what: Undecodable) {
        if self.undecodable.get(&what.key).is_none_or(|known| known.error != what.error) {
            let Undecodable { key, revision, error } = &what;
            tracing::warn!(%key, %revision, error, "cannot decode object; keeping its last state");
        }
        if self.undecodable.len() < MAX_UNDECODABLE || self.undecodable.contains_key(&what.key) {
            Arc::make_mut(&mut self.undecodable).insert(what.key.clone(), what);
        }
    }

    fn readmit(&mut self, key: &Key) {
        if !self.undecodable.is_empty() && self.undecodable.contains_key(key) {
            Arc::make_mut(&mut self.undecodable).remove(key);
        }
    }
}
