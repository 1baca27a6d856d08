//! Plan of a Job: whether it ends, and which pods are missing or surplus. Pure. `report` is the second half
//! of a run, after the change was executed.

use super::backoff::{self, JobFailures};
use super::indexes::Indexes;
use super::pods::{
    all_index_failures, awaiting_replacement, completion_index, completion_indexes, index_failures,
    indexed_pod_of, is_tracked, pending_indexes, pod_of, victims,
};
use super::policy::{PodFailure, pod_failure, success};
use super::status::{is_true, uncounted};
use crate::limits::JOB_BURST;
use crate::view::{Phase, Pod, elapsed};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1 as core;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Input of a plan.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    /// The Job.
    pub job: &'a Job,
    /// The Job's spec.
    pub spec: &'a JobSpec,
    /// All claimed pods, including ended ones.
    pub pods: &'a [Arc<Pod>],
    /// Failures since its last success, as recorded by earlier runs.
    pub backoff: JobFailures,
    /// Whether its namespace is being deleted, so that no pod can be created in it.
    pub is_namespace_ending: bool,
}

/// How a Job ends, with reason and message of its conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobEnd {
    /// Whether the Job is Complete; otherwise it is Failed.
    pub is_success: bool,
    /// Reason of the conditions.
    pub reason: String,
    /// Message of the conditions.
    pub message: String,
}

/// Pods to create or delete.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// No change.
    None,
    /// Create this many identical pods.
    Create(Box<core::Pod>, usize),
    /// Create these pods, one per completion index.
    CreateIndexed(Vec<core::Pod>),
    /// Remove these surplus pods: they lose their finalizer, are deleted, and do not count as failed.
    Remove(Vec<Arc<Pod>>),
    /// The Job ends: delete these pods; they keep their finalizer until they are counted.
    End(Vec<Arc<Pod>>),
}

impl Change {
    /// Whether the change reaches the bound of one run, so that more may be needed.
    pub(crate) fn is_full_burst(&self) -> bool {
        let size = match self {
            Self::None | Self::End(_) => 0,
            Self::Create(_, count) => *count,
            Self::CreateIndexed(pods) => pods.len(),
            Self::Remove(pods) => pods.len(),
        };
        size >= JOB_BURST
    }
}

/// Progress of the completion indexes of an Indexed Job.
#[derive(Debug)]
pub(crate) struct IndexProgress {
    /// Succeeded indexes in the status.
    pub counted: Indexes,
    /// Succeeded indexes, including pods that the status does not count yet.
    pub succeeded: Indexes,
    /// Permanently failed indexes; only with `backoffLimitPerIndex`.
    pub failed: Option<Indexes>,
    /// The failed pod of each index that waits for a replacement; only with `backoffLimitPerIndex`.
    pub replaced: BTreeMap<i32, Arc<Pod>>,
}

/// Decisions of a run.
#[derive(Debug)]
pub(crate) struct JobDecisions {
    /// Pods that are pending or running.
    pub active: Vec<Arc<Pod>>,
    /// Number of succeeded pods or indexes, counted or not.
    pub succeeded: i32,
    /// Progress by index; only for Indexed Jobs.
    pub indexes: Option<IndexProgress>,
    /// How the Job ends, if it does.
    pub ending: Option<JobEnd>,
    /// Pods to create or delete first.
    pub change: Change,
    /// Failures since the last success, including new ones.
    pub backoff: JobFailures,
    /// Delay until the next run without a change.
    pub wake: Option<Duration>,
}

impl<'a> Observed<'a> {
    /// Whether pods count as failed, and are replaced, only after they have ended instead of at their
    /// deletion.
    pub(crate) fn replaces_failed_only(self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
            || self.spec.pod_failure_policy.is_some()
    }

    /// Whether the pod has failed, or counts as failed because it is being deleted.
    pub(crate) fn has_failed(self, pod: &Pod) -> bool {
        match pod.status.phase {
            Phase::Failed => true,
            Phase::Succeeded => false,
            Phase::Pending | Phase::Running | Phase::Unknown => {
                pod.metadata.is_deleting() && !self.replaces_failed_only()
            }
        }
    }

