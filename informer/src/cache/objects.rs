//! [`Objects`]: the cached objects, by key and in key order. Pure; a clone costs a few reference counts and
//! never changes.
//!
//! An object stays in one numbered slot while it is cached: an update writes this slot only. A hash table
//! maps keys to slots, a [`Sorted`] list has the slots in key order, and indexes store slots too, so an update
//! touches none of them. Only the object stores its key: there is one key in memory per object.

use crate::cache::slots::Slots;
use crate::cache::sorted::Sorted;
use crate::cache::table::Table;
use crate::{Key, Object};
use kstore_nondet::FixedState;
use std::cmp::Ordering;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Objects that are copied together while a view is alive; each costs a reference count in another cache
/// line.
const LEAF: usize = 16;

/// Number of free slots below which the objects are not compacted.
const MANY_FREE: usize = 4_096;

/// Slots in the order of their objects' keys; a full run is 512 bytes.
pub(crate) type SortedSlots = Sorted<u32, 128>;

/// Persistent collection of objects with lookup by key and iteration in key order.
pub(crate) struct Objects<T> {
    slots: Slots<Option<Arc<T>>, LEAF>,
    table: Table,
    order: SortedSlots,
    /// Freed slots, newest last.
    free: Arc<Vec<u32>>,
    hasher: FixedState,
}

impl<T> Clone for Objects<T> {
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            table: self.table.clone(),
            order: self.order.clone(),
            free: self.free.clone(),
            hasher: self.hasher.clone(),
        }
    }
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self {
            slots: Slots::default(),
            table: Table::default(),
            order: SortedSlots::default(),
            free: Arc::default(),
            hasher: FixedState::default(),
        }
    }
}

impl<T: Object> Objects<T> {
    /// Seeds the hash of keys; only while there are no objects.
    pub(crate) fn seed(&mut self, seed: u64) {
        debug_assert_eq!(self.len(), 0, "keys are hashed in one way");
        self.hasher = FixedState::with_seed(seed);
    }

    /// An empty collection with the same hash seed.
    pub(crate) fn emptied(&self) -> Self {
        Self { hasher: self.hasher.clone(), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    fn hash(&self, key: &Key) -> u32 {
        u32::try_from(self.hasher.hash_one(key) >> 32).expect("half a word")
    }

    /// The slot of the object with this key.
    pub(crate) fn slot(&self, key: &Key) -> Option<u32> {
        self.table.find(self.hash(key), |slot| self.at(slot).is_some_and(|object| object.key() == *key))
    }

    pub(crate) fn at(&self, slot: u32) -> Option<&Arc<T>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.at(self.slot(key)?)
    }

    /// The objects in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.order.iter().filter_map(|slot| self.at(*slot))
    }

    /// The objects of a namespace, in key order.
    pub(crate) fn namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<T>> + use<'_, T> {
        let find = |key: &Key| {
            let against = self.against(key);
            self.order.find(&|slot: &u32| against(*slot))
        };
        let from = find(&Key::new(namespace, ""));
        let to = match namespace {
            "" => self.order.end(),
            // `0` is the character after `/`: keys outside the namespace sort before or from there.
            _ => find(&Key::new("", &format!("{namespace}0"))),
        };
        let all = self.order.between(from, to).filter_map(|slot| self.at(*slot));
        // Cluster-scoped objects are not adjacent in the unusual case that other objects have a namespace.
        let exact = !namespace.is_empty();
        all.filter(move |object| exact || object.key().namespace().is_empty())
    }

    /// Compares the key of the object in a slot with `key`.
    pub(crate) fn against(&self, key: &Key) -> impl Fn(u32) -> Ordering {
        move |slot| self.at(slot).map_or(Ordering::Less, |object| object.key().cmp(key))
    }

    /// Replaces the object in slot `slot` by a new state with the same key, and returns the old state.
    pub(crate) fn replace(&mut self, slot: u32, object: Arc<T>) -> Option<Arc<T>> {
        self.slots.get_mut(slot as usize).replace(object)
    }

    /// Adds an object with a new key and returns its slot.
    pub(crate) fn insert(&mut self, key: &Key, object: Arc<T>) -> u32 {
        let next = || u32::try_from(self.order.len()).expect("fewer than 2³² objects");
        let slot = match self.free.is_empty() {
            true => next(),
            false => Arc::make_mut(&mut self.free).pop().expect("the free list is not empty"),
        };
        *self.slots.get_mut(slot as usize) = Some(object);
        self.table.insert(self.hash(key), slot);
        let slots = &self.slots;
        self.order.insert(slot, |other| compare(slots, *other, key));
        slot
    }

    /// Removes the object with this key from slot `slot`.
    pub(crate) fn remove(&mut self, slot: u32, key: &Key) {
        self.table.remove(self.hash(key), slot);
        let slots = &self.slots;
        self.order.remove(|other| compare(slots, *other, key));
        *self.slots.get_mut(slot as usize) = None;
        match self.order.len() {
            0 => *self = self.emptied(),
            _ => Arc::make_mut(&mut self.free).push(slot),
        }
    }

    /// Whether so many slots are free that the objects should be compacted.
    pub(crate) fn is_sparse(&self) -> bool {
        self.free.len() > MANY_FREE.max(self.len() * 3)
    }
}

fn compare<T: Object>(slots: &Slots<Option<Arc<T>>, LEAF>, slot: u32, key: &Key) -> Ordering {
    let object = slots.get(slot as usize).and_then(Option::as_ref);
    object.map_or(Ordering::Less, |object| object.key().cmp(key))
}
