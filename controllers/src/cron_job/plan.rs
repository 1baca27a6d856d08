//! Plan of a CronJob: Jobs to create, Jobs to delete, its status, and the next run. Pure.
//!
//! The name of a Job locks its time: each time has one name, so no time gets two Jobs. The status follows the
//! existing Jobs: the next run lists a Job that was created but not listed because the controller stopped in
//! between.

use super::missed::{DueTimes, due};
use crate::action::{Action, Plan, Propagation, Target};
use crate::claim::controller_ref;
use crate::job::status::{finished, is_true};
use crate::object::Object;
use crate::view::subject;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kstore_api::schedule::{Schedule, unknown_zone, zone};
use std::borrow::Borrow;
use std::time::Duration;

/// Annotation with the scheduled time of a Job.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Delay of a run after a scheduled time, as upstream, because clocks differ slightly.
const DELAY: Duration = Duration::from_millis(100);

/// Input of a plan.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a, J> {
    /// The CronJob.
    pub cron: &'a CronJob,
    /// The Jobs that it controls.
    pub jobs: &'a [J],
    /// The last time for which an earlier run of this process created a Job.
    pub created: Option<Timestamp>,
    /// Whether a Job of this name exists, including Jobs that the CronJob does not control.
    pub exists: &'a dyn Fn(&str) -> bool,
}

/// Result of a plan.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// Events and deletions, the status, and the creation, in this order.
    pub plan: Plan,
    /// The time for which the plan creates a Job.
    pub creates: Option<Timestamp>,
}

/// Plans a run of the CronJob.
pub(crate) fn decide<J: Borrow<Job>>(seen: Observed<'_, J>, now: Timestamp) -> Decision {
    let mut run = Run {
        cron: seen.cron,
        jobs: seen.jobs.iter().map(Borrow::borrow).collect(),
        status: seen.cron.status.clone().unwrap_or_default(),
        actions: vec![],
    };
    run.follow_jobs();
    run.forget_missing();
    run.delete_old(&seen.cron.spec);
    let start = run.start(&seen.cron.spec, seen.created, seen.exists, now);
    let mut decision = Decision::default();
    if run.status != seen.cron.status.clone().unwrap_or_default() {
        let cron = CronJob { status: Some(run.status.clone()), ..seen.cron.clone() };
        run.actions.push(Action::UpdateStatus(Object::of(&cron)));
    }
    if let Some(wake) = start.wake {
        decision.plan.wake_in(wake);
    }
    if let Some((at, job)) = start.job {
        let name = job.metadata.name.clone().unwrap_or_default();
        run.actions.push(Action::Create(Object::of(&job)));
        run.record_failure("SuccessfulCreate", format!("Created job {name}"));
        decision.creates = Some(at);
    }
    decision.plan.actions = run.actions;
    decision
}

/// The Job to start, if any, and when to run again.
#[derive(Default)]
struct NextStart {
    job: Option<(Timestamp, Job)>,
    wake: Option<Duration>,
}

struct Run<'a> {
    cron: &'a CronJob,
    jobs: Vec<&'a Job>,
    status: CronJobStatus,
    actions: Vec<Action>,
}

