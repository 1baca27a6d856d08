//! [`ControllerMetrics`]: the metrics of one controller, with the names of controller-runtime.

use crate::metrics::{Collect, Histogram, Metric, Page, PendingWork};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

const TOTAL: Metric =
    Metric::counter("controller_runtime_reconcile_total", "Total number of reconciles by result");
const ERRORS: Metric =
    Metric::counter("controller_runtime_reconcile_errors_total", "Total number of reconcile errors");
const TERMINAL: Metric = Metric::counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Total number of terminal reconcile errors, which are not retried",
);
const PANICS: Metric =
    Metric::counter("controller_runtime_reconcile_panics_total", "Total number of reconcile panics");
const TIMEOUTS: Metric = Metric::counter(
    "controller_runtime_reconcile_timeouts_total",
    "Total number of reconciles that timed out",
);
const TIME: Metric = Metric::histogram("controller_runtime_reconcile_time_seconds", "Duration of reconciles");
const ACTIVE: Metric = Metric::gauge("controller_runtime_active_workers", "Number of active reconciles");
const WORKERS: Metric =
    Metric::gauge("controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles");
const STALE: Metric = Metric::counter(
    "informer_stale_runs_total",
    "Total number of reconciles on a cache that did not show the key's previous writes",
);

const FEED_PANICS: Metric =
    Metric::counter("informer_feed_panics_total", "Total number of changes whose mapping to keys panicked");

/// Result of a run, as counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOutcome {
    Success,
    RequeueAfter,
    Error,
    Terminal,
    Panic,
    Timeout,
}

impl RunOutcome {
    const ALL: [Self; 6] =
        [Self::Success, Self::RequeueAfter, Self::Error, Self::Terminal, Self::Panic, Self::Timeout];

    /// Label of the result in controller-runtime's metrics.
    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RequeueAfter => "requeue_after",
            Self::Error | Self::Terminal | Self::Panic | Self::Timeout => "error",
        }
    }

    /// Name of the result in logs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Success | Self::RequeueAfter | Self::Error => self.label(),
        }
    }
}

pub(super) struct ControllerMetrics {
    controller: Arc<str>,
    counts: Mutex<Counts>,
}

struct Counts {
    results: [u64; RunOutcome::ALL.len()],
    stale: u64,
    feed_panics: u64,
    active: usize,
    workers: usize,
    time: Histogram,
}

impl ControllerMetrics {
    pub(super) fn new(controller: Arc<str>) -> Self {
        let counts = Counts {
            results: [0; RunOutcome::ALL.len()],
            stale: 0,
            feed_panics: 0,
            active: 0,
            workers: 0,
            time: Histogram::new(Histogram::RECONCILE),
        };
        Self { controller, counts: Mutex::new(counts) }
    }

    pub(super) fn workers(&self, workers: usize) {
        self.counts.lock().workers = workers;
    }

    /// Counts a panic of the function that maps changes to keys.
    pub(super) fn feed_panicked(&self) {
        self.counts.lock().feed_panics += 1;
    }

    /// Counts the start of a run.
    pub(super) fn begin(&self, stale: bool) -> ActiveRun<'_> {
        let mut counts = self.counts.lock();
        counts.active += 1;
        counts.stale += u64::from(stale);
        ActiveRun(self)
    }
}

/// An active run. Dropping it without a result only lowers the number of active runs.
pub(super) struct ActiveRun<'a>(&'a ControllerMetrics);

impl ActiveRun<'_> {
    pub(super) fn end(self, result: RunOutcome, took: Duration) {
        let mut counts = self.0.counts.lock();
        counts.results[result as usize] += 1;
        counts.time.observe(took);
    }
}

impl Drop for ActiveRun<'_> {
    fn drop(&mut self) {
        self.0.counts.lock().active -= 1;
    }
}

impl Collect for ControllerMetrics {
    fn collect(&self, into: &mut Page) {
        let counts = self.counts.lock();
        let labels = [("controller", &*self.controller)];
        let mut errors = 0;
        for result in RunOutcome::ALL {
            let count = counts.results[result as usize];
            into.add(&TOTAL, &[labels[0], ("result", result.label())], count as f64);
            errors += if result.label() == "error" { count } else { 0 };
        }
        let count = |result: RunOutcome| counts.results[result as usize] as f64;
        into.add(&ERRORS, &labels, errors as f64);
        into.add(&TERMINAL, &labels, count(RunOutcome::Terminal));
        into.add(&PANICS, &labels, count(RunOutcome::Panic));
        into.add(&TIMEOUTS, &labels, count(RunOutcome::Timeout));
        into.add(&STALE, &labels, counts.stale as f64);
        into.add(&FEED_PANICS, &labels, counts.feed_panics as f64);
        into.add(&ACTIVE, &labels, counts.active as f64);
        into.add(&WORKERS, &labels, counts.workers as f64);
        into.distribution(&TIME, &labels, &counts.time);
    }

    fn pending(&self) -> Option<PendingWork> {
        let active = self.counts.lock().active;
        (active > 0).then(|| PendingWork::Runs { controller: self.controller.clone(), active })
    }
}