    /// Consequence of a failed pod.
    pub(crate) fn failure(self, pod: &Pod) -> PodFailure {
        pod_failure(self.spec.pod_failure_policy.as_ref(), pod)
    }

    /// `spec.completions`, if set.
    pub(crate) fn completions(self) -> Option<i32> {
        self.spec.completions
    }

    /// `spec.completions` of an Indexed Job.
    pub(crate) fn index_count(self) -> Option<i32> {
        let is_indexed = self.spec.completion_mode.as_deref() == Some("Indexed");
        is_indexed.then_some(self.spec.completions.unwrap_or(0))
    }

    /// Whether the pod counts: in an Indexed Job only with a valid index.
    pub(crate) fn is_countable(self, pod: &Pod) -> bool {
        self.index_count().is_none_or(|count| completion_index(pod).is_some_and(|index| index < count))
    }

    /// Whether the Job is suspended (`spec.suspend`): its pods are deleted and none is created.
    pub(crate) fn is_suspended(self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// The stored status.
    pub(crate) fn status(self) -> Option<&'a JobStatus> {
        self.job.status.as_ref()
    }

    fn backoff_limit(self) -> i32 {
        self.spec.backoff_limit.unwrap_or(6)
    }
}

/// Plans a run of an unfinished Job.
pub(crate) fn evaluate(seen: Observed<'_>, now: Timestamp) -> JobDecisions {
    let active: Vec<Arc<Pod>> = seen.pods.iter().filter(|pod| pod.active()).cloned().collect();
    let known = uncounted(seen.status());
    let fresh = |listed: &BTreeSet<&str>, pod: &Pod| {
        is_tracked(pod) && !listed.contains(pod.metadata.uid.as_str()) && seen.is_countable(pod)
    };
    let is_success = |pod: &Pod| pod.status.phase == Phase::Succeeded;
    let new_succeeded: Vec<&Arc<Pod>> =
        seen.pods.iter().filter(|pod| is_success(pod) && fresh(&known.succeeded, pod)).collect();
    let new_failed: Vec<&Arc<Pod>> =
        seen.pods.iter().filter(|pod| seen.has_failed(pod) && fresh(&known.failed, pod)).collect();
    let counted = |field: fn(&JobStatus) -> Option<i32>| seen.status().and_then(field).unwrap_or(0);
    let not_ignored = new_failed.iter().filter(|pod| seen.failure(pod).is_counted()).count();
    let failed = counted(|s| s.failed) + number(known.failed.len()) + number(not_ignored);
    let indexes = seen.index_count().map(|count| index_progress(seen, &active, count));
    let succeeded = match &indexes {
        Some(indexes) => indexes.succeeded.len(),
        None => counted(|s| s.succeeded) + number(known.succeeded.len()) + number(new_succeeded.len()),
    };
    let backoff = seen.backoff.after(&new_succeeded, &new_failed);
    let ending = ending(seen, failed, indexes.as_ref(), now);
    let mut judgement =
        JobDecisions { active, succeeded, indexes, ending, change: Change::None, backoff, wake: None };
    let deadline = deadline_in(seen, now);
    if judgement.ending.is_some() {
        if !judgement.active.is_empty() {
            judgement.change = Change::End(judgement.active.clone());
        }
    } else if seen.job.metadata.deletion_timestamp.is_none() {
        judgement.change = change(seen, &mut judgement, now);
    }
    if let Some(left) = deadline.filter(|_| judgement.ending.is_none()) {
        wake_in(&mut judgement.wake, left);
    }
    judgement
}

