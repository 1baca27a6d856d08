//! The numbers of a queue: what happened so far, and how long it took. They are counted here and shown elsewhere.

use std::{sync::Arc, time::Duration};

use super::Priority;
use crate::metrics::Histogram;

/// Numbers of a queue at one moment.
///
/// What is wanted is conserved: `adds + requeues = runs + merged + dropped + pending`, where pending is the wishes that
/// have not led to a run yet: one for each ready or waiting key, and one for each running or parked key that is to run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Keys ready to run.
    pub ready: usize,
    /// Keys waiting for a time.
    pub waiting: usize,
    /// Keys running.
    pub running: usize,
    /// Keys parked after a run.
    pub parked: usize,
    /// Adds so far that were accepted.
    pub adds: u64,
    /// Runs so far that asked for another one: failed ones, and those that wanted one more.
    pub requeues: u64,
    /// Wishes that merged into another one of the same key.
    pub merged: u64,
    /// Runs so far.
    pub runs: u64,
    /// Failed runs so far.
    pub retries: u64,
    /// Wishes that the end of the queue left unfulfilled.
    pub dropped: u64,
    /// Keys whose parking ended by its deadline.
    pub stale: u64,
}

impl QueueStats {
    /// What client-go counts as `workqueue_adds_total`: wishes that did not merge into another one.
    pub fn entered(&self) -> u64 {
        (self.adds + self.requeues).saturating_sub(self.merged)
    }
}

/// Everything that is measured of a queue, as Kubernetes' `workqueue_*` metrics want it.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    /// The queue's name.
    pub name: Arc<str>,
    /// Counts.
    pub stats: QueueStats,
    /// Keys ready to run by priority, highest first. Priorities without any are not named.
    pub depth: Vec<(Priority, usize)>,
    /// How long keys were ready before they ran.
    pub queue_duration: Histogram,
    /// How long runs took that have ended.
    pub work_duration: Histogram,
    /// How long the runs under way have taken so far, together.
    pub unfinished_work: Duration,
    /// How long the oldest run under way has taken so far.
    pub longest_running: Duration,
}

/// Durations, counted by decade: what a run costs to count, before anybody asks for a [`Histogram`].
#[derive(Clone, Copy, Default)]
pub(super) struct Decades {
    /// Up to ten nanoseconds, and ten times as much for each further one; the last is for everything above.
    counts: [u64; BOUNDS + 1],
    sum: Duration,
}

/// Decades with an upper bound, as many as [`Histogram::QUEUE`] has.
const BOUNDS: usize = Histogram::QUEUE.len();

impl Decades {
    pub(super) fn record(&mut self, duration: Duration) {
        let nanos =
            duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into());
        // 10ⁿ belongs to the bucket below 10ⁿ, so one less decides.
        let bucket = nanos.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize;
        self.counts[bucket.min(BOUNDS)] += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    pub(super) fn histogram(&self) -> Histogram {
        let up_to = self.counts.iter().scan(0, |below, count| {
            *below += count;
            Some(*below)
        });
        Histogram::from_cumulative(Histogram::QUEUE, up_to, self.counts.iter().sum(), self.sum.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let mut decades = Decades::default();
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
