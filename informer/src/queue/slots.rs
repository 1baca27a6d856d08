//! Keys of a queue, each in one numbered slot, with lookup by key. Linked lists through the slots need no
//! allocation and allow removal from the middle.

use hashbrown::HashTable;
use kstore_nondet::FixedState;
use std::hash::{BuildHasher, Hash};

/// The number of a slot.
pub(super) type SlotId = u32;

const NIL: SlotId = SlotId::MAX;

/// Slots with keys and their values.
pub(super) struct Slots<K, V> {
    /// Slot numbers by the hash of their key. The key itself is stored once, in its slot.
    index: HashTable<SlotId>,
    slots: Vec<Slot<K, V>>,
    /// The first free slot; free slots are linked by `after`. The most recently used comes first, because it
    /// is likely in the CPU cache.
    free: SlotId,
}

struct Slot<K, V> {
    hash: u64,
    links: SlotLinks,
    /// `None` if the slot is free.
    content: Option<(K, V)>,
}

#[derive(Clone, Copy)]
struct SlotLinks {
    before: SlotId,
    after: SlotId,
}

/// Head and tail of a linked list of slots. A slot is in at most one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    first: SlotId,
    last: SlotId,
}

impl List {
    pub(super) const EMPTY: Self = Self { first: NIL, last: NIL };

    pub(super) fn is_empty(self) -> bool {
        self.first == NIL
    }

    pub(super) fn first(self) -> Option<SlotId> {
        (self.first != NIL).then_some(self.first)
    }
}

/// The hash of a key for [`Slots::find`]. A function of its own, so that callers can compute it before they
/// take a lock.
pub(super) fn hash<K: Hash>(key: &K) -> u64 {
    FixedState::default().hash_one(key)
}

impl<K: Eq, V> Slots<K, V> {
    pub(super) fn new() -> Self {
        Self { index: HashTable::new(), slots: Vec::new(), free: NIL }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn find(&self, hash: u64, key: &K) -> Option<SlotId> {
        let same =
            |at: &SlotId| self.slots[*at as usize].content.as_ref().is_some_and(|(other, _)| other == key);
        self.index.find(hash, same).copied()
    }

    /// Takes a slot for a key without one.
    pub(super) fn insert(&mut self, hash: u64, key: K, value: V) -> SlotId {
        let slot = Slot { hash, links: SlotLinks { before: NIL, after: NIL }, content: Some((key, value)) };
        let at = match self.free {
            NIL => {
                self.slots.push(slot);
                SlotId::try_from(self.slots.len() - 1).expect("fewer than 2³² keys")
            }
            at => {
                self.free = self.slots[at as usize].links.after;
                self.slots[at as usize] = slot;
                at
            }
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, at, |at| slots[*at as usize].hash);
        at
    }

    /// Frees a slot that is in no list.
    pub(super) fn free(&mut self, at: SlotId) {
        let slot = &mut self.slots[at as usize];
        if let Ok(entry) = self.index.find_entry(slot.hash, |other| *other == at) {
            entry.remove();
            slot.content = None;
            slot.links.after = std::mem::replace(&mut self.free, at);
        }
        if self.index.is_empty() {
            self.shrink();
        }
    }

    /// Releases memory of an earlier peak when the queue is empty.
    fn shrink(&mut self) {
        if self.slots.len() > 1 << 16 {
            self.clear();
        }
    }

    /// Frees all slots and invalidates all lists.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    pub(super) fn get_mut(&mut self, at: SlotId) -> Option<&mut V> {
        self.slots.get_mut(at as usize)?.content.as_mut().map(|(_, value)| value)
    }

    pub(super) fn key(&self, at: SlotId) -> Option<&K> {
        self.slots.get(at as usize)?.content.as_ref().map(|(key, _)| key)
    }

    pub(super) fn value(&self, at: SlotId) -> Option<&V> {
        self.slots.get(at as usize)?.content.as_ref().map(|(_, value)| value)
    }

    /// All keys and values, in unspecified order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots.iter().filter_map(|slot| slot.content.as_ref()).map(|(key, value)| (key, value))
    }

    /// The values of a list, in order.
    pub(super) fn list(&self, list: List) -> impl Iterator<Item = &V> {
        let mut next = list.first();
        std::iter::from_fn(move || {
            let slot = &self.slots[next? as usize];
            next = Some(slot.links.after).filter(|after| *after != NIL);
            slot.content.as_ref().map(|(_, value)| value)
        })
    }

    /// Appends a slot that is in no list.
    pub(super) fn push(&mut self, list: &mut List, at: SlotId) {
        self.slots[at as usize].links = SlotLinks { before: list.last, after: NIL };
        match list.last {
            NIL => list.first = at,
            last => self.slots[last as usize].links.after = at,
        }
        list.last = at;
    }

    /// Removes a slot from its list.
    pub(super) fn unlink(&mut self, list: &mut List, at: SlotId) {
        let SlotLinks { before, after } = self.slots[at as usize].links;
        match before {
            NIL => list.first = after,
            before => self.slots[before as usize].links.after = after,
        }
        match after {
            NIL => list.last = before,
            after => self.slots[after as usize].links.before = before,
        }
    }

    /// Removes and returns the first slot of the list.
    pub(super) fn pop(&mut self, list: &mut List) -> Option<SlotId> {
        let first = list.first()?;
        self.unlink(list, first);
        Some(first)
    }
}
