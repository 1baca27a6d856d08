//! The order in which watches are woken for changes that are already in their queues. Not what they are woken for: a watch that
//! is woken late finds all that came meanwhile, and sends it as one piece.

use super::watchers::Queue;
use crate::limits;
use std::collections::VecDeque;
use std::sync::Arc;

/// Queues whose watches are still to be woken, each once, first come first served. Few of them are woken at once. A thousand are
/// woken in turns between which other tasks run: writers are served meanwhile, and changes gather in the queues of those whose
/// turn has not come, which costs one wake-up, one encryption and one system call for several events.
#[derive(Debug, Default)]
pub(super) struct Turns(VecDeque<Arc<Queue>>);

impl Turns {
    /// Adds a queue, unless it is waiting for its turn already.
    pub(super) fn add(&mut self, queue: &Arc<Queue>) {
        if queue.begin_waiting() {
            self.0.push_back(queue.clone());
        }
    }

    /// Whether no queue is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wakes the watches of one turn.
    pub(super) fn take(&mut self) {
        let turn = self.0.len().min(limits::WAKE_UPS);
        self.0.drain(..turn).for_each(|queue| queue.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_watch_is_woken_once_and_in_turn_however_many_changes_it_has() {
        let queues: Vec<_> = (0..limits::WAKE_UPS + 1).map(|_| Arc::new(Queue::default())).collect();
        let mut turns = Turns::default();
        queues.iter().chain(&queues).for_each(|queue| turns.add(queue));
        assert_eq!(turns.0.len(), queues.len());
        turns.take();
        assert_eq!(turns.0.len(), 1, "one turn wakes a bounded number");
        turns.add(&queues[0]);
        assert_eq!(turns.0.len(), 2, "a watch that was woken can wait again");
        turns.take();
        assert!(turns.is_empty());
    }
}
