//! Status of a Job: conditions and pod counts. Pure.
//!
//! Counting an ended pod takes three writes, so that a crash between them neither loses it nor counts it
//! twice. First, its uid is listed in `status.uncountedTerminatedPods`. Second, the pod loses its finalizer.
//! Third, the uid moves from the list into the count. Succeeded pods of Indexed Jobs are counted by their
//! index, without the list.

use super::indexes::Indexes;
use super::plan::{Change, JobDecisions, JobEnd, Observed};
use super::pods::{completion_index, is_tracked};
use crate::limits::UNCOUNTED_PODS;
use crate::view::{Phase, Pod, seconds};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Uids of listed pods that are not counted yet.
#[derive(Debug, Default)]
pub(crate) struct UncountedPods<'a> {
    pub succeeded: BTreeSet<&'a str>,
    pub failed: BTreeSet<&'a str>,
}

/// The uids in the list of a status.
pub(crate) fn uncounted(status: Option<&JobStatus>) -> UncountedPods<'_> {
    let Some(listed) = status.and_then(|status| status.uncounted_terminated_pods.as_ref()) else {
        return UncountedPods::default();
    };
    UncountedPods { succeeded: uids(listed.succeeded.as_ref()), failed: uids(listed.failed.as_ref()) }
}

fn uids(list: Option<&Vec<String>>) -> BTreeSet<&str> {
    list.into_iter().flatten().map(String::as_str).collect()
}

/// The condition of this type, if true.
pub(crate) fn is_true<'s>(status: Option<&'s JobStatus>, type_: &str) -> Option<&'s JobCondition> {
    let conditions = status?.conditions.as_deref().unwrap_or_default();
    conditions.iter().find(|c| c.type_ == type_ && c.status == "True")
}

/// The condition of a finished Job: Complete or Failed.
pub(crate) fn finished(job: &Job) -> Option<&JobCondition> {
    is_true(job.status.as_ref(), "Complete").or_else(|| is_true(job.status.as_ref(), "Failed"))
}

/// Result of the change of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeOutcome {
    /// Number of created pods.
    pub created: usize,
    /// Whether all deletions were accepted.
    pub is_deleted: bool,
}

/// Final writes of a run, in this order.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The status, if changed.
    pub status: Option<JobStatus>,
    /// Pods that lose their finalizer after the status is written.
    pub untracked: Vec<Arc<Pod>>,
    /// Events after all writes: whether it is a warning, reason, message.
    pub events: Vec<(bool, String, String)>,
}

/// The status after the change of a run was executed.
pub(crate) fn report(
    seen: Observed<'_>,
    evaluated: &JobDecisions,
    carried: ChangeOutcome,
    now: Timestamp,
) -> Report {
    let mut report = Report::default();
    let mut status = seen.job.status.clone().unwrap_or_default();
    let present = PodCounts::after(seen, evaluated, carried);
    let may_end = !matches!(evaluated.change, Change::End(_)) || carried.is_deleted;
    let is_complete = present.active == 0
        && match seen.completions() {
            None => evaluated.succeeded > 0,
            Some(completions) => evaluated.succeeded >= completions,
        };
    let ending = match &evaluated.ending {
        Some(ending) => Some(ending.clone()).filter(|_| may_end),
        None if is_complete => Some(JobEnd {
            is_success: true,
            reason: "CompletionsReached".into(),
            message: "Reached expected number of succeeded pods".into(),
        }),
        None => None,
    };
    if status.start_time.is_none() && !seen.is_suspended() {
        status.start_time = Some(seconds(now));
    }
    if evaluated.ending.is_none() && ending.is_none() && seen.job.metadata.deletion_timestamp.is_none() {
        report.events.extend(suspension_events(&mut status, seen.is_suspended(), now));
        // Queue controllers know by the missing time that the Job has stopped. As upstream with the feature gate
        // MutableSchedulingDirectivesForSuspendedJobs.
        if seen.is_suspended() {
            status.start_time = None;
        }
    }
    status.active = some(present.active);
    status.ready = Some(present.ready);
    status.terminating = Some(present.terminating);
    report.untracked = track(seen, evaluated, ending.as_ref(), &mut status);
    if let Some(ending) = ending {
        let interim = if ending.is_success { "SuccessCriteriaMet" } else { "FailureTarget" };
        if is_true(seen.status(), interim).is_none() {
            set_condition(&mut status, interim, "True", &ending, now);
        } else if report.untracked.is_empty() && present.is_gone() && is_all_counted(&status) {
            finish(seen, &mut status, &ending, now);
            report.events.extend(end_events(seen, &status, &ending));
        }
    }
    let before = seen.job.status.clone().map(|mut before| {
        before.uncounted_terminated_pods.get_or_insert_default();
        before
    });
    report.status = Some(status).filter(|status| before.as_ref() != Some(status));
    report
}