impl Run<'_> {
    fn record_failure(&mut self, reason: &str, message: String) {
        self.actions.push(Action::normal(about(self.cron), reason, message));
    }

    fn warn(&mut self, reason: &str, message: String) {
        self.actions.push(Action::warning(about(self.cron), reason, message));
    }

    fn active(&self) -> &[ObjectReference] {
        self.status.active.as_deref().unwrap_or_default()
    }

    fn is_active(&self, uid: Option<&String>) -> bool {
        self.active().iter().any(|job| job.uid.as_ref() == uid)
    }

    fn drop_active(&mut self, uid: Option<&String>) {
        if let Some(active) = &mut self.status.active {
            active.retain(|job| job.uid.as_ref() != uid);
            if active.is_empty() {
                self.status.active = None;
            }
        }
    }

    /// Adds started Jobs to the active list and removes finished ones.
    fn follow_jobs(&mut self) {
        let met = self.status.last_schedule_time.as_ref().map(|time| time.0);
        for job in self.jobs.clone() {
            let uid = job.metadata.uid.as_ref();
            let (is_known, end) = (self.is_active(uid), finished(job));
            let own = scheduled_for(self.cron, job);
            let is_new = !is_known && own.is_some_and(|at| met.is_none_or(|met| at > met));
            if let (true, Some(at)) = (is_new, own) {
                let latest = self.status.last_schedule_time.as_ref().map_or(at, |time| time.0.max(at));
                self.status.last_schedule_time = Some(Time(latest));
                self.status.active.get_or_insert_default().push(reference(job));
            } else if !is_known && end.is_none() && job.metadata.deletion_timestamp.is_none() {
                let name = name(&job.metadata);
                self.warn(
                    "UnexpectedJob",
                    format!("Saw a job that the controller did not create or forgot: {name}"),
                );
            }
            if let (true, Some(end)) = (is_known || is_new, end) {
                self.drop_active(uid);
                let (name, type_) = (name(&job.metadata), &end.type_);
                self.record_failure("SawCompletedJob", format!("Saw completed job: {name}, status: {type_}"));
            }
            let success = is_true(job.status.as_ref(), "Complete");
            let end = success.and_then(|_| job.status.as_ref()?.completion_time.as_ref());
            let last = self.status.last_successful_time.as_ref();
            if let Some(end) = end.filter(|end| last.is_none_or(|last| end.0 > last.0)) {
                self.status.last_successful_time = Some(end.clone());
            }
        }
    }

    /// Removes missing Jobs from the active list.
    fn forget_missing(&mut self) {
        for listed in self.active().to_vec() {
            if !self.jobs.iter().any(|job| job.metadata.uid == listed.uid) {
                self.record_failure(
                    "MissingJob",
                    format!("Active job went missing: {}", listed.name.unwrap_or_default()),
                );
                self.drop_active(listed.uid.as_ref());
            }
        }
    }

    /// Deletes finished Jobs beyond the history limits, the oldest first.
    fn delete_old(&mut self, spec: &CronJobSpec) {
        let limits =
            [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
        for (type_, limit) in limits {
            let Some(limit) = limit else { continue };
            let is_old = |job: &&Job| {
                job.metadata.deletion_timestamp.is_none()
                    && finished(job).is_some_and(|end| end.type_ == type_)
            };
            let mut old: Vec<&Job> = self.jobs.iter().copied().filter(is_old).collect();
            let start =
                |job: &Job| job.status.as_ref().and_then(|status| Some(status.start_time.as_ref()?.0));
            // Jobs that never started count as the newest.
            old.sort_by_key(|job| (start(job).is_none(), start(job), job.metadata.name.clone()));
            let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
            for job in &old[..excess] {
                self.delete(job);
            }
        }
    }

    fn delete(&mut self, job: &Job) {
        self.drop_active(job.metadata.uid.as_ref());
        self.actions.push(Action::Delete {
            target: Target { resource_version: None, ..Target::of(job) },
            propagation: Propagation::Background,
            force: false,
        });
        self.record_failure("SuccessfulDelete", format!("Deleted job {}", name(&job.metadata)));
    }

    /// Decides whether to start a Job now.
    fn start(
        &mut self,
        spec: &CronJobSpec,
        created: Option<Timestamp>,
        exists: &dyn Fn(&str) -> bool,
        now: Timestamp,
    ) -> NextStart {
        if self.cron.metadata.deletion_timestamp.is_some() {
            return NextStart::default();
        }
        let Some((schedule, zone)) = self.schedule(spec) else { return NextStart::default() };
        let met = self.met(created, now);
        let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        let due = match due(&schedule, met, deadline, now) {
            Ok(due) => due,
            Err(why) => {
                self.warn("InvalidSchedule", format!("invalid schedule: {} : {why}", spec.schedule));
                return NextStart::default();
            }
        };
        let DueTimes { latest, is_many, next } = due;
        let wake = next.duration_since(now).unsigned_abs().saturating_add(DELAY);
        let waits = NextStart { job: None, wake: Some(wake) };
        let Some(at) = latest else { return waits };
        if is_many {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.warn("TooManyMissedTimes", message.into());
        }
        if deadline.is_some_and(|deadline| at.checked_add(deadline).is_ok_and(|end| end < now)) {
            let time = at.strftime("%a, %d %b %Y %H:%M:%S %z");
            self.warn("MissSchedule", format!("Missed scheduled time to start a job: {time}"));
            return waits;
        }
        let policy = spec.concurrency_policy.as_deref();
        if exists(&job_name(self.cron, at)) {
            return waits;
        }
        if policy == Some("Forbid") && !self.active().is_empty() {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            self.record_failure("JobAlreadyActive", message.into());
            return waits;
        }
        if policy == Some("Replace") {
            let is_listed = |job: &&Job| self.is_active(job.metadata.uid.as_ref());
            let replaced: Vec<&Job> = self.jobs.iter().copied().filter(is_listed).collect();
            replaced.into_iter().for_each(|job| self.delete(job));
        }
        NextStart { job: Some((at, job_of(self.cron, spec, at, &zone))), wake: Some(wake) }
    }

    /// The parsed schedule, and the time zone for formatting; `None` if the schedule is invalid.
    fn schedule(&mut self, spec: &CronJobSpec) -> Option<(Schedule, TimeZone)> {
        let own = match spec.time_zone.as_deref() {
            None => TimeZone::UTC,
            Some(name) => match zone(name) {
                Some(zone) => zone,
                None => {
                    let why = unknown_zone(name);
                    self.warn("UnknownTimeZone", format!("invalid timeZone: {name:?}: {why}"));
                    return None;
                }
            },
        };
        if spec.suspend == Some(true) {
            return None;
        }
        if spec.schedule.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {:?} is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
                spec.schedule
            );
            self.warn("UnsupportedSchedule", message);
        }
        match Schedule::parse(&spec.schedule, own.clone()) {
            Ok(schedule) => Some((schedule, own)),
            Err(why) => {
                let message = format!("unparseable schedule: {:?} : {why}", spec.schedule);
                self.warn("UnparseableSchedule", message);
                None
            }
        }
    }

    /// The last scheduled time, or the creation time.
    fn met(&self, created: Option<Timestamp>, now: Timestamp) -> Timestamp {
        let begin = self.cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let last = self.status.last_schedule_time.as_ref().map_or(begin, |time| time.0);
        created.map_or(last, |created| created.max(last))
    }
}

