//! Metrics of the store: counters, gauges and histograms. Front ends give them names and export them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The live counters.
        #[derive(Debug, Default)]
        pub(crate) struct Metrics {
            $(pub(crate) $name: Counter,)*
            pub(crate) log_sync_time: LiveHistogram,
            pub(crate) checkpoint_time: LiveHistogram,
            pub(crate) requests_pending: InFlightGauge,
        }

        /// Values of all metrics at one moment. Counters start at zero when the store is opened; gauges show the
        /// current state.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct MetricsSnapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Durations of the log's syncs.
            pub log_sync_time: Histogram,
            /// Durations of checkpoints.
            pub checkpoint_time: Histogram,
            /// Gauge: writing requests that wait for their answer.
            pub requests_pending: u64,
            /// Gauge: keys that exist.
            pub keys: u64,
            /// Gauge: watchers.
            pub watchers: u64,
            /// Gauge: lagging watchers, which read events from history.
            pub watchers_behind: u64,
            /// Gauge: events queued for watchers.
            pub events_pending: u64,
            /// Gauge: bytes of changes that are in the log but not in the engine.
            pub pending_bytes: u64,
            /// Gauge: 1 if the engine failed and gets nothing more (see [`crate::Store::engine_failure`]), else 0.
            pub engine_failed: u64,
            /// Damaged history records that were repaired from a copy.
            pub records_healed: u64,
            /// Gauge: damaged records without an intact copy (see [`crate::Store::damage`]).
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
    /// Transactions whose compares failed.
    txns_failed,
    /// Requests refused because the queue was full.
    busy,
    /// Reads answered.
    ranges,
    /// Keys written.
    puts,
    /// Keys deleted.
    deletes,
    /// Writes to the log, one per group of requests.
    groups,
    /// Log syncs.
    syncs,
    /// Sync markers that the idle log wrote; a sync marker records what is synced.
    sync_markers,
    /// Bytes written to the log.
    log_bytes,
    /// Events queued for watchers.
    events_delivered,
    /// Times a watcher exceeded its queue's bound and switched to reading history.
    watchers_lagged,
    /// Versions read from the engine.
    engine_reads,
    /// Versions removed by compaction.
    compacted_versions,
    /// Checkpoints completed.
    checkpoints,
    /// Leases granted.
    leases_granted,
    /// Leases that were revoked or expired.
    leases_revoked,
    /// Renewals of leases.
    leases_renewed,
    /// Leases that expired.
    leases_expired,
}

/// A monotonic counter.
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

/// A gauge of operations in progress.
#[derive(Debug, Default)]
pub(crate) struct InFlightGauge(AtomicU64);

impl InFlightGauge {
    /// Counts an operation as in progress until the returned guard is dropped.
    pub(crate) fn begin(&self) -> InFlightGuard<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(self)
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Guard of one operation in progress.
#[derive(Debug)]
pub(crate) struct InFlightGuard<'a>(&'a InFlightGauge);

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A histogram of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of durations per bucket: at most this bucket's [`Histogram::bound`], and more than the previous bucket's.
    /// Longer durations than the last bound count only in `count`.
    pub buckets: [u64; Self::BUCKETS],
    /// Sum of all durations.
    pub sum: Duration,
    /// Number of durations.
    pub count: u64,
}

impl Histogram {
    /// Number of buckets.
    pub const BUCKETS: usize = 14;

    /// The upper bound of a bucket: 1 ms for the first, doubled per bucket, as in etcd.
    pub fn bound(bucket: usize) -> Duration {
        Duration::from_millis(1 << bucket)
    }
}

/// A histogram that threads add to concurrently.
#[derive(Debug, Default)]
pub(crate) struct LiveHistogram {
    buckets: [Counter; Histogram::BUCKETS],
    nanos: Counter,
    count: Counter,
}

impl LiveHistogram {
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
    fn operations_in_progress_count_until_their_guard_is_dropped() {
        let under_way = InFlightGauge::default();
        let (first, second) = (under_way.begin(), under_way.begin());
        assert_eq!(under_way.get(), 2);
        drop(first);
        assert_eq!(under_way.get(), 1);
        drop(second);
        assert_eq!(under_way.get(), 0);
    }

    #[test]
    fn a_duration_counts_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let stopwatch = LiveHistogram::default();
        for millis in [0, 1, 2, 3, 8_192, 8_193] {
            stopwatch.add(Duration::from_millis(millis));
        }
        let read = stopwatch.read();
        assert_eq!((read.count, read.sum), (6, Duration::from_millis(16_391)));
        assert_eq!(read.buckets, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
