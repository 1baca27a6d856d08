//! [`Indexer`]: the cached objects and their indexes, updated by batches. Pure: no lock, no I/O.

use crate::any_object::{AnyObject, SharedObject};
use crate::cache::index::{AnyIndex, IndexState, SlotList};
use crate::cache::objects::{Objects, TypedObjects};
use crate::limits::MAX_UNDECODABLE;
use crate::reflector::whole::CompleteState;
use crate::{Frame, Index, Key, Object, Revision, Undecodable};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Change of one key in the cache, with the old and the new object. The two are never the same state.
pub(crate) struct Change {
    pub key: Key,
    pub old: Option<SharedObject>,
    pub new: Option<SharedObject>,
    /// The last state that the source reported, if `new` is none: from the deletion event, else `old`.
    pub last: Option<SharedObject>,
    /// The revision of the change.
    pub revision: Revision,
}

/// Changes of the cache from one step of the source, in order, and the resulting revision.
pub(crate) struct Batch {
    pub changes: Vec<Change>,
    /// Whether no key occurs twice.
    pub distinct: bool,
    pub revision: Revision,
}

/// The cached objects and indexes at one revision. A clone is cheap and never changes.
pub(crate) struct Indexer {
    objects: Objects,
    indexes: Vec<Box<dyn AnyIndex>>,
    undecodable: Arc<BTreeMap<Key, Undecodable>>,
    revision: Revision,
}

impl Clone for Indexer {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            indexes: self.indexes.iter().map(|index| index.boxed_clone()).collect(),
            undecodable: self.undecodable.clone(),
            revision: self.revision,
        }
    }
}

impl Indexer {
    /// An empty cache for objects of `T`, without indexes.
    pub(crate) fn of<T: Object>() -> Self {
        let (objects, revision) = (Objects::of::<T>(), Revision::default());
        Self { objects, indexes: Vec::new(), undecodable: Arc::default(), revision }
    }

