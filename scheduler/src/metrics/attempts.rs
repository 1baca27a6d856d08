//! [`AttemptMetrics`]: results and durations of attempts to schedule pods, and the lengths of the queues, under kube-scheduler's names.

use crate::action::{Action, Binding, SchedulingFailure};
use crate::plugin::{EXTENDERS, ExtensionPoint, PluginId, PointObserver};
use crate::profile::Profiles;
use crate::queue::{QueueDepths, RefusedPods};
use jiff::Timestamp;
use kstore_informer::metrics::{Collect, Histogram, Metric, Page, Registry};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

const PENDING: Metric = Metric::gauge(
    "scheduler_pending_pods",
    "Pods without a node, by queue: active are ready for an attempt, backoff wait for the time of the next one, unschedulable were tried \
     in vain, gated were never tried.",
);

const REFUSED: Metric = Metric::gauge(
    "scheduler_unschedulable_pods",
    "Waiting pods by the plugins that refused them at their last attempt; a pod counts for each of them.",
);

const ATTEMPTS: Metric = Metric::counter(
    "scheduler_schedule_attempts_total",
    "Attempts to schedule a pod, by result: scheduled, unschedulable, or error if something else than the nodes was the reason.",
);

const ATTEMPT_DURATION: Metric = Metric::histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Time of an attempt, from the decision to the end of the bind.",
);

const ALGORITHM_DURATION: Metric =
    Metric::histogram("scheduler_scheduling_algorithm_duration_seconds", "Time of a decision.");

const EXTENSION_DURATION: Metric = Metric::histogram(
    "scheduler_framework_extension_point_duration_seconds",
    "Time of all plugins of an extension point.",
);

const PLUGIN_DURATION: Metric = Metric::histogram(
    "scheduler_plugin_execution_duration_seconds",
    "Time of a plugin at an extension point, at Filter on one node; of every tenth attempt.",
);

const SLI_DURATION: Metric = Metric::histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "Time from a pod's entry into the queue to its bind, over all its attempts.",
);

const POD_ATTEMPTS: Metric =
    Metric::histogram("scheduler_pod_scheduling_attempts", "Attempts until a pod had a node.");

/// Upper bounds of the durations of attempts and of the algorithm: kube-scheduler's, doubled from 1 ms.
pub(super) const ATTEMPT_BOUNDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// Those of extension points, doubled from 0.1 ms.
const EXTENSION_BOUNDS: &[f64] =
    &[0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048];
/// Those of single plugins, one and a half times from 10 µs.
const PLUGIN_BOUNDS: &[f64] = &[
    0.000_01,
    0.000_015,
    0.000_022_5,
    0.000_033_75,
    0.000_050_625,
    0.000_075_937_5,
    0.000_113_906_25,
    0.000_170_859_375,
    0.000_256_289_062_5,
    0.000_384_433_593_75,
    0.000_576_650_390_625,
    0.000_864_975_585_937_5,
    0.001_297_463_378_906_25,
    0.001_946_195_068_359_375,
    0.002_919_292_602_539_062_5,
    0.004_378_938_903_808_594,
    0.006_568_408_355_712_891,
    0.009_852_612_533_569_336,
    0.014_778_918_800_354_004,
    0.022_168_378_200_531_006,
];
/// Of so many attempts, one measures its plugins: kube-scheduler's share.
const PLUGINS_EVERY: u64 = 10;
/// Those of the whole wait of a pod, doubled from 10 ms.
const SLI_BOUNDS: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68,
    655.36, 1310.72, 2621.44, 5242.88,
];
const POD_ATTEMPT_BOUNDS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0];
/// Number of attempts from which the waits of pods share a series, `15+`.
const MANY_ATTEMPTS: u32 = 15;

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    const ALL: [Self; 3] = [Self::Scheduled, Self::Unschedulable, Self::Error];

    fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

/// Counts and durations of attempts. They go on when the scheduler starts again.
pub(crate) struct AttemptMetrics {
    profiles: Profiles,
    /// Lengths of the queues, in the order of [`QUEUES`].
    pending: [AtomicUsize; 4],
    refused: Mutex<RefusedPods>,
    durations: Mutex<Durations>,
    /// Attempts that began.
    began: AtomicU64,
}

const QUEUES: [&str; 4] = ["active", "backoff", "unschedulable", "gated"];

