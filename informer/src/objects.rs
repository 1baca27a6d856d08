//! [`Objects`]: the cached objects, found by key and walked in key order. Pure; a clone costs a few reference counts and never
//! changes.
//!
//! An object has a place, a number, as long as it is cached: a change of its state is a write to one slot. A hash table leads from
//! keys to places, an [`Order`] has the places in key order, and indexes hold places too, so none of them is touched by it.
//! Nobody but the object has its key: there is one key in memory for each.

use std::{cmp::Ordering, hash::BuildHasher, sync::Arc};

use kstore_nondet::FixedState;

use crate::{Key, Object, order::Order, slots::Slots, table::Table};

/// Objects that are copied at once when a view is alive: each costs a reference count somewhere in memory.
const LEAF: usize = 16;

/// Free places below which nothing is moved together.
const MANY_FREE: usize = 4_096;

/// See the module.
pub(crate) struct Objects<T> {
    slots: Slots<Option<Arc<T>>, LEAF>,
    table: Table,
    order: Order,
    /// Places that were in use, newest last.
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
            order: Order::default(),
            free: Arc::default(),
            hasher: FixedState::default(),
        }
    }
}

impl<T: Object> Objects<T> {
    /// Chooses how keys are hashed; only while there are none.
    pub(crate) fn seed(&mut self, seed: u64) {
        debug_assert_eq!(self.len(), 0, "keys are hashed in one way");
        self.hasher = FixedState::with_seed(seed);
    }

    /// Without objects, and hashed as this one.
    pub(crate) fn emptied(&self) -> Self {
        Self { hasher: self.hasher.clone(), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    fn hash(&self, key: &Key) -> u32 {
        u32::try_from(self.hasher.hash_one(key) >> 32).expect("half a word")
    }

    /// Where the object of `key` is.
    pub(crate) fn place(&self, key: &Key) -> Option<u32> {
        self.table.find(self.hash(key), |place| self.at(place).is_some_and(|object| object.key() == *key))
    }

    pub(crate) fn at(&self, place: u32) -> Option<&Arc<T>> {
        self.slots.get(place as usize)?.as_ref()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.at(self.place(key)?)
    }

    /// Objects in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.order.iter().filter_map(|place| self.at(place))
    }

    /// The objects of a namespace, in key order.
    pub(crate) fn namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<T>> + use<'_, T> {
        let find = |key: &Key| self.order.find(&self.against(key));
        let from = find(&Key::new(namespace, ""));
        let to = match namespace {
            "" => self.order.end(),
            // The character after `/`: what does not begin with the namespace and a `/` comes before or from there.
            _ => find(&Key::new("", &format!("{namespace}0"))),
        };
        let all = self.order.between(from, to).filter_map(|place| self.at(place));
        // Objects without a namespace are not neighbours, in the odd case that others have one.
        let exact = !namespace.is_empty();
        all.filter(move |object| exact || object.key().namespace().is_empty())
    }

    /// How the key of the object at a place compares with `key`.
    pub(crate) fn against(&self, key: &Key) -> impl Fn(u32) -> Ordering {
        move |place| self.at(place).map_or(Ordering::Less, |object| object.key().cmp(key))
    }

    /// Puts another state of the object at `place`, with the same key; gives back the one before.
    pub(crate) fn replace(&mut self, place: u32, object: Arc<T>) -> Option<Arc<T>> {
        self.slots.get_mut(place as usize).replace(object)
    }

    /// Adds an object whose key is new, and gives back its place.
    pub(crate) fn insert(&mut self, key: &Key, object: Arc<T>) -> u32 {
        let next = || u32::try_from(self.order.len()).expect("four billion objects do not fit");
        let place = match self.free.is_empty() {
            true => next(),
            false => Arc::make_mut(&mut self.free).pop().expect("there is one"),
        };
        *self.slots.get_mut(place as usize) = Some(object);
        self.table.insert(self.hash(key), place);
        let slots = &self.slots;
        self.order.insert(place, |other| compare(slots, other, key));
        place
    }

    /// Takes the object at `place` out, whose key this is.
    pub(crate) fn remove(&mut self, place: u32, key: &Key) {
        self.table.remove(self.hash(key), place);
        let slots = &self.slots;
        self.order.remove(|other| compare(slots, other, key));
        *self.slots.get_mut(place as usize) = None;
        match self.order.len() {
            0 => *self = self.emptied(),
            _ => Arc::make_mut(&mut self.free).push(place),
        }
    }

    /// Whether so many places are free that the objects should move together.
    pub(crate) fn is_sparse(&self) -> bool {
        self.free.len() > MANY_FREE.max(self.len() * 3)
    }
}

fn compare<T: Object>(slots: &Slots<Option<Arc<T>>, LEAF>, place: u32, key: &Key) -> Ordering {
    let object = slots.get(place as usize).and_then(Option::as_ref);
    object.map_or(Ordering::Less, |object| object.key().cmp(key))
}