    /// Adds an index; only before the first object.
    pub(crate) fn declare<T, K: Ord + Clone + Send + Sync + 'static>(&mut self, index: &Index<T, K>) {
        debug_assert_eq!(self.objects.len(), 0, "indexes are declared before objects come");
        self.indexes.push(Box::new(IndexState::new(index)));
    }

    /// Takes over the objects and the state of each index of another cache, which share memory until one of both changes. Only before the
    /// first object. Returns false, without a change, if the other cache has other types.
    pub(crate) fn adopt(&mut self, other: &Self) -> bool {
        debug_assert_eq!(self.objects.len(), 0, "a cache is taken over before objects come");
        if !self.objects.has_type_of(&other.objects) || self.indexes.len() != other.indexes.len() {
            return false;
        }
        let indexes = self.indexes.iter().zip(&other.indexes);
        let indexes: Option<Vec<_>> = indexes.map(|(ours, theirs)| ours.filled_from(&**theirs)).collect();
        let Some(indexes) = indexes else { return false };
        let (undecodable, revision) = (other.undecodable.clone(), other.revision);
        *self = Self { objects: other.objects.clone(), indexes, undecodable, revision };
        true
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

    pub(crate) fn get(&self, key: &Key) -> Option<SharedObject> {
        self.objects.get(key)
    }

    /// The objects, as those of `T` that they are. Other functions find their slots.
    pub(crate) fn typed<T: Object>(&self) -> TypedObjects<'_, T> {
        self.objects.typed()
    }

    pub(crate) fn slot(&self, key: &Key) -> Option<u32> {
        self.objects.slot(key)
    }

    /// The objects in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SharedObject> {
        self.objects.slots().filter_map(|slot| self.objects.shared_at(slot))
    }

    /// The slots of all objects, in key order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.objects.slots()
    }

    /// The slots of the objects of a namespace, in key order.
    pub(crate) fn namespace(&self, namespace: &str) -> impl Iterator<Item = u32> + use<'_> {
        self.objects.namespace(namespace)
    }

    pub(crate) fn undecodable(&self) -> impl Iterator<Item = &Undecodable> {
        self.undecodable.values()
    }

    /// The slots of the objects under `value` in an index, in key order.
    ///
    /// # Panics
    /// When the index was not declared.
    pub(crate) fn by<'a, T, K, Q>(
        &'a self,
        index: &Index<T, K>,
        value: &Q,
    ) -> impl Iterator<Item = u32> + use<'a, T, K, Q>
    where
        K: Ord + Clone + Borrow<Q> + Send + Sync + 'static,
        Q: Ord + ?Sized,
    {
        let slots = self.index(index).slots(value);
        slots.into_iter().flat_map(SlotList::iter)
    }

    /// Number of objects under `value` in an index.
    ///
    /// # Panics
    /// When the index was not declared.
    pub(crate) fn count_by<T, K, Q>(&self, index: &Index<T, K>, value: &Q) -> usize
    where
        K: Ord + Clone + Borrow<Q> + Send + Sync + 'static,
        Q: Ord + ?Sized,
    {
        self.index(index).slots(value).map_or(0, |slots| slots.len())
    }

    /// The values of an index that have objects, in order.
    pub(crate) fn values<'a, T, K>(
        &'a self,
        index: &Index<T, K>,
    ) -> impl Iterator<Item = &'a K> + use<'a, T, K>
    where
        K: Ord + Clone + Send + Sync + 'static,
    {
        self.index(index).values()
    }

    fn index<T, K: Ord + Clone + Send + Sync + 'static>(&self, index: &Index<T, K>) -> &IndexState<K> {
        IndexState::of(&self.indexes, index)
            .expect("an index is declared with Builder::index before it is read")
    }

    /// Applies frames in order and advances the revision to their highest. Ignores frames that are older than
    /// the cache, and known frames of its newest revision: a repeated batch changes nothing. Accepts unknown
    /// frames of the newest revision, because a source may split a revision that several objects share.
    pub(crate) fn apply(&mut self, frames: Vec<Frame<SharedObject>>) -> Batch {
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
                Frame::Put(object) => changes.extend(self.put(object, slot)),
                Frame::Gone { key, revision, last } => changes.extend(self.gone(&key, revision, last)),
                Frame::Undecodable(what) => self.quarantine(what),
                Frame::Progress { .. } => {}
            }
        }
        self.compact();
        // A key occurs again if its old state is from this batch, or was deleted by it. A change in the
        // revision that the batch continues also counts; then the merge is merely superfluous.
        let again = |change: &Change| match &change.old {
            Some(old) => old.revision() >= before || change.new.is_none(),
            None => false,
        };
        Batch { distinct: !changes.iter().any(again), changes, revision: self.revision }
    }

    /// The slot of the object that a frame puts.
    fn seek(&self, frame: &Frame<SharedObject>) -> Option<u32> {
        match frame {
            Frame::Put(object) => self.objects.slot(&object.key()),
            Frame::Gone { .. } | Frame::Undecodable(_) | Frame::Progress { .. } => None,
        }
    }

    /// Stores an object. `slot` is its slot from before the batch, which may be outdated.
    fn put(&mut self, object: SharedObject, slot: Option<u32>) -> Option<Change> {
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

    fn gone(&mut self, key: &Key, revision: Revision, last: Option<SharedObject>) -> Option<Change> {
        self.readmit(key);
        let slot = self.objects.slot(key)?;
        let old = self.objects.at(slot)?;
        if old.revision() >= revision {
            return None;
        }
        let key = old.key();
        let old = self.set(Some(slot), &key, None)?;
        let last = last.unwrap_or_else(|| old.clone());
        Some(Change { key, old: Some(old), new: None, last: Some(last), revision })
    }

    /// Replaces the state of `key`, which is in slot `slot` if cached, and returns the old state. Objects
    /// and indexes change only in this function.
    fn set(&mut self, slot: Option<u32>, key: &Key, new: Option<&SharedObject>) -> Option<SharedObject> {
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
                let old = self.objects.shared_at(slot);
                self.reindex(slot, key, old.as_deref(), None);
                self.objects.remove(slot, key);
                old
            }
            (None, None) => None,
        }
    }

    /// Replaces the cache with a complete state: deletions first, then new and changed objects, each in key
    /// order. Unchanged objects stay in memory and yield no change.
    pub(crate) fn replace(&mut self, whole: CompleteState) -> Batch {
        let revision = whole.revision;
        let keys = self.iter().map(|object| object.key());
        let lost: Vec<Key> = keys.filter(|key| !whole.has(key)).collect();
        let mut changes = Vec::with_capacity(whole.objects.len().saturating_sub(self.len()));
        for key in lost {
            let old = self.set(self.objects.slot(&key), &key, None);
            changes.push(Change { key, last: old.clone(), old, new: None, revision });
        }
        for (key, object) in whole.objects {
            let same = |old: SharedObject| {
                let equal = old.revision() == object.revision() && old.uid() == object.uid();
                Arc::ptr_eq(&old, &object) || equal && !whole.other_history
            };
            let slot = self.objects.slot(&key);
            if slot.and_then(|slot| self.objects.shared_at(slot)).is_some_and(same) {
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
    pub(crate) fn undo(&mut self, change: &Change) {
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
        let emptied = self.objects.emptied();
        let sparse = std::mem::replace(&mut self.objects, emptied);
        self.indexes = self.indexes.iter().map(|index| index.emptied()).collect();
        for object in sparse.slots().filter_map(|slot| sparse.shared_at(slot)) {
            self.set(None, &object.key(), Some(&object));
        }
    }

    fn reindex(&mut self, slot: u32, key: &Key, old: Option<&dyn AnyObject>, new: Option<&SharedObject>) {
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
