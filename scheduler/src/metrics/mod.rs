//! The scheduler's metrics, under kube-scheduler's names: [`PreemptionMetrics`], [`GangMetrics`], and [`AttemptMetrics`] of attempts and
//! queues.

mod attempts;
mod gangs;

use crate::action::{Action, SchedulingFailure};
pub(crate) use attempts::{AttemptMetrics, PointDurations};
pub(crate) use gangs::GangMetrics;
use kstore_informer::metrics::{Collect, Histogram, Metric, Page, Registry};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ATTEMPTS: Metric = Metric::counter(
    "scheduler_preemption_attempts_total",
    "Total preemption attempts in the cluster till now",
);

const VICTIMS: Metric =
    Metric::histogram("scheduler_preemption_victims", "Number of selected preemption victims");

/// The upper bounds of the numbers of victims: kube-scheduler's.
const VICTIM_BOUNDS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Counts of preemptions. They go on when the scheduler starts again.
#[derive(Debug)]
pub(crate) struct PreemptionMetrics {
    attempts: AtomicU64,
    victims: Mutex<Histogram>,
}

impl PreemptionMetrics {
    /// Zero counts, on the page of `registry` until they are dropped.
    pub(crate) fn registered(registry: &Registry) -> Arc<Self> {
        let victims = Mutex::new(Histogram::new(VICTIM_BOUNDS));
        let metrics = Arc::new(Self { attempts: AtomicU64::new(0), victims });
        let collector: Arc<dyn Collect> = Arc::clone(&metrics) as _;
        registry.add(Arc::downgrade(&collector));
        metrics
    }

    /// Counts a decision: each pod that no node fits is an attempt to preempt, unless there are no nodes.
    pub(crate) fn observe(&self, action: &Action) {
        let notice = match action {
            Action::Refuse(notice) => notice,
            Action::Preempt(evict) => &evict.notice,
            Action::Bind(_)
            | Action::ClaimDevices(_)
            | Action::BindVolumes(_)
            | Action::ReportGang(_)
            | Action::Ask(_) => return,
        };
        if let SchedulingFailure::Unfit(refusal) = &notice.failure
            && refusal.nodes > 0
        {
            self.attempts.fetch_add(1, Ordering::Relaxed);
        }
        if let Action::Preempt(evict) = action
            && let Some(selected) = evict.selected
        {
            self.victims.lock().observe_number(selected.get() as f64);
        }
    }
}

impl Collect for PreemptionMetrics {
    #[expect(clippy::cast_precision_loss, reason = "a metric is a float; exact up to 2^53")]
    fn collect(&self, into: &mut Page) {
        into.add(&ATTEMPTS, &[], self.attempts.load(Ordering::Relaxed) as f64);
        into.distribution(&VICTIMS, &[], &self.victims.lock());
    }
}
