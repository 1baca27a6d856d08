//! Shutdown of a queue: at once, or with a drain.

use std::hash::Hash;

use tokio::time::Instant;

use super::{QueueMode, QueueState};
use crate::queue::{entry::KeyPhase, slots::SlotId};

impl<K: Eq + Hash + Clone> QueueState<K> {
    /// Refuses adds and gives up waiting keys. The queue closes by itself when no key is left.
    pub(in crate::queue) fn drain(&mut self, now: Instant) {
        self.ripen(now);
        if self.mode != QueueMode::Open {
            return;
        }
        self.mode = QueueMode::Draining;
        for (timer, at) in self.timers.all() {
            if matches!(self.entry(at).place, KeyPhase::Waiting(_)) {
                self.timers.cancel(timer);
                self.give_up(at);
            }
        }
        self.ripen(now);
    }

    /// Gives up a key in no phase.
    pub(super) fn give_up(&mut self, at: SlotId) {
        self.stats.dropped += 1;
        self.left.extend(self.slots.key(at).cloned());
        self.slots.free(at);
    }

    /// Whether a drain is complete.
    pub(super) fn is_drained(&self) -> bool {
        self.mode == QueueMode::Draining && self.slots.len() == 0
    }

    pub(in crate::queue) fn close(&mut self) {
        let wanted = self.slots.iter().filter(|(_, entry)| entry.planned().is_some()).count();
        self.stats.dropped += wanted as u64;
        if self.mode == QueueMode::Draining {
            self.left.extend(self.slots.iter().map(|(key, _)| key.clone()));
        }
        self.mode = QueueMode::Closed;
        (self.stats.running, self.stats.parked) = (0, 0);
        self.slots.clear();
        self.ready.clear();
        self.timers.clear();
        self.running = crate::queue::slots::List::EMPTY;
    }

    pub(in crate::queue) fn is_closed(&self) -> bool {
        self.mode == QueueMode::Closed
    }

    /// Takes the keys that a drain gave up.
    pub(in crate::queue) fn take_left(&mut self) -> Vec<K> {
        std::mem::take(&mut self.left)
    }
}

#[cfg(test)]
impl<K: Eq> QueueState<K> {
    /// Whether no data of any key is left.
    pub(in crate::queue) fn is_forgetful(&self) -> bool {
        self.slots.len() == 0 && self.ready.len() == 0 && self.timers.len() == 0 && self.running.is_empty()
    }
}
