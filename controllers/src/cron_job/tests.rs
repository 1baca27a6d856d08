//! Tests of the plan of a CronJob, with tables and a simulated month with Jobs, restarts and downtime.

use super::plan::{Decision, Observed, decide};
use crate::action::{Action, Propagation};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kstore_informer::Occurrence;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A Thursday at midnight.
const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

fn at(second: i64) -> Timestamp {
    START.checked_add(SignedDuration::from_secs(second)).unwrap()
}

/// An hourly CronJob with the API defaults plus `spec` and `status`.
fn cron(spec: &Value, status: &Value) -> CronJob {
    let template = json!({"metadata": {"labels": {"app": "tick"}, "annotations": {"note": "x"}},
        "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
    let mut all = json!({"schedule": "0 * * * *", "concurrencyPolicy": "Allow", "suspend": false,
        "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1, "jobTemplate": template});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let meta = json!({"name": "tick", "namespace": "ns", "uid": "cron", "creationTimestamp": START});
    from_value(json!({"metadata": meta, "spec": all, "status": status})).unwrap()
}

/// A Job of the CronJob for an hour, with an optional terminal condition.
fn job(hour: i64, end: Option<&str>) -> Job {
    let minutes = at(hour * 3600).as_second() / 60;
    let conditions = end.map(|type_| json!([{"type": type_, "status": "True"}]));
    let done = (end == Some("Complete")).then(|| at(hour * 3600 + 60));
    from_value(json!({
        "metadata": {"name": format!("tick-{minutes}"), "namespace": "ns", "uid": format!("j{hour}"),
            "annotations": {SCHEDULED: at(hour * 3600)}},
        "spec": {"template": {}},
        "status": {"startTime": at(hour * 3600), "completionTime": done, "conditions": conditions},
    }))
    .unwrap()
}

fn reference(hour: i64) -> Value {
    let job = job(hour, None);
    json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": "ns", "name": job.metadata.name, "uid": job.metadata.uid})
}

fn decided(cron: &CronJob, jobs: &[Job], now: Timestamp) -> Decision {
    let exists = |name: &str| jobs.iter().any(|job| job.metadata.name.as_deref() == Some(name));
    decide(Observed { cron, jobs, created: None, exists: &exists }, now)
}

fn created(decision: &Decision) -> Option<Job> {
    decision.plan.actions.iter().find_map(Action::created)
}

fn status(decision: &Decision) -> Option<Value> {
    let cron: CronJob = decision.plan.actions.iter().find_map(Action::reported)?;
    Some(serde_json::to_value(cron.status.unwrap()).unwrap())
}

fn events(decision: &Decision) -> Vec<(String, String)> {
    let told = |action: &Action| match action {
        Action::Event(Occurrence { reason, message, .. }) => Some((reason.to_string(), message.to_string())),
        _ => None,
    };
    decision.plan.actions.iter().filter_map(told).collect()
}

fn reasons(decision: &Decision) -> Vec<String> {
    events(decision).into_iter().map(|(reason, _)| reason).collect()
}

fn deleted(decision: &Decision) -> Vec<String> {
    let name = |action: &Action| match action {
        Action::Delete { target, propagation: Propagation::Background, .. } => Some(target.uid.clone()),
        _ => None,
    };
    decision.plan.actions.iter().filter_map(name).collect()
}

#[test]
fn a_job_is_named_and_annotated_with_its_scheduled_time() {
    let early = decided(&cron(&json!({}), &json!({})), &[], at(3599));
    assert_eq!((created(&early), early.plan.wake), (None, Some(Duration::from_millis(1100))));
    let due = decided(&cron(&json!({}), &json!({})), &[], at(3600));
    let job = serde_json::to_value(created(&due).unwrap()).unwrap();
    assert_eq!(job["metadata"]["name"], "tick-29453820");
    assert_eq!(job["metadata"]["annotations"], json!({"note": "x", SCHEDULED: "2026-01-01T01:00:00Z"}));
    assert_eq!(job["metadata"]["labels"], json!({"app": "tick"}));
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&json!("CronJob"), &json!("cron"), &json!(true))
    );
    assert_eq!(events(&due), [("SuccessfulCreate".into(), "Created job tick-29453820".into())]);
    assert_eq!((due.creates, due.plan.wake), (Some(at(3600)), Some(Duration::from_millis(3_600_100))));
    assert_eq!(status(&due), None, "the next run lists what it sees");

    let zoned = cron(&json!({"timeZone": "Asia/Kolkata", "schedule": "30 6 * * *"}), &json!({}));
    let job = created(&decided(&zoned, &[], at(3600))).unwrap();
    assert_eq!(job.metadata.annotations.unwrap()[SCHEDULED], "2026-01-01T06:30:00+05:30");
}

#[test]
fn active_jobs_are_listed_and_finished_ones_removed() {
    let new = decided(&cron(&json!({}), &json!({})), &[job(1, None)], at(3601));
    let listed = status(&new).unwrap();
    assert_eq!(listed, json!({"active": [reference(1)], "lastScheduleTime": at(3600)}));
    assert!(created(&new).is_none() && reasons(&new).is_empty());

    let done = decided(&cron(&json!({}), &listed), &[job(1, Some("Complete"))], at(3700));
    assert_eq!(status(&done).unwrap(), json!({"lastScheduleTime": at(3600), "lastSuccessfulTime": at(3660)}));
    let said = "Saw completed job: tick-29453820, status: Complete";
    assert_eq!(events(&done), [("SawCompletedJob".into(), said.into())]);

    let gone = decided(&cron(&json!({}), &listed), &[], at(3700));
    assert_eq!(status(&gone).unwrap(), json!({"lastScheduleTime": at(3600)}));
    assert_eq!(events(&gone), [("MissingJob".into(), "Active job went missing: tick-29453820".into())]);
    // A Job that ended before it was listed.
    let quick = decided(&cron(&json!({}), &json!({})), &[job(1, Some("Failed"))], at(3700));
    assert_eq!(status(&quick).unwrap(), json!({"lastScheduleTime": at(3600)}));
    assert_eq!(reasons(&quick), ["SawCompletedJob"]);
}

#[test]
fn foreign_jobs_record_an_event() {
    let mut manual = job(5, None);
    manual.metadata.annotations = None;
    let seen = decided(&cron(&json!({}), &json!({})), &[manual], at(60));
    assert_eq!(reasons(&seen), ["UnexpectedJob"]);
    assert_eq!(status(&seen), None);
    // An old Job: it was listed once and then removed.
    let old = decided(&cron(&json!({}), &json!({"lastScheduleTime": at(7200)})), &[job(1, None)], at(7300));
    assert_eq!(reasons(&old), ["UnexpectedJob"]);
}

#[test]
fn the_concurrency_policy_handles_active_jobs() {
    let active = json!({"active": [reference(1)], "lastScheduleTime": at(3600)});
    type Case<'a> = (&'a str, Option<&'a str>, &'a [&'a str], &'a [&'a str]);
    let table: [Case<'_>; 3] = [
        ("Allow", Some("tick-29453880"), &[], &["SuccessfulCreate"]),
        ("Forbid", None, &[], &["JobAlreadyActive"]),
        ("Replace", Some("tick-29453880"), &["j1"], &["SuccessfulDelete", "SuccessfulCreate"]),
    ];
    for (policy, name, victims, told) in table {
        let cron = cron(&json!({"concurrencyPolicy": policy}), &active);
        let decision = decided(&cron, &[job(1, None)], at(7200));
        let created = created(&decision).and_then(|job| job.metadata.name);
        assert_eq!(
            (created.as_deref(), deleted(&decision).as_slice()),
            (name, victims_of(victims).as_slice()),
            "{policy}"
        );
        assert_eq!(reasons(&decision), told, "{policy}");
        if policy == "Replace" {
            assert_eq!(status(&decision).unwrap(), json!({"lastScheduleTime": at(3600)}));
        }
    }
    // The waiting Job starts when the other ends.
    let forbid = cron(&json!({"concurrencyPolicy": "Forbid"}), &active);
    let late = decided(&forbid, &[job(1, Some("Complete"))], at(9000));
    assert_eq!(late.creates, Some(at(7200)));
}

fn victims_of(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn invalid_and_suspended_schedules_create_nothing() {
    let table: [(Value, &[&str]); 6] = [
        (json!({"suspend": true}), &[]),
        (json!({"timeZone": "Mars/Base"}), &["UnknownTimeZone"]),
        (json!({"suspend": true, "timeZone": "Mars/Base"}), &["UnknownTimeZone"]),
        (json!({"schedule": "nonsense"}), &["UnparseableSchedule"]),
        (json!({"schedule": "0 0 30 2 *"}), &["InvalidSchedule"]),
        (json!({"schedule": "TZ=UTC x"}), &["UnsupportedSchedule", "UnparseableSchedule"]),
    ];
    for (spec, told) in table {
        let decision = decided(&cron(&spec, &json!({})), &[], at(7200));
        assert_eq!((created(&decision), decision.plan.wake), (None, None), "{spec}");
        assert_eq!(reasons(&decision), told, "{spec}");
    }
    let mut leaving = cron(&json!({}), &json!({}));
    leaving.metadata.deletion_timestamp = Some(crate::view::seconds(at(0)));
    assert_eq!(decided(&leaving, &[], at(7200)), Decision::default());
    let own = decided(&cron(&json!({"schedule": "TZ=Asia/Kolkata 30 6 * * *"}), &json!({})), &[], at(3600));
    assert_eq!(reasons(&own), ["UnsupportedSchedule", "SuccessfulCreate"]);
}

#[test]
fn only_the_latest_missed_time_starts_a_job() {
    let hours = |hours: i64| at(hours * 3600 + 5);
    let missed = decided(&cron(&json!({}), &json!({})), &[], hours(50));
    assert_eq!(
        (missed.creates, reasons(&missed)),
        (Some(at(50 * 3600)), vec!["SuccessfulCreate".to_owned()])
    );
    let many = decided(&cron(&json!({}), &json!({})), &[], hours(200));
    assert_eq!(many.creates, Some(at(200 * 3600)));
    assert_eq!(reasons(&many), ["TooManyMissedTimes", "SuccessfulCreate"]);
    let bounded = decided(&cron(&json!({"startingDeadlineSeconds": 7200}), &json!({})), &[], hours(200));
    assert_eq!(reasons(&bounded), ["SuccessfulCreate"]);
    let late = decided(&cron(&json!({"startingDeadlineSeconds": 3}), &json!({})), &[], hours(200));
    assert_eq!((late.creates, late.plan.wake), (None, Some(Duration::from_millis(3_595_100))));
}

#[test]
fn each_time_gets_one_job_even_if_it_is_deleted_unseen() {
    let cron = cron(&json!({}), &json!({}));
    let none = |_: &str| false;
    let seen = Observed { cron: &cron, jobs: &[] as &[Job], created: Some(at(3600)), exists: &none };
    assert_eq!(decide(seen, at(3601)).creates, None);
    // Another client created a Job with this name.
    let taken = |name: &str| name == "tick-29453820";
    let seen = Observed { cron: &cron, jobs: &[] as &[Job], created: None, exists: &taken };
    let decision = decide(seen, at(3601));
    assert_eq!((decision.creates, decision.plan.wake), (None, Some(Duration::from_millis(3_599_100))));
}

#[test]
fn finished_jobs_beyond_the_limits_are_deleted_oldest_first() {
    let end = |hour| if hour % 2 == 0 { "Complete" } else { "Failed" };
    let jobs: Vec<Job> = (1..=10).map(|hour| job(hour, Some(end(hour)))).collect();
    let cron_with = |limits: Value| cron(&limits, &json!({"lastScheduleTime": at(36_000)}));
    let decision = decided(&cron_with(json!({})), &jobs, at(36_001));
    assert_eq!(deleted(&decision), ["j2", "j4", "j1", "j3", "j5", "j7"]);
    assert_eq!(events(&decision)[0], ("SuccessfulDelete".into(), "Deleted job tick-29453880".into()));
    let none = cron_with(json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": null}));
    assert_eq!(deleted(&decided(&none, &jobs, at(36_001))), ["j2", "j4", "j6", "j8", "j10"]);
}

/// A simulated event of a CronJob and its controller.
#[derive(Clone, Debug)]
enum Step {
    /// The controller runs until it has nothing to do.
    Run,
    /// The controller stops after some writes of a run.
    Crash { writes: usize },
    /// Time passes until the next wake-up, or during a downtime.
    Sleep { seconds: Option<i64> },
    /// A Job ends.
    Finish { job: usize, is_success: bool },
    /// A user deletes a Job.
    Delete { job: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Run),
        1 => (0usize..5).prop_map(|writes| Step::Crash { writes }),
        4 => Just(Step::Sleep { seconds: None }),
        2 => (1i64..20_000).prop_map(|seconds| Step::Sleep { seconds: Some(seconds) }),
        3 => (0usize..4, any::<bool>()).prop_map(|(job, is_success)| Step::Finish { job, is_success }),
        1 => (0usize..4).prop_map(|job| Step::Delete { job }),
    ]
}

struct SimulatedCluster {
    cron: CronJob,
    jobs: BTreeMap<String, Job>,
    now: Timestamp,
    wake: Option<Duration>,
    created: Option<Timestamp>,
    /// Names of all Jobs ever created.
    names: BTreeSet<String>,
    /// Whether a crash lost a created but unseen Job; only then may a time get a second Job, after a user
    /// deleted the first.
    is_forgetful: bool,
}

impl SimulatedCluster {
    fn unfinished(&self) -> Vec<String> {
        let runs = |job: &&Job| crate::job::status::finished(job).is_none();
        self.jobs.values().filter(runs).filter_map(|job| job.metadata.name.clone()).collect()
    }

    fn run(&mut self, mut writes: usize) -> bool {
        let jobs: Vec<Job> = self.jobs.values().cloned().collect();
        let exists = |name: &str| self.jobs.contains_key(name);
        let (cron, created, now) = (self.cron.clone(), self.created, self.now);
        let decision = decide(Observed { cron: &cron, jobs: &jobs, created, exists: &exists }, now);
        self.wake = decision.plan.wake;
        let mut is_changed = false;
        for action in &decision.plan.actions {
            if matches!(action, Action::Event(_)) {
                continue;
            }
            let Some(left) = writes.checked_sub(1) else {
                (self.created, self.is_forgetful) = (None, true);
                return false;
            };
            (writes, is_changed) = (left, true);
            self.write(action);
        }
        self.created = decision.creates.or(self.created);
        is_changed
    }

    fn write(&mut self, action: &Action) {
        match action {
            Action::Delete { target, .. } => drop(self.jobs.remove(&target.name)),
            Action::UpdateStatus(cron) => self.cron.status = cron.typed::<CronJob>().unwrap().status,
            Action::Create(job) => self.create(job.typed().unwrap()),
            other => panic!("{other:?}"),
        }
    }

    fn create(&mut self, mut job: Job) {
        let name = job.metadata.name.clone().unwrap();
        assert!(self.names.insert(name.clone()) || self.is_forgetful, "{name} comes twice");
        assert!(name.len() <= 63);
        let due: Timestamp = job.metadata.annotations.as_ref().unwrap()[SCHEDULED].parse().unwrap();
        assert!(due <= self.now && due > START, "{due} is not due at {}", self.now);
        if self.cron.spec.concurrency_policy.as_deref() != Some("Allow") {
            assert_eq!(self.unfinished(), Vec::<String>::new(), "two at once");
        }
        job.metadata.uid = Some(format!("{name}-{}", self.now));
        assert!(self.jobs.insert(name, job).is_none());
    }

    fn finish(&mut self, name: &str, is_success: bool) {
        let type_ = if is_success { "Complete" } else { "Failed" };
        let end = crate::view::seconds(self.now);
        let status = json!({"startTime": end, "conditions": [{"type": type_, "status": "True"}],
            "completionTime": is_success.then_some(end)});
        self.jobs.get_mut(name).unwrap().status = from_value(status).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn each_time_gets_at_most_one_job_and_forbid_prevents_overlap(
        schedule in prop_oneof![Just("0 * * * *"), Just("*/7 9-17 * * *"), Just("@every 11m"), Just("0 0 * * *")],
        policy in prop_oneof![Just("Allow"), Just("Forbid"), Just("Replace")],
        deadline in prop_oneof![Just(Value::Null), Just(json!(300)), Just(json!(10_000))],
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let spec = json!({"schedule": schedule, "concurrencyPolicy": policy, "startingDeadlineSeconds": deadline});
        let mut world = SimulatedCluster { cron: cron(&spec, &json!({})), jobs: BTreeMap::new(), now: START, wake: None,
            created: None, names: BTreeSet::new(), is_forgetful: false };
        for step in steps {
            match step {
                Step::Run => {
                    let runs = (0..9).take_while(|_| world.run(usize::MAX)).count();
                    prop_assert!(runs < 4, "it does not come to rest");
                    prop_assert!(world.wake.is_some_and(|wake| wake <= Duration::from_secs(86_401)));
                    let active = world.cron.status.as_ref().and_then(|s| s.active.clone()).unwrap_or_default();
                    let names: BTreeSet<String> = active.into_iter().filter_map(|job| job.name).collect();
                    prop_assert_eq!(names, world.unfinished().into_iter().collect::<BTreeSet<_>>());
                    for (type_, limit) in [("Complete", 3), ("Failed", 1)] {
                        let ended = |job: &&Job| crate::job::status::finished(job).is_some_and(|c| c.type_ == type_);
                        prop_assert!(world.jobs.values().filter(ended).count() <= limit);
                    }
                }
                Step::Crash { writes } => drop(world.run(writes)),
                Step::Sleep { seconds } => {
                    let asleep = seconds.map(SignedDuration::from_secs);
                    let asleep = asleep.or_else(|| SignedDuration::try_from(world.wake?).ok());
                    world.now = world.now.checked_add(asleep.unwrap_or_default()).unwrap();
                }
                Step::Finish { job, is_success } => {
                    let names = world.unfinished();
                    if let Some(name) = job.checked_rem(names.len()).map(|at| names[at].clone()) {
                        world.finish(&name, is_success);
                    }
                }
                Step::Delete { job } => {
                    let names: Vec<String> = world.jobs.keys().cloned().collect();
                    if let Some(name) = job.checked_rem(names.len()).map(|at| &names[at]) {
                        world.jobs.remove(name);
                    }
                }
            }
        }
    }
}
