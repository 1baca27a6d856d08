//! The order in which watches are woken for changes that are already in their queues. A watch that is woken
//! late takes all changes that arrived meanwhile, and sends them together.

use super::watchers::Queue;
use kstore_storage::limits;
use std::collections::VecDeque;
use std::sync::Arc;

/// Queues whose watches are to be woken, each once, first come first served. A few watches are woken at once;
/// a thousand are woken in turns, between which other tasks run. Writers are served meanwhile, and changes
/// collect in the queues of waiting watches: several events then cost one wake-up, one encryption and one
/// system call.
#[derive(Debug, Default)]
pub(super) struct WakeUps(VecDeque<Arc<Queue>>);

impl WakeUps {
    /// Adds a queue unless it is already waiting.
    pub(super) fn add(&mut self, queue: &Arc<Queue>) {
        if queue.begin_waiting() {
            self.0.push_back(queue.clone());
        }
    }

    /// Whether no queue is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wakes the next few watches.
    pub(super) fn take(&mut self) {
        let count = self.0.len().min(limits::WAKE_UPS);
        self.0.drain(..count).for_each(|queue| queue.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_watch_is_woken_once_in_turn_for_all_its_changes() {
        let queues: Vec<_> = (0..limits::WAKE_UPS + 1).map(|_| Arc::new(Queue::default())).collect();
        let mut wake_ups = WakeUps::default();
        queues.iter().chain(&queues).for_each(|queue| wake_ups.add(queue));
        assert_eq!(wake_ups.0.len(), queues.len());
        wake_ups.take();
        assert_eq!(wake_ups.0.len(), 1, "one turn wakes a bounded number");
        wake_ups.add(&queues[0]);
        assert_eq!(wake_ups.0.len(), 2, "a watch that was woken can wait again");
        wake_ups.take();
        assert!(wake_ups.is_empty());
    }
}
