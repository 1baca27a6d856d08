//! [`LruCache`]: a bounded map that evicts the least recently used entry (LRU cache).

use std::collections::BTreeMap;

/// LRU cache with a fixed number of entries.
pub(super) struct LruCache<K, V> {
    values: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
    bound: usize,
}

impl<K: Ord + Clone, V> LruCache<K, V> {
    /// A cache for at most `bound` entries, at least one.
    pub(super) fn new(bound: usize) -> Self {
        Self { values: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, bound }
    }

    /// The value of `key`, without counting as a use.
    pub(super) fn peek(&self, key: &K) -> Option<&V> {
        self.values.get(key).map(|(_, value)| value)
    }

    pub(super) fn entry(&mut self, key: &K, fresh: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        match self.values.get_mut(key) {
            Some((used, _)) => {
                self.by_use.remove(used);
                *used = self.uses;
            }
            None => {
                if self.values.len() >= self.bound
                    && let Some((_, oldest)) = self.by_use.pop_first()
                {
                    self.values.remove(&oldest);
                }
                self.values.insert(key.clone(), (self.uses, fresh()));
            }
        }
        self.by_use.insert(self.uses, key.clone());
        &mut self.values.get_mut(key).expect("the entry exists or was just inserted").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut recent = LruCache::new(2);
        *recent.entry(&"a", || 1) += 1;
        recent.entry(&"b", || 1);
        recent.entry(&"a", || 9);
        recent.entry(&"c", || 1);
        assert_eq!((recent.peek(&"a"), recent.peek(&"b"), recent.peek(&"c")), (Some(&2), None, Some(&1)));
    }
}