fn about(cron: &CronJob) -> kstore_informer::Reference {
    subject("batch/v1", "CronJob", &cron.metadata)
}

fn name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

/// The name of the Job for a time. Times within one minute share a name, as upstream.
fn job_name(cron: &CronJob, at: Timestamp) -> String {
    format!("{}-{}", name(&cron.metadata), at.as_second().div_euclid(60))
}

/// The time for which this CronJob created a Job; `None` if it did not create the Job.
fn scheduled_for(cron: &CronJob, job: &Job) -> Option<Timestamp> {
    let at: Timestamp = job.metadata.annotations.as_ref()?.get(SCHEDULED)?.parse().ok()?;
    (job_name(cron, at) == name(&job.metadata)).then_some(at)
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".into()),
        kind: Some("Job".into()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// The Job for a scheduled time.
fn job_of(cron: &CronJob, spec: &CronJobSpec, at: Timestamp, zone: &TimeZone) -> Job {
    let template = spec.job_template.metadata.clone().unwrap_or_default();
    let mut annotations = template.annotations.unwrap_or_default();
    let local = at.to_zoned(zone.clone());
    // RFC 3339 writes UTC as Z.
    let format = if *zone == TimeZone::UTC { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    annotations.insert(SCHEDULED.into(), local.strftime(format).to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(cron, at)),
            namespace: cron.metadata.namespace.clone(),
            labels: template.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_ref("batch/v1", "CronJob", &cron.metadata)]),
            ..ObjectMeta::default()
        },
        spec: spec.job_template.spec.clone(),
        status: None,
    }
}
