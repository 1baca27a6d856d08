//! Order of the ready keys: by priority with ageing; within a priority first come, first served, or tenants
//! in turn.

use super::slots::{List, SlotId, Slots};
use crate::Priority;
use kstore_nondet::HashMap;
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Ready slots, by priority.
///
/// A priority is due if, since it was last served or became non-empty, other priorities were served `ageing`
/// times for each non-empty priority above it. The highest priority is therefore always due. Of the due
/// priorities, the longest waiting is next, and among equals the lowest. After any other priority
/// was served, the highest is next.
///
/// Bound: the first key of a priority waits for at most `ageing` others per higher priority and two per other
/// priority. The first key of the highest waits for at most one.
pub(super) struct Ready {
    /// Non-empty levels, highest priority first.
    levels: Vec<Level>,
    /// Whether a level other than the highest was served last.
    overtaken: bool,
    ageing: usize,
    len: usize,
}

struct Level {
    priority: Priority,
    /// How often other levels were served since this one was.
    passed: usize,
    len: usize,
    lanes: LevelQueue,
}

enum LevelQueue {
    One(List),
    Fair(TenantTurns),
}

/// Tenants of one level that are served in turn. Each tenant with keys is in `order` once. A tenant whose
/// last key was removed out of turn stays in `order` until its turn.
#[derive(Default)]
struct TenantTurns {
    lanes: HashMap<u64, List>,
    order: VecDeque<u64>,
}

/// Priority and tenant of a ready slot.
#[derive(Clone, Copy)]
pub(super) struct ReadyPosition {
    pub(super) priority: Priority,
    /// `None` in queues without tenants.
    pub(super) tenant: Option<u64>,
}

impl Ready {
    pub(super) fn new(ageing: NonZeroU32) -> Self {
        Self { levels: Vec::new(), overtaken: false, ageing: ageing.get() as usize, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of ready keys of each priority, highest first.
    pub(super) fn depth(&self) -> Vec<(Priority, usize)> {
        self.levels.iter().map(|level| (level.priority, level.len)).collect()
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        self.levels.clear();
        self.len = 0;
    }

    /// Appends a slot to its priority and tenant.
    pub(super) fn push<K: Eq, V>(&mut self, slots: &mut Slots<K, V>, at: SlotId, position: ReadyPosition) {
        let found = self.levels.binary_search_by(|level| position.priority.cmp(&level.priority));
        let index = found.unwrap_or_else(|index| {
            self.levels.insert(index, Level::new(position));
            index
        });
        let level = &mut self.levels[index];
        level.len += 1;
        self.len += 1;
        match &mut level.lanes {
            LevelQueue::One(list) => slots.push(list, at),
            LevelQueue::Fair(turns) => turns.push(slots, at, position.tenant.unwrap_or_default()),
        }
    }

    /// Removes a slot before its turn.
    pub(super) fn remove<K: Eq, V>(&mut self, slots: &mut Slots<K, V>, at: SlotId, position: ReadyPosition) {
        let found = self.levels.binary_search_by(|level| position.priority.cmp(&level.priority));
        let index = found.expect("a ready key's priority has a level");
        match &mut self.levels[index].lanes {
            LevelQueue::One(list) => slots.unlink(list, at),
            LevelQueue::Fair(turns) => {
                let lane = turns.lanes.get_mut(&position.tenant.unwrap_or_default());
                slots.unlink(lane.expect("a ready key's tenant has a lane"), at);
            }
        }
        self.decrement(index);
    }

    /// Removes and returns the next slot.
    pub(super) fn pop<K: Eq, V>(&mut self, slots: &mut Slots<K, V>) -> Option<SlotId> {
        let index = self.next_level()?;
        self.overtaken = index > 0;
        self.levels.iter_mut().for_each(|level| level.passed += 1);
        let served = &mut self.levels[index];
        served.passed = 0;
        let next = match &mut served.lanes {
            LevelQueue::One(list) => slots.pop(list),
            LevelQueue::Fair(turns) => turns.pop(slots),
        };
        self.decrement(index);
        next
    }

    fn next_level(&self) -> Option<usize> {
        if self.overtaken || self.levels.len() < 2 {
            return (!self.levels.is_empty()).then_some(0);
        }
        let due = |(above, level): &(usize, &Level)| level.passed >= above * self.ageing;
        let longest = self.levels.iter().enumerate().filter(due).max_by_key(|(_, level)| level.passed);
        Some(longest.map_or(0, |(index, _)| index))
    }

    fn decrement(&mut self, index: usize) {
        self.len -= 1;
        self.levels[index].len -= 1;
        if self.levels[index].len == 0 {
            self.levels.remove(index);
        }
    }
}

impl Level {
    fn new(position: ReadyPosition) -> Self {
        let lanes = match position.tenant {
            None => LevelQueue::One(List::EMPTY),
            Some(_) => LevelQueue::Fair(TenantTurns::default()),
        };
        Self { priority: position.priority, passed: 0, len: 0, lanes }
    }
}

impl TenantTurns {
    fn push<K: Eq, V>(&mut self, slots: &mut Slots<K, V>, at: SlotId, tenant: u64) {
        let lane = self.lanes.entry(tenant).or_insert_with(|| {
            self.order.push_back(tenant);
            List::EMPTY
        });
        slots.push(lane, at);
    }

    /// The first key of the next tenant.
    fn pop<K: Eq, V>(&mut self, slots: &mut Slots<K, V>) -> Option<SlotId> {
        loop {
            let tenant = self.order.pop_front()?;
            let lane = self.lanes.get_mut(&tenant)?;
            let next = slots.pop(lane);
            match lane.is_empty() {
                true => drop(self.lanes.remove(&tenant)),
                false => self.order.push_back(tenant),
            }
            if next.is_some() {
                return next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Q8: the first key of a level is served after at most `ageing` others per higher level and two per
        /// other level; one of the highest after at most one. This holds for all other adds.
        #[test]
        fn the_wait_of_each_priority_is_bounded(
            ageing in 1u32..6,
            turns in prop::collection::vec(prop::collection::vec(0i32..5, 0..4), 1..300),
        ) {
            let (mut slots, mut ready) = (Slots::new(), Ready::new(ageing.try_into().unwrap()));
            // Services since a level was served or became non-empty.
            let mut waited = [None; 5];
            for (turn, added) in turns.iter().enumerate() {
                for (n, priority) in added.iter().enumerate() {
                    let at = slots.insert(0, (turn, n), *priority);
                    ready.push(&mut slots, at, ReadyPosition { priority: Priority(*priority), tenant: None });
                    waited[*priority as usize].get_or_insert(0);
                }
                let Some(at) = ready.pop(&mut slots) else { continue };
                let priority = *slots.value(at).unwrap();
                slots.free(at);
                let more = slots.iter().any(|(_, other)| *other == priority);
                waited[priority as usize] = more.then_some(0);
                for (level, waited) in waited.iter_mut().enumerate().filter(|(level, _)| *level != priority as usize) {
                    let Some(waited) = waited else { continue };
                    *waited += 1;
                    let bound = if level == 4 { 1 } else { (4 - level) * ageing as usize + 2 * 4 };
                    prop_assert!(*waited <= bound, "level {level} waited {waited} > {bound}");
                }
            }
            prop_assert_eq!(ready.len(), slots.len());
        }
    }
}
