//! Metrics of a queue: counts and durations, and their names in a [`Registry`], which are client-go's.

use super::{Inner, Queue};
use crate::Priority;
use crate::metrics::{Collect, Histogram, Metric, Page, PendingWork, Registry};
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Counts of a queue at one moment.
///
/// Requests for runs are conserved: `adds + requeues = runs + merged + dropped + pending`. Pending requests
/// have not led to a run yet: one for each ready or waiting key, and one for each running or parked key that
/// will run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Keys that are ready to run.
    pub ready: usize,
    /// Keys that wait for a time.
    pub waiting: usize,
    /// Keys that are running.
    pub running: usize,
    /// Keys that are parked after a run.
    pub parked: usize,
    /// Accepted adds so far.
    pub adds: u64,
    /// Runs so far that requested another run, after a failure or with
    /// [`Verdict::Again`](crate::Verdict::Again).
    pub requeues: u64,
    /// Requests that merged into a pending one of the same key.
    pub merged: u64,
    /// Runs so far.
    pub runs: u64,
    /// Failed runs so far.
    pub retries: u64,
    /// Requests that were dropped when the queue ended.
    pub dropped: u64,
    /// Keys whose parking timed out.
    pub stale: u64,
}

impl QueueStats {
    /// client-go's `workqueue_adds_total`: requests that did not merge into a pending one.
    pub fn entered(&self) -> u64 {
        (self.adds + self.requeues).saturating_sub(self.merged)
    }
}

/// All metrics of a queue, as in Kubernetes' `workqueue_*` metrics.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    /// The name of the queue.
    pub name: Arc<str>,
    /// The counts.
    pub stats: QueueStats,
    /// Number of ready keys by priority, highest first, without empty priorities.
    pub depth: Vec<(Priority, usize)>,
    /// How long keys were ready before they ran.
    pub queue_duration: Histogram,
    /// Durations of ended runs.
    pub work_duration: Histogram,
    /// Sum of the durations of active runs so far.
    pub unfinished_work: Duration,
    /// Duration of the oldest active run so far.
    pub longest_running: Duration,
}

/// Durations counted by decade: cheap to record, converted to a [`Histogram`] on request.
#[derive(Clone, Copy, Default)]
pub(super) struct DecadeHistogram {
    /// Counts per decade: the first up to ten nanoseconds, each further one up to ten times more; the last
    /// has no bound.
    counts: [u64; BOUNDS + 1],
    sum: Duration,
}

/// Number of decades with an upper bound, as many as [`Histogram::QUEUE`] has.
const BOUNDS: usize = Histogram::QUEUE.len();

impl DecadeHistogram {
    pub(super) fn record(&mut self, duration: Duration) {
        let nanos =
            duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into());
        // 10ⁿ belongs to the bucket below 10ⁿ, so one is subtracted.
        let bucket = nanos.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize;
        self.counts[bucket.min(BOUNDS)] += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    pub(super) fn histogram(&self) -> Histogram {
        Histogram::of_counts(Histogram::QUEUE, &self.counts, self.sum.as_secs_f64())
    }
}

const DEPTH: Metric = Metric::gauge("workqueue_depth", "Current depth of the queue");
const ADDS: Metric = Metric::counter("workqueue_adds_total", "Total number of adds handled by the queue");
const READY: Metric = Metric::histogram(
    "workqueue_queue_duration_seconds",
    "How long keys stayed in the queue before they ran",
);
const WORK: Metric = Metric::histogram("workqueue_work_duration_seconds", "Duration of reconciles");
const UNFINISHED: Metric = Metric::gauge(
    "workqueue_unfinished_work_seconds",
    "Seconds of work in progress that is not yet in work_duration",
);
const LONGEST: Metric = Metric::gauge(
    "workqueue_longest_running_processor_seconds",
    "Seconds that the longest running worker has been running",
);
const RETRIES: Metric =
    Metric::counter("workqueue_retries_total", "Total number of retries handled by the queue");

impl<K: Ord + Hash + Clone + Send + 'static> Queue<K> {
    /// Exposes the queue's metrics in `registry` as long as a handle to the queue exists.
    pub fn show_in(&self, registry: &Registry) {
        let inner: Weak<Inner<K>> = Arc::downgrade(&self.0);
        registry.add(inner);
    }
}

impl<K: Ord + Hash + Clone + Send> Collect for Inner<K> {
    fn collect(&self, into: &mut Page) {
        let metrics = self.change(|state, now| state.metrics(self.name.clone(), now));
        let labels = [("name", &*self.name)];
        into.add(&DEPTH, &labels, metrics.stats.ready as f64);
        into.add(&ADDS, &labels, metrics.stats.entered() as f64);
        into.add(&RETRIES, &labels, metrics.stats.retries as f64);
        into.add(&UNFINISHED, &labels, metrics.unfinished_work.as_secs_f64());
        into.highest(&LONGEST, &labels, metrics.longest_running.as_secs_f64());
        into.distribution(&READY, &labels, &metrics.queue_duration);
        into.distribution(&WORK, &labels, &metrics.work_duration);
    }

    fn pending(&self) -> Option<PendingWork> {
        let keys = self.change(|state, now| state.metrics(self.name.clone(), now)).stats.ready;
        (keys > 0).then(|| PendingWork::Ready { queue: self.name.clone(), keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_smallest_matching_bucket() {
        let mut decades = DecadeHistogram::default();
        let nanos = [0, 1, 10, 11, 100, 101, 10_000_000_000, 10_000_000_001, u64::MAX];
        nanos.into_iter().for_each(|n| decades.record(Duration::from_nanos(n)));
        let histogram = decades.histogram();
        let (mut counted, mut bound) = (histogram.cumulative(), 1);
        for _ in 0..BOUNDS {
            bound *= 10;
            let expected = nanos.iter().filter(|n| **n <= bound).count();
            assert_eq!(counted.next().unwrap().1, expected as u64, "{bound} ns");
        }
        assert_eq!(counted.next(), Some((f64::INFINITY, nanos.len() as u64)));
        assert_eq!(histogram.count(), nanos.len() as u64);
    }
}
