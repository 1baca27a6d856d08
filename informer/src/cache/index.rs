//! [`Index`], the handle that declares and reads a secondary index, and [`IndexState`], which maps each value
//! to the slots of its objects. An update that keeps an object's values costs the index nothing.

use crate::Object;
use crate::any_object::{AnyObject, typed_ref};
use crate::cache::objects::SortedSlots;
use crate::cache::sorted::Sorted;
use std::any::Any;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::Arc;

/// Emits the values of an object, which has the type of the index.
type IndexFn<K> = dyn Fn(&dyn AnyObject, &mut dyn FnMut(K)) + Send + Sync;

/// Largest number of objects per value that is stored as one small array. Most indexes have a handful of
/// objects per value; beyond this size an array is more expensive to change than a [`Sorted`].
const FEW: usize = 32;

/// Secondary index: finds objects of `T` by values of `K`. An object may have no, one or several values. Clones are
/// the same index.
///
/// ```
/// # use kstore_informer::{Index, Key, Object, Revision};
/// # struct Pod { node: Option<String> }
/// # impl Object for Pod {
/// #     fn key(&self) -> Key { Key::new("", "a") }
/// #     fn uid(&self) -> &str { "" }
/// #     fn revision(&self) -> Revision { Revision(1) }
/// # }
/// let by_node = Index::new(|pod: &Pod, emit: &mut dyn FnMut(String)| pod.node.iter().cloned().for_each(emit));
/// ```
///
/// A lookup must use the type of the values; other types do not compile:
/// ```compile_fail,E0277
/// # use kstore_informer::{Index, Informer, Object};
/// fn on_node<T: Object>(cache: &Informer<T>, by_node: &Index<T, String>) -> usize {
///     cache.by(by_node, &7_u64).len()
/// }
/// ```
pub struct Index<T, K> {
    values: Arc<IndexFn<K>>,
    object: PhantomData<fn(&T)>,
}

impl<T, K> Clone for Index<T, K> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), object: PhantomData }
    }
}

impl<T: 'static, K> Index<T, K> {
    /// An index with every value that `values` emits for an object. The function runs under the cache's lock:
    /// it must be cheap and deterministic.
    pub fn new(values: impl Fn(&T, &mut dyn FnMut(K)) + Send + Sync + 'static) -> Self {
        Self { values: Arc::new(move |object, emit| values(typed_ref(object), emit)), object: PhantomData }
    }
}

impl<T: Object> Index<T, String> {
    /// An index of objects by the uid of their controller (the owner reference with `controller: true`).
    pub fn by_controller() -> Self {
        Self::new(|object: &T, emit| {
            if let Some((uid, _)) = object.controller() {
                emit(uid);
            }
        })
    }
}

/// Entries of a run of an index: a value with its slots, some 40 bytes.
const RUN: usize = 64;

/// Slots of the objects that have one value, in key order.
#[derive(Clone)]
pub(crate) enum SlotList {
    Few(Arc<[u32]>),
    Many(SortedSlots),
}

/// Compares the key of the object in a slot with the key in question.
type CompareSlot<'a> = &'a dyn Fn(u32) -> Ordering;

