//! Timers of a queue, each for one slot.

use super::slots::SlotId;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Timers by time; equal times in the order in which they were set.
#[derive(Default)]
pub(super) struct Timers {
    set: BTreeMap<Timer, SlotId>,
    next: u64,
}

/// Unique identity of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) at: Instant,
    serial: u64,
}

impl Timers {
    pub(super) fn len(&self) -> usize {
        self.set.len()
    }

    /// The earliest time.
    pub(super) fn first(&self) -> Option<Instant> {
        self.set.first_key_value().map(|(timer, _)| timer.at)
    }

    pub(super) fn set(&mut self, at: Instant, slot: SlotId) -> Timer {
        let timer = Timer { at, serial: self.next };
        self.next += 1;
        self.set.insert(timer, slot);
        timer
    }

    pub(super) fn cancel(&mut self, timer: Timer) {
        self.set.remove(&timer);
    }

    /// Removes and returns the earliest timer that is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Timer, SlotId)> {
        let first = self.set.first_entry()?;
        (first.key().at <= now).then(|| first.remove_entry())
    }

    /// All timers, in order.
    pub(super) fn all(&self) -> Vec<(Timer, SlotId)> {
        self.set.iter().map(|(timer, at)| (*timer, *at)).collect()
    }

    pub(super) fn clear(&mut self) {
        self.set.clear();
    }
}
