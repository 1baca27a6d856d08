//! [`Histogram`]: the distribution of durations or numbers over fixed buckets, as a type of this crate, so that callers
//! need no other kstore crate.

use kstore_metrics_text as text;
use std::time::Duration;

/// Counts of durations, in seconds, or of other numbers by upper bound. Its memory depends only on the number of
/// bounds. It has no name and no lock; its owner provides both.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(text::Histogram);

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
        Self(text::Histogram::new(bounds))
    }

    /// Makes a histogram from the counts of its buckets and the sum in seconds. The last bucket has no bound.
    pub(crate) fn of_counts(bounds: &'static [f64], counts: &[u64], sum: f64) -> Self {
        Self(text::Histogram::of_counts(bounds, counts, sum))
    }

    /// Records one duration. A duration equal to a bound counts in its bucket.
    pub fn observe(&mut self, took: Duration) {
        self.0.observe(took.as_secs_f64());
    }

    /// Records one number. A number equal to a bound counts in its bucket.
    pub fn observe_number(&mut self, number: f64) {
        self.0.observe(number);
    }

    /// Number of recorded durations or numbers.
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Sum of the durations, in seconds, or of the numbers.
    pub fn sum(&self) -> f64 {
        self.0.sum()
    }

    /// Cumulative counts by upper bound; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.0.cumulative()
    }

    /// Adds the counts of another histogram. If its bounds differ, only its count and sum are added, in the
    /// infinite bucket.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }
}
