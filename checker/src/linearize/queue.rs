//! Calls and returns in time order, from which operations are removed and restored. An operation may come next if it
//! was called before any other remaining operation returned.

use super::item::Item;

/// A doubly linked list of calls and returns. Node `2 i` is the call of item `i`, node `2 i + 1` its return; the last
/// node is the head.
#[derive(Debug)]
pub(crate) struct Queue {
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Return time of each item.
    returns: Vec<u64>,
    left: usize,
}

impl Queue {
    pub(crate) fn new(items: &[Item]) -> Self {
        let calls = items.iter().enumerate().map(|(at, item)| (item.call, 0, 2 * at));
        let returns = items.iter().enumerate().map(|(at, item)| (item.ret, 1, 2 * at + 1));
        let mut events: Vec<_> = calls.chain(returns).collect();
        // Events at the same time are concurrent: calls come first.
        events.sort_unstable();
        let head = 2 * items.len();
        let (mut next, mut previous) = (vec![head; head + 1], vec![head; head + 1]);
        let mut last = head;
        for (_, _, node) in events {
            (next[last], previous[node]) = (node, last);
            last = node;
        }
        (next[last], previous[head]) = (head, last);
        Self { next, previous, returns: items.iter().map(|item| item.ret).collect(), left: items.len() }
    }

    /// Number of remaining items.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The items that may come next, ordered by their calls.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = usize> {
        let head = self.next.len() - 1;
        let nodes = std::iter::successors(Some(self.next[head]), |node| Some(self.next[*node]));
        nodes.take_while(move |node| *node != head && node.is_multiple_of(2)).map(|node| node / 2)
    }

    /// The remaining item that returned first; none if none remains.
    pub(crate) fn first_to_return(&self) -> Option<usize> {
        let head = self.next.len() - 1;
        let mut node = self.next[head];
        while node != head && node.is_multiple_of(2) {
            node = self.next[node];
        }
        (node != head).then_some(node / 2)
    }

    /// The return time of the remaining item that returned first; the maximum if none remains.
    pub(crate) fn first_return(&self) -> u64 {
        self.first_to_return().map_or(u64::MAX, |item| self.returns[item])
    }

    /// Removes an item.
    pub(crate) fn take(&mut self, item: usize) {
        for node in [2 * item, 2 * item + 1] {
            let (previous, next) = (self.previous[node], self.next[node]);
            (self.next[previous], self.previous[next]) = (next, previous);
        }
        self.left -= 1;
    }

    /// Restores the last removed item that was not restored.
    pub(crate) fn put_back(&mut self, item: usize) {
        for node in [2 * item + 1, 2 * item] {
            let (previous, next) = (self.previous[node], self.next[node]);
            (self.next[previous], self.previous[next]) = (node, node);
        }
        self.left += 1;
    }
}