/// Pods after the change.
struct PodCounts {
    active: i32,
    ready: i32,
    terminating: i32,
}

impl PodCounts {
    fn after(seen: Observed<'_>, evaluated: &JobDecisions, carried: ChangeOutcome) -> Self {
        let deleted: &[Arc<Pod>] = match &evaluated.change {
            Change::End(pods) | Change::Remove(pods) if carried.is_deleted => pods,
            _ => &[],
        };
        let ready = |pods: &[Arc<Pod>]| number(pods.iter().filter(|pod| pod.ready()).count());
        let terminating = seen.pods.iter().filter(|pod| pod.terminating()).count();
        Self {
            active: number(evaluated.active.len() + carried.created - deleted.len()),
            ready: ready(&evaluated.active) - ready(deleted),
            terminating: number(terminating + deleted.len()),
        }
    }

    fn is_gone(&self) -> bool {
        self.active == 0 && self.terminating == 0
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn some(number: i32) -> Option<i32> {
    (number > 0).then_some(number)
}

/// Counts pods without the finalizer, and lists pods that must lose it. Returns these, at most
/// `UNCOUNTED_PODS`.
fn track(
    seen: Observed<'_>,
    evaluated: &JobDecisions,
    ending: Option<&JobEnd>,
    status: &mut JobStatus,
) -> Vec<Arc<Pod>> {
    let known = uncounted(seen.status());
    let tracked: BTreeSet<&str> =
        seen.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| pod.metadata.uid.as_str()).collect();
    let mut listed = status.uncounted_terminated_pods.take().unwrap_or_default();
    let succeeded = count(&mut listed.succeeded, &mut status.succeeded, &tracked);
    let failed = count(&mut listed.failed, &mut status.failed, &tracked);
    let mut room = UNCOUNTED_PODS.saturating_sub(succeeded + failed);
    let mut indexes = BTreeSet::new();
    let mut untracked = vec![];
    for pod in in_order(seen) {
        let has_failed = seen.has_failed(pod);
        if room == 0 || !is_tracked(pod) || !may_be_untracked(seen, evaluated, ending, pod, has_failed) {
            continue;
        }
        untracked.push(Arc::clone(pod));
        let uid = pod.metadata.uid.as_str();
        if !seen.is_countable(pod) {
            continue;
        }
        let is_new = !known.succeeded.contains(uid) && !known.failed.contains(uid);
        if pod.status.phase == Phase::Succeeded && !known.failed.contains(uid) {
            match (&evaluated.indexes, completion_index(pod)) {
                (Some(progress), Some(index)) if !progress.counted.contains(index) => {
                    room -= usize::from(indexes.insert(index));
                }
                (None, _) if is_new => {
                    listed.succeeded.get_or_insert_default().push(uid.to_owned());
                    room -= 1;
                }
                _ => {}
            }
        } else if (has_failed || ending.is_some_and(|ending| !ending.is_success))
            && is_new
            && seen.failure(pod).is_counted()
        {
            listed.failed.get_or_insert_default().push(uid.to_owned());
            room -= 1;
        }
    }
    status.uncounted_terminated_pods = Some(listed);
    if let Some(progress) = &evaluated.indexes {
        let done: Indexes = progress.counted.with(&indexes);
        status.succeeded = some(done.len());
        status.completed_indexes = Some(done.to_string()).filter(|text| !text.is_empty());
        status.failed_indexes = progress.failed.as_ref().map(Indexes::to_string);
    }
    untracked
}

/// The pods of a Job, in an Indexed Job by index, so that the bound defers the highest indexes.
fn in_order(seen: Observed<'_>) -> Vec<&Arc<Pod>> {
    let mut pods: Vec<&Arc<Pod>> = seen.pods.iter().collect();
    if seen.index_count().is_some() {
        pods.sort_by_key(|pod| completion_index(pod));
    }
    pods
}

/// Moves the uids of pods without the finalizer from the list into the count. Returns how many stay in the
/// list.
fn count(uids: &mut Option<Vec<String>>, counter: &mut Option<i32>, tracked: &BTreeSet<&str>) -> usize {
    let Some(list) = uids else { return 0 };
    let before = list.len();
    list.retain(|uid| tracked.contains(uid.as_str()));
    let left = list.len();
    *counter = some(counter.unwrap_or(0).saturating_add(number(before - left)));
    if left == 0 {
        *uids = None;
    }
    left
}

/// Whether the Job no longer needs the pod. The failed pod of an index to retry stays until its successor
/// exists.
fn may_be_untracked(
    seen: Observed<'_>,
    evaluated: &JobDecisions,
    ending: Option<&JobEnd>,
    pod: &Pod,
    has_failed: bool,
) -> bool {
    let is_leaving = seen.job.metadata.deletion_timestamp.is_some();
    if is_leaving || ending.is_some() || pod.status.phase == Phase::Succeeded {
        return true;
    }
    let is_replaced = || {
        let replaced = evaluated.indexes.as_ref().map(|progress| &progress.replaced);
        let waiting = completion_index(pod).and_then(|index| replaced?.get(&index));
        waiting.is_some_and(|waiting| waiting.metadata.uid == pod.metadata.uid)
    };
    has_failed && !is_replaced()
}

fn is_all_counted(status: &JobStatus) -> bool {
    status
        .uncounted_terminated_pods
        .as_ref()
        .is_none_or(|listed| *listed == UncountedTerminatedPods::default())
}

fn finish(seen: Observed<'_>, status: &mut JobStatus, ending: &JobEnd, now: Timestamp) {
    let type_ = if ending.is_success { "Complete" } else { "Failed" };
    set_condition(status, type_, "True", ending, now);
    if ending.is_success {
        status.completion_time = Some(seconds(now));
    }
    let is_empty = seen.is_suspended() && seen.completions() == Some(0);
    // Validation requires a start time for a finished Job, except for a suspended Job with zero completions.
    if status.start_time.is_none() && !is_empty {
        status.start_time = Some(seconds(now));
    }
}

fn end_events(seen: Observed<'_>, status: &JobStatus, ending: &JobEnd) -> Vec<(bool, String, String)> {
    if !ending.is_success {
        return vec![(true, ending.reason.clone(), ending.message.clone())];
    }
    let mut events = vec![];
    if seen.completions().is_some_and(|wanted| status.succeeded.unwrap_or(0) > wanted) {
        let message = "Too many succeeded pods running after completion count reached";
        events.push((true, "TooManySucceededPods".into(), message.into()));
    }
    events.push((false, "Completed".into(), "Job completed".into()));
    events
}

/// Sets the Suspended condition. A resumed Job starts anew: its deadline counts from now.
fn suspension_events(
    status: &mut JobStatus,
    is_suspended: bool,
    now: Timestamp,
) -> Option<(bool, String, String)> {
    let current =
        status.conditions.iter().flatten().find(|c| c.type_ == "Suspended").map(|c| c.status == "True");
    if is_suspended == current.unwrap_or(false) {
        return None;
    }
    let (value, event, text) =
        if is_suspended { ("True", "Suspended", "suspended") } else { ("False", "Resumed", "resumed") };
    let why = JobEnd { is_success: false, reason: format!("Job{event}"), message: format!("Job {text}") };
    set_condition(status, "Suspended", value, &why, now);
    if !is_suspended {
        status.start_time = Some(seconds(now));
    }
    Some((false, event.into(), why.message))
}

fn set_condition(status: &mut JobStatus, type_: &str, value: &str, why: &JobEnd, now: Timestamp) {
    let condition = JobCondition {
        type_: type_.into(),
        status: value.into(),
        reason: Some(why.reason.clone()),
        message: Some(why.message.clone()),
        last_probe_time: Some(seconds(now)),
        last_transition_time: Some(seconds(now)),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}
