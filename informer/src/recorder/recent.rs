//! [`LruCache`]: a bounded map that evicts the least recently used entry (LRU cache).

use kstore_nondet::HashMap;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

/// LRU cache with a fixed number of entries. Keys are hashed, not ordered: those of events are long and begin
/// alike.
pub(super) struct LruCache<K, V> {
    values: HashMap<Arc<K>, (u64, V)>,
    by_use: BTreeMap<u64, Arc<K>>,
    uses: u64,
    bound: usize,
}

impl<K: Hash + Eq + Clone, V> LruCache<K, V> {
    /// A cache for at most `bound` entries, at least one.
    pub(super) fn new(bound: usize) -> Self {
        Self { values: HashMap::default(), by_use: BTreeMap::new(), uses: 0, bound }
    }

    /// The value of `key`, without counting as a use.
    pub(super) fn peek(&self, key: &K) -> Option<&V> {
        self.values.get(key).map(|(_, value)| value)
    }

    pub(super) fn entry(&mut self, key: &K, fresh: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        let uses = self.uses;
        let known = self.values.get(key).and_then(|(used, _)| self.by_use.remove(used));
        let key = known.unwrap_or_else(|| {
            if self.values.len() >= self.bound
                && let Some((_, oldest)) = self.by_use.pop_first()
            {
                self.values.remove(&oldest);
            }
            Arc::new(key.clone())
        });
        self.by_use.insert(uses, key.clone());
        let (used, value) = self.values.entry(key).or_insert_with(|| (uses, fresh()));
        *used = uses;
        value
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
