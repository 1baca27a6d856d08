//! What the store counts and measures. Not an exporter: façades give the figures their names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The live counters.
        #[derive(Debug, Default)]
        pub(crate) struct Metrics {
            $(pub(crate) $name: Counter,)*
            pub(crate) log_sync_time: Stopwatch,
            pub(crate) checkpoint_time: Stopwatch,
            pub(crate) requests_pending: UnderWay,
        }

        /// The figures at one moment. Counters begin at zero when the store is opened; gauges say how it is now.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct MetricsSnapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// How long syncs of the log took.
            pub log_sync_time: Histogram,
            /// How long checkpoints took.
            pub checkpoint_time: Histogram,
            /// Gauge: requests to change something that wait for their answer.
            pub requests_pending: u64,
            /// Gauge: keys that exist.
            pub keys: u64,
            /// Gauge: watchers.
            pub watchers: u64,
            /// Gauge: watchers that are behind and read history.
            pub watchers_behind: u64,
            /// Gauge: events in watchers' queues.
            pub events_pending: u64,
            /// Gauge: bytes of changes that the log has and the engine not yet.
            pub pending_bytes: u64,
            /// Gauge: 1 if the engine failed and is given nothing more (see [`crate::Store::engine_failure`]), else 0.
            pub engine_failed: u64,
            /// Damaged records of the history that were put right from a copy.
            pub records_healed: u64,
            /// Gauge: damaged records of which no copy is left (see [`crate::Store::damage`]).
            pub records_damaged: u64,
        }

        impl Metrics {
            pub(crate) fn snapshot(&self) -> MetricsSnapshot {
                MetricsSnapshot {
                    $($name: self.$name.get(),)*
                    log_sync_time: self.log_sync_time.read(),
                    checkpoint_time: self.checkpoint_time.read(),
                    requests_pending: self.requests_pending.get(),
                    ..MetricsSnapshot::default()
                }
            }
        }
    };
}

counters! {
    /// Transactions evaluated.
    txns,
    /// Transactions whose guards did not hold.
    txns_failed,
    /// Requests refused because the queue was full.
    busy,
    /// Reads answered.
    ranges,
    /// Keys written.
    puts,
    /// Keys deleted.
    deletes,
    /// Log writes, each with all requests that waited for it.
    groups,
    /// Log syncs.
    syncs,
    /// Times the log noted, when idle, what is synced.
    notes_of_sync,
    /// Bytes written to the log.
    log_bytes,
    /// Events put into watchers' queues.
    events_delivered,
    /// Times a watcher fell behind its queue's bound and went to history.
    watchers_lagged,
    /// Versions read from the engine.
    engine_reads,
    /// Versions removed by compaction.
    compacted_versions,
    /// Checkpoints completed.
    checkpoints,
    /// Leases granted.
    leases_granted,
    /// Leases that ended, in whatever way.
    leases_revoked,
    /// Renewals of leases.
    leases_renewed,
    /// Leases that expired.
    leases_expired,
}

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many of something are under way.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(AtomicU64);

impl UnderWay {
    /// One more, until the answer is dropped.
    pub(crate) fn begin(&self) -> Begun<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Begun(self)
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One that is under way.
#[derive(Debug)]
pub(crate) struct Begun<'a>(&'a UnderWay);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Durations, sorted into buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many took at most [`Histogram::bound`] of the same place, and more than the one before. What took longer than
    /// the last bound is only in `count`.
    pub buckets: [u64; Self::BUCKETS],
    /// All together.
    pub sum: Duration,
    /// How many.
    pub count: u64,
}

impl Histogram {
    /// How many buckets there are.
    pub const BUCKETS: usize = 14;

    /// The upper bound of a bucket: 1 ms, doubled from one to the next, as etcd has it.
    pub fn bound(bucket: usize) -> Duration {
        Duration::from_millis(1 << bucket)
    }
}

/// A live histogram.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    buckets: [Counter; Histogram::BUCKETS],
    nanos: Counter,
    count: Counter,
}

impl Stopwatch {
    pub(crate) fn add(&self, took: Duration) {
        let bucket = (0..Histogram::BUCKETS).find(|bucket| took <= Histogram::bound(*bucket));
        if let Some(bucket) = bucket {
            self.buckets[bucket].add(1);
        }
        self.nanos.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.count.add(1);
    }

    fn read(&self) -> Histogram {
        Histogram {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].get()),
            sum: Duration::from_nanos(self.nanos.get()),
            count: self.count.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_counts_until_it_is_dropped() {
        let under_way = UnderWay::default();
        let (first, second) = (under_way.begin(), under_way.begin());
        assert_eq!(under_way.get(), 2);
        drop(first);
        assert_eq!(under_way.get(), 1);
        drop(second);
        assert_eq!(under_way.get(), 0);
    }

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let stopwatch = Stopwatch::default();
        for millis in [0, 1, 2, 3, 8_192, 8_193] {
            stopwatch.add(Duration::from_millis(millis));
        }
        let read = stopwatch.read();
        assert_eq!((read.count, read.sum), (6, Duration::from_millis(16_391)));
        assert_eq!(read.buckets, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