impl SlotList {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(slots) => slots.len(),
            Self::Many(slots) => slots.len(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let (few, many) = match self {
            Self::Few(slots) => (Some(slots.iter().copied()), None),
            Self::Many(slots) => (None, Some(slots.iter().copied())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    fn insert(&mut self, slot: u32, against: CompareSlot<'_>) {
        match self {
            Self::Few(slots) if slots.len() < FEW => {
                let at = slots.partition_point(|other| against(*other).is_lt());
                let (before, after) = slots.split_at(at);
                *slots = [before, &[slot], after].concat().into();
            }
            Self::Few(slots) => {
                let mut many = SortedSlots::default();
                // The slots are already sorted.
                slots.iter().for_each(|other| many.insert(*other, |_| Ordering::Less));
                many.insert(slot, |other| against(*other));
                *self = Self::Many(many);
            }
            Self::Many(slots) => slots.insert(slot, |other| against(*other)),
        }
    }

    fn remove(&mut self, slot: u32, against: CompareSlot<'_>) {
        match self {
            Self::Few(slots) => *slots = slots.iter().copied().filter(|other| *other != slot).collect(),
            Self::Many(slots) => {
                slots.remove(|other| against(*other));
                if slots.len() <= FEW / 2 {
                    *self = Self::Few(slots.iter().copied().collect());
                }
            }
        }
    }
}

/// An index without its value type.
pub(crate) trait AnyIndex: Send + Sync {
    /// Updates the index after the object in slot `slot` was added, changed or removed.
    fn change(
        &mut self,
        slot: u32,
        old: Option<&dyn AnyObject>,
        new: Option<&dyn AnyObject>,
        against: CompareSlot<'_>,
    );
    fn as_any(&self) -> &dyn Any;
    fn boxed_clone(&self) -> Box<dyn AnyIndex>;
    /// The same index without objects.
    fn emptied(&self) -> Box<dyn AnyIndex>;
    /// This index with the entries of another one; `None` if that has values of another type.
    fn filled_from(&self, other: &dyn AnyIndex) -> Option<Box<dyn AnyIndex>>;
}

/// Entries of one index.
pub(crate) struct IndexState<K> {
    emit: Arc<IndexFn<K>>,
    values: Sorted<(K, SlotList), RUN>,
    /// Reusable buffers for the values of the old and the new state.
    scratch: [Vec<K>; 2],
}

impl<K: Ord + Clone + Send + Sync + 'static> IndexState<K> {
    pub(crate) fn new<T>(index: &Index<T, K>) -> Self {
        Self::with(index.values.clone(), Sorted::default())
    }

    fn with(emit: Arc<IndexFn<K>>, values: Sorted<(K, SlotList), RUN>) -> Self {
        Self { emit, values, scratch: [Vec::new(), Vec::new()] }
    }

    /// The state of `index` among `all`.
    pub(crate) fn of<'a, T>(all: &'a [Box<dyn AnyIndex>], index: &Index<T, K>) -> Option<&'a Self> {
        let mut states = all.iter().filter_map(|state| state.as_any().downcast_ref::<Self>());
        states.find(|state| Arc::ptr_eq(&state.emit, &index.values))
    }

    pub(crate) fn slots<Q: Ord + ?Sized>(&self, value: &Q) -> Option<&SlotList>
    where
        K: Borrow<Q>,
    {
        let (_, slots) = self.values.get(|(other, _)| other.borrow().cmp(value))?;
        Some(slots)
    }

    /// The values that have objects, in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &K> {
        self.values.iter().map(|(value, _)| value)
    }

    fn insert(&mut self, slot: u32, value: K, against: CompareSlot<'_>) {
        match self.values.get_mut(|(other, _)| other.cmp(&value)) {
            Some((_, slots)) => slots.insert(slot, against),
            None => {
                let entry = (value.clone(), SlotList::Few([slot].into()));
                self.values.insert(entry, |(other, _)| other.cmp(&value));
            }
        }
    }

    fn remove(&mut self, slot: u32, value: &K, against: CompareSlot<'_>) {
        let Some((_, slots)) = self.values.get_mut(|(other, _)| other.cmp(value)) else { return };
        slots.remove(slot, against);
        if slots.len() == 0 {
            self.values.remove(|(other, _)| other.cmp(value));
        }
    }

    fn collect(&self, object: Option<&dyn AnyObject>, into: &mut Vec<K>) {
        let Some(object) = object else { return };
        (self.emit)(object, &mut |value| {
            if !into.contains(&value) {
                into.push(value);
            }
        });
    }
}

impl<K: Ord + Clone + Send + Sync + 'static> AnyIndex for IndexState<K> {
    fn change(
        &mut self,
        slot: u32,
        old: Option<&dyn AnyObject>,
        new: Option<&dyn AnyObject>,
        against: CompareSlot<'_>,
    ) {
        let [mut before, mut after] = std::mem::take(&mut self.scratch);
        self.collect(old, &mut before);
        self.collect(new, &mut after);
        if before != after {
            let gone = before.iter().filter(|value| !after.contains(value));
            gone.for_each(|value| self.remove(slot, value, against));
            let come = after.drain(..).filter(|value| !before.contains(value));
            come.for_each(|value| self.insert(slot, value, against));
        }
        before.clear();
        after.clear();
        self.scratch = [before, after];
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn boxed_clone(&self) -> Box<dyn AnyIndex> {
        Box::new(Self::with(self.emit.clone(), self.values.clone()))
    }

    fn emptied(&self) -> Box<dyn AnyIndex> {
        Box::new(Self::with(self.emit.clone(), Sorted::default()))
    }

    fn filled_from(&self, other: &dyn AnyIndex) -> Option<Box<dyn AnyIndex>> {
        let other = other.as_any().downcast_ref::<Self>()?;
        Some(Box::new(Self::with(self.emit.clone(), other.values.clone())))
    }
}
