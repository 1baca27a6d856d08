//! The requests of a level in slots that are used again, so that a request costs no allocation.

use super::RequestId;
use crate::fairness::estimate::Work;
use std::time::Duration;

/// A request that has not left its level.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) about: T,
    pub(super) work: Work,
    /// `None` in a level without queues.
    pub(super) queue: Option<usize>,
    pub(super) arrived: Duration,
    pub(super) arrived_virtual: f64,
    /// `None` while it waits.
    pub(super) started: Option<Duration>,
    /// Whether its seats were taken away while it ran.
    pub(super) is_released: bool,
}

impl<T> Entry<T> {
    pub(super) fn new(about: T, work: Work, queue: Option<usize>, now: Duration, virtual_now: f64) -> Self {
        Self {
            about,
            work,
            queue,
            arrived: now,
            arrived_virtual: virtual_now,
            started: None,
            is_released: false,
        }
    }
}

/// Slots of requests.
#[derive(Debug)]
pub(super) struct Requests<T> {
    slots: Vec<Option<Entry<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

/// Why a slot is never empty: its owner removes a request once.
const PRESENT: &str = "a request is in its slot until its owner removes it";

impl<T> Requests<T> {
    pub(super) fn add(&mut self, entry: Entry<T>) -> RequestId {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(entry);
                RequestId(slot)
            }
            None => {
                self.slots.push(Some(entry));
                RequestId(self.slots.len() - 1)
            }
        }
    }

    pub(super) fn get(&self, id: RequestId) -> &Entry<T> {
        self.slots[id.0].as_ref().expect(PRESENT)
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> &mut Entry<T> {
        self.slots[id.0].as_mut().expect(PRESENT)
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Entry<T> {
        let entry = self.slots[id.0].take().expect(PRESENT);
        self.free.push(id.0);
        entry
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.slots.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<T>> {
        self.slots.iter_mut().flatten()
    }
}
