//! [`Indexer`]: the cached objects and their indexes, moved forward by batches. Pure: no lock, no I/O. [`Index`] is the handle
//! with which a user declares an index and reads it.

use std::{any::Any, borrow::Borrow, collections::BTreeMap, sync::Arc};

use crate::{
    Frame, Key, Object, Revision, Undecodable, limits::MAX_UNDECODABLE, sorted::Sorted, whole::Whole,
};

type IndexFn<T, K> = dyn Fn(&T, &mut dyn FnMut(K)) + Send + Sync;

/// A way to find objects of `T` by values of `K`, of which an object may have none, one or several. Clones are the same index.
///
/// ```
/// # use kstore_informer::{Index, Key, Object, Revision};
/// # struct Pod { node: Option<String> }
/// # impl Object for Pod { fn key(&self) -> Key { Key::new("", "a") } fn uid(&self) -> &str { "" } fn revision(&self) -> Revision { Revision(1) } }
/// let by_node = Index::new(|pod: &Pod, emit: &mut dyn FnMut(String)| pod.node.iter().cloned().for_each(emit));
/// ```
pub struct Index<T, K>(Arc<IndexFn<T, K>>);

impl<T, K> Clone for Index<T, K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T, K> Index<T, K> {
    /// An index under every value that `values` emits for an object. The function runs under the cache's lock: it must be
    /// cheap, and the same object must always give the same values.
    pub fn new(values: impl Fn(&T, &mut dyn FnMut(K)) + Send + Sync + 'static) -> Self {
        Self(Arc::new(values))
    }
}

impl<T: Object> Index<T, String> {
    /// Objects by the uid of the object that controls them.
    pub fn by_controller() -> Self {
        Self::new(|object: &T, emit| {
            if let Some((uid, _)) = object.controller() {
                emit(uid);
            }
        })
    }
}

/// One step of the cache for one key: what it held before and holds now. Never the same state twice.
#[derive(Debug)]
pub(crate) struct Change<T> {
    pub key: Key,
    pub old: Option<Arc<T>>,
    pub new: Option<Arc<T>>,
    /// The last state that the source told of, when `new` is none: the deletion's own, else `old`.
    pub last: Option<Arc<T>>,
    /// The revision that did it.
    pub revision: Revision,
}

/// What one step of the source did to the cache: changes in order, and the revision that they led to.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    pub changes: Vec<Change<T>>,
    /// No key is in it twice.
    pub distinct: bool,
    pub revision: Revision,
}

/// The cache at one revision. A clone is cheap and never changes.
pub(crate) struct Indexer<T> {
    objects: Sorted<Key, Arc<T>>,
    indexes: Vec<Box<dyn AnyIndex<T>>>,
    undecodable: Arc<BTreeMap<Key, Undecodable>>,
    revision: Revision,
}

impl<T: Object> Clone for Indexer<T> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            indexes: self.indexes.iter().map(|i| i.boxed_clone()).collect(),
            undecodable: self.undecodable.clone(),
            revision: self.revision,
        }
    }
}

impl<T: Object> Default for Indexer<T> {
    fn default() -> Self {
        Self {
            objects: Sorted::default(),
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
        self.indexes.push(Box::new(IndexState { index: index.clone(), values: Sorted::default() }));
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
        self.objects.iter().map(|(_, object)| object)
    }

    /// The objects of a namespace, in key order.
    pub(crate) fn namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        let first = Key::new(namespace, "");
        let namespace = namespace.to_owned();
        self.objects
            .iter_from(&first)
            .take_while(move |(key, _)| key.namespace() == namespace)
            .map(|(_, object)| object)
    }

    pub(crate) fn undecodable(&self) -> impl Iterator<Item = &Undecodable> {
        self.undecodable.values()
    }

