//! [`Counters`]: counts of written and dropped events, as metrics and log lines.

use crate::metrics::{Collect, Metric, Page};
use std::sync::atomic::{AtomicU64, Ordering};

const DROPPED: Metric = Metric::counter(
    "informer_events_dropped_total",
    "Total number of dropped events, by reason: queue full (queue), rate limit of the object (spam), refused, failed too often, \
     or unwritten at the stop (stopped)",
);
const WRITTEN: Metric = Metric::counter("informer_events_written_total", "Total number of events written");

/// Counts of written and dropped events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderStats {
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Not written because their object exceeded its budget; a later write includes them in its count.
    pub spam: u64,
    /// Refused by the sink.
    pub refused: u64,
    /// Dropped after too many attempts.
    pub failed: u64,
    /// Recorded after the stop, or unwritten at the stop.
    pub stopped: u64,
    /// Successful writes.
    pub written: u64,
}

/// Counts of written and dropped events of one component.
#[derive(Default)]
pub(super) struct Counters {
    component: String,
    pub(super) overflowed: AtomicU64,
    pub(super) spam: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) stopped: AtomicU64,
    pub(super) written: AtomicU64,
}

/// Increments a counter.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl RecorderStats {
    /// Total number of dropped events.
    fn dropped(&self) -> u64 {
        let Self { overflowed, spam, refused, failed, stopped, written: _ } = self;
        overflowed + spam + refused + failed + stopped
    }

    /// Logs how many events were dropped since `before`, and why. Only unintended losses are warnings: a
    /// burst about one object is cut on purpose, and a namespace that is being deleted refuses events.
    pub(super) fn log_dropped(&self, before: &Self, component: &str) {
        let (queue, spam) = (self.overflowed - before.overflowed, self.spam - before.spam);
        let (refused, failed) = (self.refused - before.refused, self.failed - before.failed);
        let stopped = self.stopped - before.stopped;
        if queue + failed > 0 {
            tracing::warn!(component, queue, failed, refused, spam, stopped, "{}", lost(queue, failed));
        } else {
            tracing::debug!(component, refused, spam, stopped, "events were dropped");
        }
    }

    /// Whether more events were dropped than in `before`.
    pub(super) fn has_dropped_since(&self, before: &Self) -> bool {
        self.dropped() > before.dropped()
    }
}

/// What was lost, for people: events that were not recorded change nothing else.
fn lost(queue: u64, failed: u64) -> String {
    let reasons =
        [(queue, "they came faster than the recorder writes them"), (failed, "the API did not accept them")];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0).map(|(_, reason)| *reason);
    let reasons = reasons.collect::<Vec<_>>().join(", or ");
    format!("{} events were dropped: {reasons}; only the record of what happened lacks them", queue + failed)
}

impl Counters {
    /// Zero counts for `component`.
    pub(super) fn new(component: &str) -> Self {
        Self { component: component.to_owned(), ..Self::default() }
    }

    /// The component of the events.
    pub(super) fn component(&self) -> &str {
        &self.component
    }

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
    #[expect(clippy::cast_precision_loss, reason = "a metric is a float; exact up to 2^53")]
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
            into.add(&DROPPED, &[("component", &self.component), ("why", why)], dropped as f64);
        }
        into.add(&WRITTEN, &[("component", &self.component)], written as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_with_its_reason_and_consequence() {
        let tail = "only the record of what happened lacks them";
        let faster =
            format!("2239 events were dropped: they came faster than the recorder writes them; {tail}");
        assert_eq!(lost(2239, 0), faster);
        assert!(lost(1, 2).starts_with("3 events were dropped: they came faster "), "{}", lost(1, 2));
        assert!(lost(1, 2).ends_with(&format!(", or the API did not accept them; {tail}")), "{}", lost(1, 2));
    }
}
