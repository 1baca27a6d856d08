//! [`GangMetrics`]: results and durations of the cycles over the pods of gangs, under kube-scheduler's names.

use super::attempts::{ATTEMPT_BOUNDS, elapsed};
use crate::action::{Action, GangResult};
use crate::profile::Profiles;
use jiff::Timestamp;
use kstore_informer::metrics::{Collect, Histogram, Metric, Page, Registry};
use parking_lot::Mutex;
use std::sync::Arc;

const ATTEMPTS: Metric = Metric::counter(
    "scheduler_podgroup_schedule_attempts_total",
    "Attempts to schedule the pods of a PodGroup together, by result: scheduled, unschedulable, or error if something else than the nodes \
     was the reason.",
);

const ATTEMPT_DURATION: Metric = Metric::histogram(
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "Time of an attempt to schedule the pods of a PodGroup together, without their binds.",
);

const RESULTS: [(GangResult, &str); 3] = [
    (GangResult::Scheduled, "scheduled"),
    (GangResult::Unschedulable, "unschedulable"),
    (GangResult::Error, "error"),
];

/// Counts and durations of cycles. They go on when the scheduler starts again. A scheduler that has seen no gang shows none of them.
pub(crate) struct GangMetrics {
    profiles: Profiles,
    /// In the order of the profiles, each in the order of [`RESULTS`].
    durations: Mutex<Vec<[Histogram; RESULTS.len()]>>,
}

impl GangMetrics {
    /// Zero counts, on the page of `registry` until they are dropped.
    pub(crate) fn registered(profiles: &Profiles, registry: &Registry) -> Arc<Self> {
        let histograms = || std::array::from_fn(|_| Histogram::new(ATTEMPT_BOUNDS));
        let durations = Mutex::new(profiles.iter().map(|_| histograms()).collect());
        let metrics = Arc::new(Self { profiles: profiles.clone(), durations });
        let collector: Arc<dyn Collect> = Arc::clone(&metrics) as _;
        registry.add(Arc::downgrade(&collector));
        metrics
    }

    /// Counts the end of a cycle.
    pub(crate) fn observe(&self, action: &Action, now: Timestamp) {
        let Action::ReportGang(report) = action else { return };
        let place = self.profiles.place_of(&report.pod);
        let of_result = RESULTS.iter().position(|(result, _)| *result == report.result);
        if let Some(of_result) = of_result {
            self.durations.lock()[place][of_result].observe(elapsed(report.began, now));
        }
    }
}

impl Collect for GangMetrics {
    #[expect(clippy::cast_precision_loss, reason = "a metric is a float; exact up to 2^53")]
    fn collect(&self, into: &mut Page) {
        let durations = self.durations.lock();
        for (profile, of_profile) in self.profiles.iter().zip(&*durations) {
            for ((_, result), histogram) in RESULTS.iter().zip(of_profile) {
                if histogram.count() > 0 {
                    let labels = [("profile", &*profile.scheduler_name), ("result", result)];
                    into.add(&ATTEMPTS, &labels, histogram.count() as f64);
                    into.distribution(&ATTEMPT_DURATION, &labels, histogram);
                }
            }
        }
    }
}
