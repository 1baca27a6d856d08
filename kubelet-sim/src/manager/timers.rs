//! Timers: one deadline per pod or node, in order of time. Pure.

use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Deadlines by key, at most one each.
pub(crate) struct Timers<K> {
    by_time: BTreeSet<(Timestamp, K)>,
    by_key: BTreeMap<K, Timestamp>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Timers<K> {
    pub(crate) fn new() -> Self {
        Self { by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }

    /// Sets the only deadline of `key`; `None` removes it.
    pub(crate) fn set(&mut self, key: &K, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.by_key.insert(key.clone(), at),
            None => self.by_key.remove(key),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.by_time.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.by_time.insert((at, key.clone()));
        }
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes the earliest deadline that is not after `now`, and returns its key.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<K> {
        self.by_time.first().filter(|(at, _)| *at <= now)?;
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_deadline_and_the_earliest_comes_first() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut timers = Timers::new();
        timers.set(&"a", Some(at(5)));
        timers.set(&"b", Some(at(3)));
        timers.set(&"a", Some(at(2)));
        timers.set(&"b", None);
        assert_eq!(timers.next(), Some(at(2)));
        assert_eq!(
            (timers.take_due(at(1)), timers.take_due(at(9)), timers.take_due(at(9))),
            (None, Some("a"), None)
        );
    }
}
