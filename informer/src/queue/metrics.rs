//! The numbers of a queue: what happened so far, and how long it took. They are counted here and shown elsewhere.

use std::{sync::Arc, time::Duration};

use super::Priority;

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

/// Durations, counted by decade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; Histogram::BUCKETS + 1],
    sum: Duration,
}

impl Histogram {
    /// Buckets with an upper bound: ten nanoseconds, and ten times as much for each further one, up to ten seconds, as
    /// client-go has them.
    pub const BUCKETS: usize = 10;

    /// Upper bounds of the buckets, each inclusive, with the number of durations up to it.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut below = 0;
        self.counts.iter().take(Self::BUCKETS).zip(1..).map(move |(count, power)| {
            below += count;
            (Duration::from_nanos(10u64.pow(power)), below)
        })
    }

    /// All durations, also those longer than every bound.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    pub(super) fn record(&mut self, duration: Duration) {
        let nanos =
            duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into());
        // 10ⁿ belongs to the bucket below 10ⁿ, so one less decides.
        let bucket = nanos.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize;
        self.counts[bucket.min(Self::BUCKETS)] += 1;
        self.sum = self.sum.saturating_add(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let mut histogram = Histogram::default();
        let nanos = [0, 1, 10, 11, 100, 101, 10_000_000_000, 10_000_000_001, u64::MAX];
        nanos.into_iter().for_each(|n| histogram.record(Duration::from_nanos(n)));
        for (bound, counted) in histogram.buckets() {
            let expected = nanos.iter().filter(|n| Duration::from_nanos(**n) <= bound).count();
            assert_eq!(counted, expected as u64, "{bound:?}");
        }
        assert_eq!(histogram.count(), nanos.len() as u64);
        assert_eq!(histogram.buckets().last().unwrap().0, Duration::from_secs(10));
    }
}
