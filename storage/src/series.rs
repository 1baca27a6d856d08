//! Counters that many threads update concurrently, and families of counters and histograms by label values.

use kstore_nondet::HashMap;
use parking_lot::RwLock;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `more` to the value.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Series by the values of their labels. A series is created at its first use, and stays.
pub struct Family<K, V> {
    series: RwLock<HashMap<K, Arc<V>>>,
    new: fn() -> V,
}

impl<K: Clone + Eq + Hash + Ord, V> Family<K, V> {
    /// An empty family; `new` creates a series.
    pub fn new(new: fn() -> V) -> Self {
        Self { series: RwLock::default(), new }
    }

    /// The series of these label values.
    pub fn get(&self, key: &K) -> Arc<V> {
        if let Some(found) = self.series.read().get(key) {
            return found.clone();
        }
        self.series.write().entry(key.clone()).or_insert_with(|| Arc::new((self.new)())).clone()
    }

    /// All series, in the order of their label values.
    pub fn sorted(&self) -> Vec<(K, Arc<V>)> {
        let mut all: Vec<(K, Arc<V>)> =
            self.series.read().iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_counts_are_not_lost() {
        let family: Family<&str, Counter> = Family::new(Counter::default);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| family.get(&"a").add(1)));
            }
        });
        assert_eq!(family.sorted()[0].1.get(), 4000);
    }
}
