//! [`Counters`]: what became of the events. Counts only.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::{Collect, Metric, Page};

const DROPPED: Metric = Metric::counter(
    "informer_events_dropped_total",
    "Events that were not written: too many waited (queue), their object had too many (spam), refused, failed too often, \
     recorded or left at the end (stopped)",
);
const WRITTEN: Metric = Metric::counter("informer_events_written_total", "Writes of events that succeeded");

/// What became of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderStats {
    /// Dropped because too many waited.
    pub overflowed: u64,
    /// Not written because their object had too many; if they go on, a later write has them in its count.
    pub spam: u64,
    /// Refused by whom they were written to.
    pub refused: u64,
    /// Given up after too many attempts.
    pub failed: u64,
    /// Recorded after the end, or left at it.
    pub stopped: u64,
    /// Writes that succeeded.
    pub written: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) overflowed: AtomicU64,
    pub(super) spam: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) stopped: AtomicU64,
    pub(super) written: AtomicU64,
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn stats(&self) -> RecorderStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RecorderStats {
            overflowed: get(&self.overflowed),
            spam: get(&self.spam),
            refused: get(&self.refused),
            failed: get(&self.failed),
            stopped: get(&self.stopped),
            written: get(&self.written),
        }
    }
}

impl Collect for Counters {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people; exact up to 2^53")]
    fn collect(&self, into: &mut Page) {
        let RecorderStats { overflowed, spam, refused, failed, stopped, written } = self.stats();
        let whys = [
            ("queue", overflowed),
            ("spam", spam),
            ("refused", refused),
            ("failed", failed),
            ("stopped", stopped),
        ];
        for (why, dropped) in whys {
            into.add(&DROPPED, &[("why", why)], dropped as f64);
        }
        into.add(&WRITTEN, &[], written as f64);
    }
}
