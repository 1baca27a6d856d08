//! Which watchers want a key. The cost of asking follows the number of matching watchers, not of all.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::slot::Slot;
use crate::{End, KeyRange};

/// Watchers by id, so that they are visited in the order in which they came.
type Group = BTreeMap<u64, Arc<Slot>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    single: BTreeMap<Bytes, Group>,
    prefixes: BTreeMap<Bytes, Group>,
    /// How many prefixes there are of each length: a key is looked up once per length.
    lengths: BTreeMap<usize, usize>,
    /// Other intervals, by their start; few clients use them. Those that end before a key are visited in vain.
    intervals: BTreeMap<Bytes, Group>,
}

impl Interests {
    pub(crate) fn insert(&mut self, slot: Arc<Slot>) {
        let (id, keys) = (slot.id, slot.request.keys.clone());
        if keys.as_prefix().is_some() && !self.prefixes.contains_key(&keys.start) {
            *self.lengths.entry(keys.start.len()).or_default() += 1;
        }
        self.groups(&keys).entry(keys.start).or_default().insert(id, slot);
    }

    pub(crate) fn remove(&mut self, slot: &Slot) {
        let keys = &slot.request.keys;
        let groups = self.groups(keys);
        let Some(group) = groups.get_mut(&keys.start) else { return };
        group.remove(&slot.id);
        if !group.is_empty() {
            return;
        }
        groups.remove(&keys.start);
        if keys.as_prefix().is_some()
            && let Some(count) = self.lengths.get_mut(&keys.start.len())
        {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&keys.start.len());
            }
        }
    }

    fn groups(&mut self, keys: &KeyRange) -> &mut BTreeMap<Bytes, Group> {
        match keys.end {
            End::Single => &mut self.single,
            End::Before(_) if keys.as_prefix().is_some() => &mut self.prefixes,
            End::Before(_) | End::Unbounded => &mut self.intervals,
        }
    }

    /// Visits the watchers of a key.
    pub(crate) fn visit(&self, key: &[u8], mut visit: impl FnMut(&Arc<Slot>)) {
        self.single.get(key).into_iter().flat_map(Group::values).for_each(&mut visit);
        for len in self.lengths.keys().take_while(|len| **len <= key.len()) {
            self.prefixes.get(&key[..*len]).into_iter().flat_map(Group::values).for_each(&mut visit);
        }
        let reaching = self.intervals.iter().take_while(|(start, _)| start.as_ref() <= key);
        for slot in reaching.flat_map(|(_, group)| group.values()) {
            if slot.request.keys.contains(key) {
                visit(slot);
            }
        }
    }

    /// Visits all watchers.
    pub(crate) fn visit_all(&self, visit: impl FnMut(&Arc<Slot>)) {
        let all = self.single.values().chain(self.prefixes.values()).chain(self.intervals.values());
        all.flat_map(Group::values).for_each(visit);
    }
}