fn wake_in(wake: &mut Option<Duration>, wait: Duration) {
    *wake = Some(wake.map_or(wait, |other| other.min(wait)));
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn index_progress(seen: Observed<'_>, active: &[Arc<Pod>], completions: i32) -> IndexProgress {
    let text = |field: fn(&JobStatus) -> Option<&String>| {
        let text = seen.status().and_then(field).map_or("", String::as_str);
        Indexes::parse(text, completions)
    };
    let tracked = || seen.pods.iter().filter(|pod| is_tracked(pod) && seen.is_countable(pod));
    let counted = text(|s| s.completed_indexes.as_ref());
    let succeeded = tracked().filter(|pod| pod.status.phase == Phase::Succeeded);
    let succeeded = counted.with(&completion_indexes(succeeded));
    let Some(limit) = seen.spec.backoff_limit_per_index else {
        return IndexProgress { counted, succeeded, failed: None, replaced: BTreeMap::new() };
    };
    let is_lost = |pod: &Pod| match seen.failure(pod) {
        PodFailure::FailIndex => true,
        PodFailure::Ignore => false,
        PodFailure::Count | PodFailure::FailJob(_) => index_failures(pod) >= limit,
    };
    let lost = tracked().filter(|pod| seen.has_failed(pod) && is_lost(pod));
    let failed = text(|s| s.failed_indexes.as_ref()).with(&completion_indexes(lost));
    let running = completion_indexes(active);
    let unfinished =
        |index| !succeeded.contains(index) && !failed.contains(index) && !running.contains(&index);
    // In a namespace that is being deleted no replacement follows: the namespace waits for the failed pods.
    // Upstream keeps them, and such a namespace for ever.
    let replaced = match seen.is_namespace_ending {
        true => BTreeMap::new(),
        false => awaiting_replacement(tracked().filter(|pod| seen.has_failed(pod)), unfinished),
    };
    IndexProgress { counted, succeeded, failed: Some(failed), replaced }
}

fn failure(reason: &str, message: impl Into<String>) -> JobEnd {
    JobEnd { is_success: false, reason: reason.into(), message: message.into() }
}

/// Whether and why the Job ends, in upstream's order. An earlier decision in the status is final.
fn ending(
    seen: Observed<'_>,
    failed: i32,
    indexes: Option<&IndexProgress>,
    now: Timestamp,
) -> Option<JobEnd> {
    let decided = |type_: &str, is_success| {
        let condition = is_true(seen.status(), type_)?;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Some(JobEnd { is_success, reason: text(&condition.reason), message: text(&condition.message) })
    };
    if let Some(ending) = decided("SuccessCriteriaMet", true).or_else(|| decided("FailureTarget", false)) {
        return Some(ending);
    }
    if let Some(message) = fail_job_message(seen) {
        return Some(failure("PodFailurePolicy", message));
    }
    if failed > seen.backoff_limit() || restarts_exceed_limit(seen) {
        return Some(failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    if deadline_in(seen, now).is_some_and(|left| left.is_zero()) {
        return Some(failure("DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    let (indexes, completions) = (indexes?, seen.index_count()?);
    if let Some(lost) = &indexes.failed {
        if seen.spec.max_failed_indexes.is_some_and(|limit| lost.len() > limit) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(failure("MaxFailedIndexesExceeded", message));
        }
        if !lost.is_empty() && lost.len() + indexes.succeeded.len() >= completions {
            return Some(failure("FailedIndexes", "Job has failed indexes"));
        }
    }
    let message = success(seen.spec.success_policy.as_ref(), completions, &indexes.succeeded)?;
    Some(JobEnd { is_success: true, reason: "SuccessPolicy".into(), message })
}

fn fail_job_message(seen: Observed<'_>) -> Option<String> {
    seen.spec.pod_failure_policy.as_ref()?;
    let failed = seen.pods.iter().filter(|pod| seen.has_failed(pod));
    failed.map(|pod| seen.failure(pod)).find_map(|failure| match failure {
        PodFailure::FailJob(message) => Some(message),
        PodFailure::Count | PodFailure::Ignore | PodFailure::FailIndex => None,
    })
}

/// Whether the restarts exceed the limit, for pods whose containers restart in place.
fn restarts_exceed_limit(seen: Observed<'_>) -> bool {
    let policy = seen.spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let runs = |pod: &&Arc<Pod>| matches!(pod.status.phase, Phase::Running | Phase::Pending);
    let restarts = |pod: &Arc<Pod>| {
        let all = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
        all.map(|container| i64::from(container.restart_count)).sum::<i64>()
    };
    let restarts: i64 = seen.pods.iter().filter(runs).map(restarts).sum();
    // A limit of zero allows no restart, and neither does a limit of one: one restart reaches it.
    restarts >= i64::from(seen.backoff_limit().max(1))
}

/// Time until the Job exceeds its deadline. Suspended Jobs have none.
fn deadline_in(seen: Observed<'_>, now: Timestamp) -> Option<Duration> {
    let seconds = u64::try_from(seen.spec.active_deadline_seconds?).unwrap_or(0);
    if seen.is_suspended() {
        return None;
    }
    // The deadline of a starting or resumed Job counts from this run.
    let is_resuming = is_true(seen.status(), "Suspended").is_some();
    let start = seen.status().and_then(|s| s.start_time.as_ref()).filter(|_| !is_resuming);
    let passed = start.map_or(Duration::ZERO, |start| elapsed(start.0, now));
    Some(Duration::from_secs(seconds).saturating_sub(passed))
}

/// The missing or surplus pods of a Job that continues. Removal comes first: no run does both.
fn change(seen: Observed<'_>, judgement: &mut JobDecisions, now: Timestamp) -> Change {
    let active = judgement.active.len();
    let indexed = seen.index_count();
    if seen.is_suspended() {
        let victims = victims(&judgement.active, active, indexed);
        return if victims.is_empty() { Change::None } else { Change::Remove(victims) };
    }
    let parallelism = usize::try_from(seen.spec.parallelism.unwrap_or(1)).unwrap_or(0);
    let wanted = match seen.completions() {
        None if judgement.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => {
            usize::try_from(completions.saturating_sub(judgement.succeeded)).unwrap_or(0).min(parallelism)
        }
    };
    let mut too_many = victims(&judgement.active, active.saturating_sub(wanted), indexed);
    too_many.truncate(JOB_BURST);
    if !too_many.is_empty() {
        return Change::Remove(too_many);
    }
    if seen.is_namespace_ending {
        return Change::None;
    }
    let leaving = || seen.pods.iter().filter(|pod| pod.terminating());
    let leaving_pods = if seen.replaces_failed_only() { leaving().count() } else { 0 };
    let missing = wanted.saturating_sub(active).saturating_sub(leaving_pods).min(JOB_BURST);
    if missing == 0 {
        return Change::None;
    }
    let has_own_backoff = seen.spec.backoff_limit_per_index.is_some();
    let wait = if has_own_backoff { Duration::ZERO } else { judgement.backoff.remaining(now) };
    if !wait.is_zero() {
        wake_in(&mut judgement.wake, wait);
        return Change::None;
    }
    let (Some(completions), Some(progress)) = (indexed, &judgement.indexes) else {
        return Change::Create(Box::new(pod_of(seen.job, seen.spec)), missing);
    };
    let mut taken = completion_indexes(&judgement.active);
    if seen.replaces_failed_only() {
        taken.extend(completion_indexes(leaving()));
    }
    let mut pending =
        pending_indexes(&progress.succeeded, progress.failed.as_ref(), &taken, missing, completions);
    pending.retain(|index| {
        let wait = progress.replaced.get(index).map_or(Duration::ZERO, |pod| index_wait(pod, now));
        if !wait.is_zero() {
            wake_in(&mut judgement.wake, wait);
        }
        wait.is_zero()
    });
    if pending.is_empty() {
        return Change::None;
    }
    let pod = |index| indexed_pod_of(seen.job, seen.spec, index, progress.replaced.get(&index));
    Change::CreateIndexed(pending.into_iter().map(pod).collect())
}

/// Remaining back-off of an index whose last pod is `failed`.
fn index_wait(failed: &Pod, now: Timestamp) -> Duration {
    let failures = all_index_failures(failed).saturating_add(1).unsigned_abs();
    backoff::remaining(failures, backoff::finished(failed), now)
}
