//! Plain counters. Not an exporter.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The live counters.
        #[derive(Debug, Default)]
        pub(crate) struct Metrics {
            $(pub(crate) $name: Counter,)*
        }

        /// The counters at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct MetricsSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Metrics {
            pub(crate) fn snapshot(&self) -> MetricsSnapshot {
                MetricsSnapshot { $($name: self.$name.get(),)* }
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

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