struct Durations {
    algorithm: Histogram,
    /// In the order of the profiles.
    profiles: Vec<ProfileDurations>,
    /// Waits of scheduled pods by their number of attempts.
    sli: BTreeMap<u32, Histogram>,
    pod_attempts: Histogram,
    /// By name of the plugin, and whether it succeeded.
    plugins: BTreeMap<(&'static str, ExtensionPoint, bool), Histogram>,
}

struct ProfileDurations {
    /// By the place of the result in [`AttemptResult::ALL`].
    attempts: [Histogram; 3],
    /// Extension points by [`ExtensionPoint`]: those that succeeded, and those that did not.
    points: [[Histogram; 2]; ExtensionPoint::ALL.len()],
}

impl Default for ProfileDurations {
    fn default() -> Self {
        Self {
            attempts: std::array::from_fn(|_| Histogram::new(ATTEMPT_BOUNDS)),
            points: std::array::from_fn(|_| std::array::from_fn(|_| Histogram::new(EXTENSION_BOUNDS))),
        }
    }
}

/// The durations of the extension points of one attempt: one reading of the clock for each.
pub(crate) struct PointDurations {
    began: Instant,
    last: Instant,
    /// Whether each point succeeded, and its time; by [`ExtensionPoint`].
    ended: [Option<(bool, Duration)>; ExtensionPoint::ALL.len()],
    /// The plugins that ended, if this attempt measures them.
    plugins: Option<PluginDurations>,
}

/// The durations of the plugins of one attempt.
struct PluginDurations {
    last: Instant,
    ended: Vec<(ExtensionPoint, PluginId, bool, Duration)>,
}

impl PointDurations {
    /// The attempt begins now.
    fn start(measures_plugins: bool) -> Self {
        let began = Instant::now();
        let plugins = measures_plugins.then(|| PluginDurations { last: began, ended: Vec::new() });
        Self { began, last: began, ended: Default::default(), plugins }
    }
}

impl PointObserver for PointDurations {
    fn begin(&mut self) {
        self.last = Instant::now();
    }

    fn end(&mut self, point: ExtensionPoint, is_success: bool) {
        let now = Instant::now();
        self.ended[point as usize] = Some((is_success, now - self.last));
        self.last = now;
    }

    fn measures_plugins(&self) -> bool {
        self.plugins.is_some()
    }

    fn begin_plugins(&mut self) {
        if let Some(plugins) = &mut self.plugins {
            plugins.last = Instant::now();
        }
    }

    fn end_plugin(&mut self, point: ExtensionPoint, plugin: PluginId, is_success: bool) {
        if let Some(plugins) = &mut self.plugins {
            let now = Instant::now();
            plugins.ended.push((point, plugin, is_success, now - plugins.last));
            plugins.last = now;
        }
    }
}

impl AttemptMetrics {
    /// Zero counts, on the page of `registry` until they are dropped.
    pub(crate) fn registered(profiles: &Profiles, registry: &Registry) -> Arc<Self> {
        let durations = Durations {
            algorithm: Histogram::new(ATTEMPT_BOUNDS),
            profiles: profiles.iter().map(|_| ProfileDurations::default()).collect(),
            sli: BTreeMap::new(),
            pod_attempts: Histogram::new(POD_ATTEMPT_BOUNDS),
            plugins: BTreeMap::new(),
        };
        let metrics = Arc::new(Self {
            profiles: profiles.clone(),
            pending: Default::default(),
            refused: Mutex::default(),
            durations: Mutex::new(durations),
            began: AtomicU64::new(0),
        });
        let collector: Arc<dyn Collect> = Arc::clone(&metrics) as _;
        registry.add(Arc::downgrade(&collector));
        metrics
    }

    /// Measures an attempt that begins now.
    pub(crate) fn begin(&self) -> PointDurations {
        let nth = self.began.fetch_add(1, Ordering::Relaxed);
        PointDurations::start(nth.is_multiple_of(PLUGINS_EVERY))
    }

    /// Sets the lengths of the queues, and who refused the waiting pods.
    pub(crate) fn queued(&self, depths: QueueDepths, refused: &RefusedPods) {
        self.refused.lock().clone_from(refused);
        let QueueDepths { active, backoff, unschedulable, gated } = depths;
        for (pending, depth) in self.pending.iter().zip([active, backoff, unschedulable, gated]) {
            pending.store(depth, Ordering::Relaxed);
        }
    }

    /// Counts a decision that took this time. The attempt of a pod that fits ends with its bind.
    pub(crate) fn decided(&self, action: &Action, points: &PointDurations) {
        let took = points.began.elapsed();
        let (pod, result) = match action {
            Action::Bind(binding) | Action::ClaimDevices(binding) => (&binding.pod, None),
            Action::BindVolumes(writes) => (&writes.binding.pod, None),
            Action::Refuse(notice) => (&notice.pod, Some(result_of(&notice.failure))),
            Action::Preempt(evict) => (&evict.notice.pod, Some(result_of(&evict.notice.failure))),
            // The decision is not made yet, or the actions for the pods of the gang follow.
            Action::Ask(_) | Action::ReportGang(_) => return,
        };
        let mut durations = self.durations.lock();
        durations.algorithm.observe(took);
        let place = self.profiles.place_of(pod);
        if let Some(plugins) = &points.plugins {
            let registry = self.profiles.iter().nth(place).map(|profile| &profile.plugins);
            for (point, plugin, is_success, took) in &plugins.ended {
                let name = registry.map_or("", |registry| registry.row(*plugin).name);
                let of_plugin = durations.plugins.entry((name, *point, *is_success));
                of_plugin.or_insert_with(|| Histogram::new(PLUGIN_BOUNDS)).observe(*took);
            }
        }
        let durations = &mut durations.profiles[place];
        for (histograms, ended) in durations.points.iter_mut().zip(&points.ended) {
            if let Some((is_success, took)) = ended {
                histograms[usize::from(!is_success)].observe(*took);
            }
        }
        if let Some(result) = result {
            durations.attempts[result as usize].observe(took);
        }
    }

