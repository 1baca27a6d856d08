//! [`Objects`]: the cached objects, by key and in key order. Pure; a clone costs a few reference counts and
//! never changes.
//!
//! An object stays in one numbered slot while it is cached: an update writes this slot only. A hash table
//! maps keys to slots, a [`Sorted`] list has the slots in key order, and indexes store slots too, so an update
//! touches none of them. Only the object stores its key: there is one key in memory per object.

use crate::any_object::{AnyObject, SharedObject, typed, wrong_type};
use crate::cache::slots::Slots;
use crate::cache::sorted::Sorted;
use crate::cache::table::Table;
use crate::{Key, Object};
use kstore_nondet::FixedState;
use std::any::Any;
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

/// The objects of a cache by slot, without their type. They are stored with it, as `Arc<T>`: that is half of a [`SharedObject`], and
/// views lend it to their readers.
trait ObjectSlots: Send + Sync {
    fn get(&self, slot: u32) -> Option<&dyn AnyObject>;
    fn get_shared(&self, slot: u32) -> Option<SharedObject>;
    /// Stores an object or nothing in a slot and returns what was there.
    fn replace(&mut self, slot: u32, object: Option<SharedObject>) -> Option<SharedObject>;
    fn as_any(&self) -> &dyn Any;
    fn boxed_clone(&self) -> Box<dyn ObjectSlots>;
    /// Slots for objects of the same type, without objects.
    fn emptied(&self) -> Box<dyn ObjectSlots>;
}

type TypedSlots<T> = Slots<Option<Arc<T>>, LEAF>;

impl<T: Object> ObjectSlots for TypedSlots<T> {
    fn get(&self, slot: u32) -> Option<&dyn AnyObject> {
        let object = Slots::get(self, slot as usize)?.as_deref()?;
        Some(object)
    }

    fn get_shared(&self, slot: u32) -> Option<SharedObject> {
        let object = Slots::get(self, slot as usize)?.clone()?;
        Some(object)
    }

    fn replace(&mut self, slot: u32, object: Option<SharedObject>) -> Option<SharedObject> {
        let object = object.map(typed::<T>);
        let old = std::mem::replace(self.get_mut(slot as usize), object)?;
        Some(old)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn boxed_clone(&self) -> Box<dyn ObjectSlots> {
        Box::new(self.clone())
    }

    fn emptied(&self) -> Box<dyn ObjectSlots> {
        Box::new(Self::default())
    }
}

/// Persistent collection of objects with lookup by key and iteration in key order.
pub(crate) struct Objects {
    slots: Box<dyn ObjectSlots>,
    table: Table,
    order: SortedSlots,
    /// Freed slots, newest last.
    free: Arc<Vec<u32>>,
    hasher: FixedState,
}

impl Clone for Objects {
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.boxed_clone(),
            table: self.table.clone(),
            order: self.order.clone(),
            free: self.free.clone(),
            hasher: self.hasher.clone(),
        }
    }
}

impl Objects {
    /// An empty collection for objects of `T`.
    pub(crate) fn of<T: Object>() -> Self {
        Self::empty(Box::new(TypedSlots::<T>::default()), FixedState::default())
    }

    fn empty(slots: Box<dyn ObjectSlots>, hasher: FixedState) -> Self {
        Self { slots, table: Table::default(), order: SortedSlots::default(), free: Arc::default(), hasher }
    }

    /// Whether both collections have objects of one type.
    pub(crate) fn has_type_of(&self, other: &Self) -> bool {
        self.slots.as_any().type_id() == other.slots.as_any().type_id()
    }

    /// Seeds the hash of keys; only while there are no objects.
    pub(crate) fn seed(&mut self, seed: u64) {
        debug_assert_eq!(self.len(), 0, "keys are hashed in one way");
        self.hasher = FixedState::with_seed(seed);
    }

    /// An empty collection for objects of the same type, with the same hash seed.
    pub(crate) fn emptied(&self) -> Self {
        Self::empty(self.slots.emptied(), self.hasher.clone())
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

    pub(crate) fn at(&self, slot: u32) -> Option<&dyn AnyObject> {
        self.slots.get(slot)
    }

    pub(crate) fn shared_at(&self, slot: u32) -> Option<SharedObject> {
        self.slots.get_shared(slot)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<SharedObject> {
        self.shared_at(self.slot(key)?)
    }

    /// The objects by slot, with their type.
    ///
    /// # Panics
    /// When the objects have another type.
    pub(crate) fn typed<T: Object>(&self) -> TypedObjects<'_, T> {
        TypedObjects(self.slots.as_any().downcast_ref().unwrap_or_else(|| wrong_type()))
    }

    /// The slots of the objects in key order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.order.iter().copied()
    }

    /// The slots of the objects of a namespace, in key order.
    pub(crate) fn namespace(&self, namespace: &str) -> impl Iterator<Item = u32> + use<'_> {
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
        let all = self.order.between(from, to).copied();
        // Cluster-scoped objects are not adjacent in the unusual case that other objects have a namespace.
        let exact = !namespace.is_empty();
        all.filter(move |slot| {
            exact || self.at(*slot).is_some_and(|object| object.key().namespace().is_empty())
        })
    }

    /// Compares the key of the object in a slot with `key`.
    pub(crate) fn against(&self, key: &Key) -> impl Fn(u32) -> Ordering {
        move |slot| self.at(slot).map_or(Ordering::Less, |object| object.key().cmp(key))
    }

    /// Replaces the object in slot `slot` by a new state with the same key, and returns the old state.
    pub(crate) fn replace(&mut self, slot: u32, object: SharedObject) -> Option<SharedObject> {
        self.slots.replace(slot, Some(object))
    }

    /// Adds an object with a new key and returns its slot.
    pub(crate) fn insert(&mut self, key: &Key, object: SharedObject) -> u32 {
        let next = || u32::try_from(self.order.len()).expect("fewer than 2³² objects");
        let slot = match self.free.is_empty() {
            true => next(),
            false => Arc::make_mut(&mut self.free).pop().expect("the free list is not empty"),
        };
        self.slots.replace(slot, Some(object));
        self.table.insert(self.hash(key), slot);
        let slots = &*self.slots;
        self.order.insert(slot, |other| compare(slots, *other, key));
        slot
    }

    /// Removes the object with this key from slot `slot`, and returns it.
    pub(crate) fn remove(&mut self, slot: u32, key: &Key) -> Option<SharedObject> {
        self.table.remove(self.hash(key), slot);
        let slots = &*self.slots;
        self.order.remove(|other| compare(slots, *other, key));
        let old = self.slots.replace(slot, None);
        match self.order.len() {
            0 => *self = self.emptied(),
            _ => Arc::make_mut(&mut self.free).push(slot),
        }
        old
    }

    /// Whether so many slots are free that the objects should be compacted.
    pub(crate) fn is_sparse(&self) -> bool {
        self.free.len() > MANY_FREE.max(self.len() * 3)
    }
}

/// The objects of a cache by slot.
pub(crate) struct TypedObjects<'a, T>(&'a TypedSlots<T>);

impl<'a, T: Object> TypedObjects<'a, T> {
    pub(crate) fn at(&self, slot: u32) -> Option<&'a Arc<T>> {
        self.0.get(slot as usize)?.as_ref()
    }
}

fn compare(slots: &dyn ObjectSlots, slot: u32, key: &Key) -> Ordering {
    slots.get(slot).map_or(Ordering::Less, |object| object.key().cmp(key))
}
