//! [`Histogram`] and [`AtomicHistogram`]: counts of values over fixed buckets. They have no name and no lock; their owners provide both.

use crate::page::{Label, Page};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of values by upper bound, and their sum. Its memory depends only on the number of bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One count per bound, and one for values above all bounds.
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    /// An empty histogram with these upper bounds, which ascend and do not include infinity.
    pub fn new(bounds: &'static [f64]) -> Self {
        debug_assert!(bounds.is_sorted(), "the bounds of a histogram ascend");
        Self { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    /// Makes a histogram from the counts of its buckets and the sum of all values. The last bucket has no bound.
    ///
    /// # Panics
    /// When there is not one count more than bounds.
    pub fn of_counts(bounds: &'static [f64], counts: &[u64], sum: f64) -> Self {
        assert_eq!(counts.len(), bounds.len() + 1, "a histogram has a count per bound, and one more");
        Self { bounds, counts: counts.into(), sum }
    }

    /// Records one value. A value equal to a bound counts in its bucket.
    pub fn observe(&mut self, value: f64) {
        self.counts[bucket(self.bounds, value)] += 1;
        self.sum += value;
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of the values.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Cumulative counts by upper bound; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        accumulate(self.bounds, self.counts.iter().copied())
    }

    /// Adds the counts of another histogram. If its bounds differ, only its count and sum are added, in the infinite bucket.
    pub fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        if self.bounds == other.bounds {
            self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        } else {
            *self.counts.last_mut().expect("there is a bucket above all bounds") += other.count();
        }
    }
}

/// A [`Histogram`] that many threads update concurrently.
#[derive(Debug)]
pub struct AtomicHistogram {
    bounds: &'static [f64],
    counts: Box<[AtomicU64]>,
    /// The bits of the sum, a float.
    sum: AtomicU64,
}

impl AtomicHistogram {
    /// An empty histogram with these upper bounds, which ascend and do not include infinity.
    pub fn new(bounds: &'static [f64]) -> Self {
        debug_assert!(bounds.is_sorted(), "the bounds of a histogram ascend");
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0f64.to_bits()) }
    }

    /// Records one value. A value equal to a bound counts in its bucket.
    pub fn observe(&self, value: f64) {
        self.counts[bucket(self.bounds, value)].fetch_add(1, Ordering::Relaxed);
        let add = |sum: u64| Some((f64::from_bits(sum) + value).to_bits());
        // The function always returns a value, so the update succeeds.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Writes the samples to a page.
    pub fn render(&self, page: &mut Page<'_>, name: &str, labels: &[Label<'_>]) {
        page.histogram(name, labels, self.cumulative(), self.sum());
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Whether there are no values yet.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Sum of the values. It may have a value that another thread is recording and that is not counted yet.
    pub fn sum(&self) -> f64 {
        f64::from_bits(self.sum.load(Ordering::Relaxed))
    }

    /// Cumulative counts by upper bound; the last bound is infinite. They ascend also while other threads record values.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        accumulate(self.bounds, self.counts.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}

/// The bucket of a value: that of the first bound which it does not exceed.
fn bucket(bounds: &[f64], value: f64) -> usize {
    bounds.partition_point(|bound| *bound < value)
}

fn accumulate(bounds: &'static [f64], counts: impl Iterator<Item = u64>) -> impl Iterator<Item = (f64, u64)> {
    let totals = counts.scan(0, |total, count| {
        *total += count;
        Some(*total)
    });
    bounds.iter().copied().chain([f64::INFINITY]).zip(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: &[f64] = &[1.0, 2.5];

    #[test]
    fn a_value_at_a_bound_is_within_it() {
        let (mut histogram, shared) = (Histogram::new(BOUNDS), AtomicHistogram::new(BOUNDS));
        assert!(shared.is_empty());
        for value in [0.5, 1.0, 2.0, 3.0] {
            histogram.observe(value);
            shared.observe(value);
        }
        let want = [(1.0, 2), (2.5, 3), (f64::INFINITY, 4)];
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), want);
        assert_eq!(shared.cumulative().collect::<Vec<_>>(), want);
        assert_eq!((histogram.count(), histogram.sum()), (4, 6.5));
        assert_eq!((shared.count(), shared.sum()), (4, 6.5));
        assert_eq!(histogram, Histogram::of_counts(BOUNDS, &[2, 1, 1], 6.5));
    }

    #[test]
    fn histograms_of_equal_bounds_add_up_by_bucket() {
        let mut histogram = Histogram::of_counts(BOUNDS, &[1, 2, 3], 1.5);
        histogram.merge(&Histogram::of_counts(BOUNDS, &[1, 0, 1], 2.0));
        assert_eq!(histogram, Histogram::of_counts(BOUNDS, &[2, 2, 4], 3.5));
        histogram.merge(&Histogram::of_counts(&[7.0], &[5, 1], 1.0));
        assert_eq!(histogram, Histogram::of_counts(BOUNDS, &[2, 2, 10], 4.5));
    }

    #[test]
    fn concurrent_values_are_not_lost() {
        let histogram = AtomicHistogram::new(BOUNDS);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| histogram.observe(2.0)));
            }
        });
        assert_eq!((histogram.count(), histogram.sum()), (4000, 8000.0));
    }
}