    /// Counts a bind that the API accepted or refused.
    pub(crate) fn bound(&self, binding: &Binding, is_accepted: bool, now: Timestamp) {
        let took = elapsed(binding.at, now);
        let mut durations = self.durations.lock();
        let result = if is_accepted { AttemptResult::Scheduled } else { AttemptResult::Error };
        let of_profile = &mut durations.profiles[self.profiles.place_of(&binding.pod)];
        of_profile.points[ExtensionPoint::Bind as usize][usize::from(!is_accepted)].observe(took);
        of_profile.attempts[result as usize].observe(took);
        if is_accepted {
            durations.pod_attempts.observe_number(f64::from(binding.attempts));
            let waits = durations.sli.entry(binding.attempts.min(MANY_ATTEMPTS));
            waits.or_insert_with(|| Histogram::new(SLI_BOUNDS)).observe(elapsed(binding.since, now));
        }
    }
}

fn result_of(failure: &SchedulingFailure) -> AttemptResult {
    match failure {
        SchedulingFailure::Unfit(_) => AttemptResult::Unschedulable,
        SchedulingFailure::AttemptFailed
        | SchedulingFailure::BindFailed
        | SchedulingFailure::VolumesFailed
        | SchedulingFailure::DevicesFailed => AttemptResult::Error,
    }
}

/// The time between two readings of the clock, which may have been set back in between.
pub(super) fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

impl ProfileDurations {
    #[expect(clippy::cast_precision_loss, reason = "a metric is a float; exact up to 2^53")]
    fn collect(&self, profile: &str, into: &mut Page) {
        for result in AttemptResult::ALL {
            let labels = [("profile", profile), ("result", result.name())];
            let attempts = &self.attempts[result as usize];
            into.add(&ATTEMPTS, &labels, attempts.count() as f64);
            into.distribution(&ATTEMPT_DURATION, &labels, attempts);
        }
        for (point, histograms) in ExtensionPoint::ALL.iter().zip(&self.points) {
            let failed = if *point == ExtensionPoint::Bind { "Error" } else { "Unschedulable" };
            let statuses = ["Success", failed].into_iter().zip(histograms);
            // A point at which nothing happened yet has no series, as in kube-scheduler.
            for (status, histogram) in statuses.filter(|(_, histogram)| histogram.count() > 0) {
                let labels = [("extension_point", point.name()), ("status", status), ("profile", profile)];
                into.distribution(&EXTENSION_DURATION, &labels, histogram);
            }
        }
    }
}

impl Collect for AttemptMetrics {
    #[expect(clippy::cast_precision_loss, reason = "a metric is a float; exact up to 2^53")]
    fn collect(&self, into: &mut Page) {
        for (queue, pending) in QUEUES.iter().zip(&self.pending) {
            into.add(&PENDING, &[("queue", queue)], pending.load(Ordering::Relaxed) as f64);
        }
        let refused = self.refused.lock().clone();
        for (place, profile) in self.profiles.iter().enumerate() {
            for (plugin, count) in refused.of_profile(place) {
                let row = if plugin == PluginId::EXTENDERS { EXTENDERS } else { profile.plugins.row(plugin) };
                let labels = [("plugin", row.name), ("profile", &*profile.scheduler_name)];
                into.add(&REFUSED, &labels, count as f64);
            }
        }
        let durations = self.durations.lock();
        into.distribution(&ALGORITHM_DURATION, &[], &durations.algorithm);
        for (profile, durations) in self.profiles.iter().zip(&durations.profiles) {
            durations.collect(&profile.scheduler_name, into);
        }
        for (attempts, waits) in &durations.sli {
            let attempts = match *attempts {
                MANY_ATTEMPTS.. => format!("{MANY_ATTEMPTS}+"),
                few => few.to_string(),
            };
            into.distribution(&SLI_DURATION, &[("attempts", &attempts)], waits);
        }
        into.distribution(&POD_ATTEMPTS, &[], &durations.pod_attempts);
        for ((plugin, point, is_success), took) in &durations.plugins {
            let status = if *is_success { "Success" } else { "Unschedulable" };
            let labels = [("extension_point", point.name()), ("plugin", *plugin), ("status", status)];
            into.distribution(&PLUGIN_DURATION, &labels, took);
        }
    }
}
