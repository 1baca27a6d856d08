//! The order of the keys that are ready: by priority, with ageing, and within a priority first come, first served, or
//! tenants in turn.

use std::{collections::VecDeque, num::NonZeroU32};

use kstore_nondet::HashMap;

use super::{
    Priority,
    slots::{At, List, Slots},
};

/// Ready slots, by priority.
///
/// The rule, exactly: the next is of the highest priority, unless a lower one is due. A priority is due if, since it was
/// last served or became non-empty, keys above it were served `ageing` times for each non-empty priority above it. Of
/// several that are due, the lowest is next. So the first key of a priority waits for at most `ageing` runs of each
/// priority above it, and one of each below.
pub(super) struct Ready {
    /// Highest first; none is empty.
    levels: Vec<Level>,
    ageing: usize,
    len: usize,
}

struct Level {
    priority: Priority,
    /// Services of higher levels since the last one here.
    passed: usize,
    len: usize,
    lanes: Lanes,
}

enum Lanes {
    One(List),
    Fair(Turns),
}

/// The tenants of one level in turn. Each that has keys is in `order` once; one that lost its last key in another way than
/// by its turn stays until then.
#[derive(Default)]
struct Turns {
    lanes: HashMap<u64, List>,
    order: VecDeque<u64>,
}

/// Where a ready slot is, as far as its level does not say.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) priority: Priority,
    /// Nothing in queues whose tenants do not take turns.
    pub(super) tenant: Option<u64>,
}

impl Ready {
    pub(super) fn new(ageing: NonZeroU32) -> Self {
        Self { levels: Vec::new(), ageing: ageing.get() as usize, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many are ready of each priority, highest first.
    pub(super) fn depth(&self) -> Vec<(Priority, usize)> {
        self.levels.iter().map(|level| (level.priority, level.len)).collect()
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.levels.clear();
        self.len = 0;
    }

    /// Puts a slot behind the others of its priority and tenant.
    pub(super) fn push<K: Eq, V>(&mut self, slots: &mut Slots<K, V>, at: At, place: Place) {
        let found = self.levels.binary_search_by(|level| place.priority.cmp(&level.priority));
        let index = found.unwrap_or_else(|index| {
            self.levels.insert(index, Level::new(place));
            index
        });
        let level = &mut self.levels[index];
        level.len += 1;
        self.len += 1;
        match &mut level.lanes {
            Lanes::One(list) => slots.push(list, at),
            Lanes::Fair(turns) => turns.push(slots, at, place.tenant.unwrap_or_default()),
        }
    }

    /// Takes a slot out before its turn.
    pub(super) fn remove<K: Eq, V>(&mut self, slots: &mut Slots<K, V>, at: At, place: Place) {
        let found = self.levels.binary_search_by(|level| place.priority.cmp(&level.priority));
        let index = found.expect("a ready key's priority has a level");
        match &mut self.levels[index].lanes {
            Lanes::One(list) => slots.unlink(list, at),
            Lanes::Fair(turns) => {
                let lane = turns.lanes.get_mut(&place.tenant.unwrap_or_default());
                slots.unlink(lane.expect("a ready key's tenant has a lane"), at);
            }
        }
        self.left(index);
    }

    /// Takes the next slot out.
    pub(super) fn pop<K: Eq, V>(&mut self, slots: &mut Slots<K, V>) -> Option<At> {
        let index = self.next_level()?;
        let (served, below) = self.levels[index..].split_first_mut()?;
        served.passed = 0;
        below.iter_mut().for_each(|level| level.passed += 1);
        let next = match &mut served.lanes {
            Lanes::One(list) => slots.pop(list),
            Lanes::Fair(turns) => turns.pop(slots),
        };
        self.left(index);
        next
    }

    fn next_level(&self) -> Option<usize> {
        if self.levels.is_empty() {
            return None;
        }
        let due = |(above, level): (usize, &Level)| above > 0 && level.passed >= above * self.ageing;
        Some(self.levels.iter().enumerate().rposition(due).unwrap_or(0))
    }

    fn left(&mut self, index: usize) {
        self.len -= 1;
        self.levels[index].len -= 1;
        if self.levels[index].len == 0 {
            self.levels.remove(index);
        }
    }
}

impl Level {
    fn new(place: Place) -> Self {
        let lanes = match place.tenant {
            None => Lanes::One(List::EMPTY),
            Some(_) => Lanes::Fair(Turns::default()),
        };
        Self { priority: place.priority, passed: 0, len: 0, lanes }
    }
}

impl Turns {
    fn push<K: Eq, V>(&mut self, slots: &mut Slots<K, V>, at: At, tenant: u64) {
        let lane = self.lanes.entry(tenant).or_insert_with(|| {
            self.order.push_back(tenant);
            List::EMPTY
        });
        slots.push(lane, at);
    }

    /// The first key of the tenant whose turn it is.
    fn pop<K: Eq, V>(&mut self, slots: &mut Slots<K, V>) -> Option<At> {
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
