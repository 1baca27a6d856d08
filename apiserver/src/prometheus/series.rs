//! Counters and histograms that many threads update concurrently, and families of them by label values.

use super::page::{Label, Page};
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

/// A histogram: the number of values in each bucket, and their sum.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Numbers of values by bucket; the last bucket has the values above all bounds.
    counts: Box<[AtomicU64]>,
    /// The bits of the sum, a float.
    sum: AtomicU64,
}

impl Histogram {
    /// A histogram with these upper bounds, which ascend and do not include infinity.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0f64.to_bits()) }
    }

    /// Counts one value.
    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |sum: u64| Some((f64::from_bits(sum) + value).to_bits());
        // The function always returns a value, so the update succeeds.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Whether there are no values yet.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Writes the samples. A value that is counted concurrently may be in the sum and not yet in the count,
    /// but buckets are always cumulative.
    pub fn render(&self, page: &mut Page<'_>, name: &str, labels: &[Label<'_>]) {
        let mut total = 0;
        for (bound, count) in self.bounds.iter().chain([&f64::INFINITY]).zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            page.bucket(name, labels, *bound, total);
        }
        page.line(&format!("{name}_sum"), labels, f64::from_bits(self.sum.load(Ordering::Relaxed)));
        page.line(&format!("{name}_count"), labels, total);
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
    fn a_value_at_a_bound_is_within_it() {
        let histogram = Histogram::new(&[1.0, 2.5]);
        [0.5, 1.0, 2.0, 3.0].into_iter().for_each(|value| histogram.observe(value));
        let mut out = String::new();
        histogram.render(&mut Page::new(&mut out), "h", &[]);
        let want =
            "h_bucket{le=\"1\"} 2\nh_bucket{le=\"2.5\"} 3\nh_bucket{le=\"+Inf\"} 4\nh_sum 6.5\nh_count 4\n";
        assert_eq!(out, want);
    }

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
