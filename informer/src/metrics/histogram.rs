//! [`Histogram`]: distribution of durations or numbers over fixed buckets. It has no name and no lock; its owner
//! provides both.

use std::time::Duration;

/// Counts of durations, in seconds, or of other numbers by upper bound. Its memory depends only on the number of
/// bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One count per bound, and one for durations above all bounds.
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    /// Upper bounds in seconds of the workqueue metrics: from 10 ns up, each ten times the previous. Not
    /// rounded, because dashboards compare the text of a bound with the result of Go's multiplication.
    pub const QUEUE: &'static [f64] =
        &[1e-8, 1e-7, 1e-6, 9.999999999999999e-6, 9.999999999999999e-5, 0.001, 0.01, 0.1, 1.0, 10.0];

    /// Upper bounds in seconds of controller-runtime's reconcile duration.
    pub const RECONCILE: &'static [f64] = &[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
        1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0,
        40.0, 50.0, 60.0,
    ];

    /// An empty histogram with these ascending upper bounds, in seconds for durations.
    pub fn new(bounds: &'static [f64]) -> Self {
        debug_assert!(bounds.is_sorted(), "the bounds of a histogram ascend");
        Self { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    /// Records one duration. A duration equal to a bound counts in its bucket.
    pub fn observe(&mut self, took: Duration) {
        self.observe_number(took.as_secs_f64());
    }

    /// Records one number. A number equal to a bound counts in its bucket.
    pub fn observe_number(&mut self, number: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < number);
        self.counts[bucket] += 1;
        self.sum += number;
    }

    /// Number of recorded durations or numbers.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of the durations, in seconds, or of the numbers.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Cumulative counts by upper bound; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        }))
    }

    /// A histogram from cumulative counts: the count up to each bound, the total count, and the sum in
    /// seconds.
    pub(crate) fn from_cumulative(
        bounds: &'static [f64],
        up_to: impl Iterator<Item = u64>,
        all: u64,
        sum: f64,
    ) -> Self {
        let mut below = 0;
        let counts =
            up_to.take(bounds.len()).chain([all]).map(|total| total - std::mem::replace(&mut below, total));
        let counts: Box<[u64]> = counts.collect();
        debug_assert_eq!(counts.len(), bounds.len() + 1, "there is a count per bound");
        Self { bounds, counts, sum }
    }

    /// Adds the counts of another histogram. If its bounds differ, only its count and sum are added, in the
    /// infinite bucket.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        match self.bounds == other.bounds {
            true => self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs),
            false => *self.counts.last_mut().expect("there is a bucket above all bounds") += other.count(),
        }
    }
}