    /// The objects under `value`, in key order.
    ///
    /// # Panics
    /// When the index was not declared.
    pub(crate) fn by<K, Q>(&self, index: &Index<T, K>, value: &Q) -> impl Iterator<Item = &Arc<T>>
    where
        K: Ord + Clone + Borrow<Q> + Send + Sync + 'static,
        Q: Ord + ?Sized,
    {
        let state = self.index(index);
        state.values.get(value).into_iter().flat_map(|objects| objects.iter().map(|(_, object)| object))
    }

    /// The values of an index that have objects, in order.
    pub(crate) fn values<K>(&self, index: &Index<T, K>) -> impl Iterator<Item = &K>
    where
        K: Ord + Clone + Send + Sync + 'static,
    {
        self.index(index).values.iter().map(|(value, _)| value)
    }

    fn index<K: Ord + Clone + Send + Sync + 'static>(&self, index: &Index<T, K>) -> &IndexState<T, K> {
        let states = self.indexes.iter().filter_map(|i| i.as_any().downcast_ref::<IndexState<T, K>>());
        states
            .into_iter()
            .find(|state| Arc::ptr_eq(&state.index.0, &index.0))
            .expect("an index is declared with Builder::index before it is read")
    }

    /// Applies frames in order and moves the revision to the highest of them. Frames that are not newer than the cache are
    /// without effect, so a repeated batch changes nothing.
    pub(crate) fn apply(&mut self, frames: Vec<Frame<T>>) -> Batch<T> {
        let (before, mut changes) = (self.revision, Vec::with_capacity(frames.len()));
        for frame in frames {
            let revision = frame.revision();
            if revision <= before {
                continue;
            }
            self.revision = self.revision.max(revision);
            match frame {
                Frame::Put(object) => changes.extend(self.put(Arc::new(object))),
                Frame::Gone { key, revision, last } => changes.extend(self.gone(&key, revision, last)),
                Frame::Undecodable(what) => self.quarantine(what),
                Frame::Progress { .. } => {}
            }
        }
        // A key that comes again has a state from within the batch, or none because the batch ended it.
        let again = |change: &Change<T>| match &change.old {
            Some(old) => old.revision() > before || change.new.is_none(),
            None => false,
        };
        Batch { distinct: !changes.iter().any(again), changes, revision: self.revision }
    }

    fn put(&mut self, object: Arc<T>) -> Option<Change<T>> {
        let (key, revision) = (object.key(), object.revision());
        self.readmit(&key);
        let old = self.objects.get_mut(&key);
        match old {
            Some(slot) if slot.revision() >= revision => None,
            Some(slot) => {
                let old = std::mem::replace(slot, object.clone());
                self.reindex(&key, Some(&old), Some(&object));
                Some(Change { key, old: Some(old), new: Some(object), last: None, revision })
            }
            None => {
                self.objects.insert(key.clone(), object.clone());
                self.reindex(&key, None, Some(&object));
                Some(Change { key, old: None, new: Some(object), last: None, revision })
            }
        }
    }

    fn gone(&mut self, key: &Key, revision: Revision, last: Option<T>) -> Option<Change<T>> {
        self.readmit(key);
        if self.objects.get(key)?.revision() >= revision {
            return None;
        }
        let (key, old) = self.objects.remove(key)?;
        self.reindex(&key, Some(&old), None);
        let last = last.map_or_else(|| old.clone(), Arc::new);
        Some(Change { key, old: Some(old), new: None, last: Some(last), revision })
    }

    /// Makes the cache equal to a whole state: deletions first, then what is new or differs, each in key order. Objects
    /// whose state is the cached one keep their place in memory and make no change.
    pub(crate) fn replace(&mut self, whole: Whole<T>) -> Batch<T> {
        let revision = whole.revision;
        let keep = |key: &Key| whole.objects.contains_key(key) || whole.undecodable.contains_key(key);
        let lost: Vec<Key> = self.objects.iter().map(|(k, _)| k).filter(|k| !keep(k)).cloned().collect();
        let mut changes = Vec::new();
        for key in lost {
            if let Some((key, old)) = self.objects.remove(&key) {
                self.reindex(&key, Some(&old), None);
                changes.push(Change { key, old: Some(old.clone()), new: None, last: Some(old), revision });
            }
        }
        self.undecodable = Arc::default();
        for (key, object) in whole.objects {
            let same = |old: &Arc<T>| {
                let equal = old.revision() == object.revision() && old.uid() == object.uid();
                Arc::ptr_eq(old, &object) || equal && !whole.other_history
            };
            if self.objects.get(&key).is_some_and(same) {
                continue;
            }
            let old = self.objects.insert(key.clone(), object.clone());
            self.reindex(&key, old.as_ref(), Some(&object));
            changes.push(Change { key, old, new: Some(object), last: None, revision });
        }
        whole.undecodable.into_values().for_each(|what| self.quarantine(what));
        self.revision = revision;
        Batch { changes, distinct: true, revision }
    }

    /// Takes a change back that was the last one of its key.
    pub(crate) fn undo(&mut self, change: &Change<T>) {
        match &change.old {
            Some(old) => drop(self.objects.insert(change.key.clone(), old.clone())),
            None => drop(self.objects.remove(&change.key)),
        }
        self.reindex(&change.key, change.new.as_ref(), change.old.as_ref());
    }

    /// Says that enough was taken back to be at this revision.
    pub(crate) fn rewind(&mut self, revision: Revision) {
        debug_assert!(revision <= self.revision, "the way back leads to the past");
        self.revision = revision;
    }

    fn reindex(&mut self, key: &Key, old: Option<&Arc<T>>, new: Option<&Arc<T>>) {
        for index in &mut self.indexes {
            index.change(key, old, new);
        }
    }

    fn quarantine(&mut self, what: Undecodable) {
        tracing::warn!(key = %what.key, revision = %what.revision, error = what.error, "object cannot be read");
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

/// An index without its value type.
trait AnyIndex<T>: Send + Sync {
    fn change(&mut self, key: &Key, old: Option<&Arc<T>>, new: Option<&Arc<T>>);
    fn as_any(&self) -> &dyn Any;
    fn boxed_clone(&self) -> Box<dyn AnyIndex<T>>;
}

struct IndexState<T, K> {
    index: Index<T, K>,
    values: Sorted<K, Sorted<Key, Arc<T>>>,
}

impl<T, K: Ord + Clone> IndexState<T, K> {
    fn remove(&mut self, key: &Key, value: &K) {
        let Some(objects) = self.values.get_mut(value) else { return };
        objects.remove(key);
        if objects.len() == 0 {
            self.values.remove(value);
        }
    }

    fn insert(&mut self, key: &Key, value: K, object: &Arc<T>) {
        match self.values.get_mut(&value) {
            Some(objects) => {
                objects.insert(key.clone(), object.clone());
            }
            None => {
                self.values.insert(value, Sorted::from_sorted([(key.clone(), object.clone())]));
            }
        }
    }
}

impl<T: Object, K: Ord + Clone + Send + Sync + 'static> AnyIndex<T> for IndexState<T, K> {
    fn change(&mut self, key: &Key, old: Option<&Arc<T>>, new: Option<&Arc<T>>) {
        let values = |object: Option<&Arc<T>>| {
            let mut values = Vec::new();
            if let Some(object) = object {
                (self.index.0)(object, &mut |value| values.push(value));
            }
            values
        };
        let (before, after) = (values(old), values(new));
        before.iter().filter(|value| !after.contains(value)).for_each(|value| self.remove(key, value));
        if let Some(object) = new {
            after.into_iter().for_each(|value| self.insert(key, value, object));
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn boxed_clone(&self) -> Box<dyn AnyIndex<T>> {
        Box::new(Self { index: self.index.clone(), values: self.values.clone() })
    }
}
