//! Properties of Jobs in a simulated cluster. Pods succeed or fail, users delete, suspend and resize, and the
//! controller may stop between any two writes. The API server's validation checks every status.

use super::*;
use crate::job::status::finished;
use crate::view::seconds;
use k8s_openapi::api::core::v1 as core;
use kstore_api::{kind, validate};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A simulated event.
#[derive(Clone, Debug)]
enum Step {
    /// The controller runs, and stops after this many writes.
    Run { writes: usize },
    /// A pending pod starts, or a running pod succeeds or fails.
    Progress { pod: usize, is_success: bool },
    /// A user deletes a pod.
    Delete { pod: usize },
    /// Nodes stop the pods that are being deleted.
    EndDeleted,
    /// Time passes.
    Wait { seconds: i64 },
    /// A user suspends or resumes the Job.
    Suspend(bool),
    /// A user changes the parallelism.
    Resize(i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..12).prop_map(|writes| Step::Run { writes }),
        4 => Just(Step::Run { writes: usize::MAX }),
        6 => (0usize..8, any::<bool>()).prop_map(|(pod, is_success)| Step::Progress { pod, is_success }),
        1 => (0usize..8).prop_map(|pod| Step::Delete { pod }),
        2 => Just(Step::EndDeleted),
        2 => (1i64..700).prop_map(|seconds| Step::Wait { seconds }),
        1 => any::<bool>().prop_map(Step::Suspend),
        1 => (0i32..5).prop_map(Step::Resize),
    ]
}

fn specs() -> impl Strategy<Value = Value> {
    let policies = prop_oneof![Just("TerminatingOrFailed"), Just("Failed")];
    let modes =
        prop_oneof![Just("NonIndexed"), Just("Indexed"), Just("PerIndex"), Just("Queue"), Just("Early")];
    (modes, policies, 1i32..6, 1i32..5, 0i32..4).prop_map(|(mode, policy, completions, parallelism, limit)| {
        let mut spec = json!({"parallelism": parallelism, "completions": completions, "backoffLimit": limit,
            "completionMode": "Indexed", "podReplacementPolicy": policy});
        match mode {
            "NonIndexed" => spec["completionMode"] = json!("NonIndexed"),
            "Queue" => {
                spec["completionMode"] = json!("NonIndexed");
                spec.as_object_mut().unwrap().remove("completions");
            }
            "PerIndex" => {
                spec["backoffLimit"] = json!(i32::MAX);
                spec["backoffLimitPerIndex"] = json!(limit.min(2));
            }
            "Early" => spec["successPolicy"] = json!({"rules": [{"succeededCount": 1}]}),
            _ => {}
        }
        spec
    })
}

struct SimulatedCluster {
    job: Job,
    pods: BTreeMap<String, Pod>,
    now: i64,
    backoff: JobFailures,
    /// Number of pods ever created.
    made: usize,
    /// Pods that the controller removed uncounted: surplus pods, or pods running when the Job succeeded.
    uncounted: BTreeSet<String>,
    /// Pods that succeeded while tracked.
    succeeded: BTreeSet<String>,
}

impl SimulatedCluster {
    fn new(spec: &Value) -> Self {
        let (job, pods) = (job(spec, &json!({})), BTreeMap::new());
        let (uncounted, succeeded) = (BTreeSet::new(), BTreeSet::new());
        Self { job, pods, now: 0, backoff: JobFailures::default(), made: 0, uncounted, succeeded }
    }

    fn spec(&self) -> &k8s_openapi::api::batch::v1::JobSpec {
        self.job.spec.as_ref().unwrap()
    }

    fn status(&self) -> JobStatus {
        self.job.status.clone().unwrap_or_default()
    }

    fn is_finished(&self) -> bool {
        finished(&self.job).is_some()
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Run { writes } => self.run(*writes),
            Step::Progress { pod, is_success } => {
                if let Some(uid) = self.nth(*pod, Pod::active) {
                    self.progress(&uid, *is_success);
                }
            }
            Step::Delete { pod } => {
                if let Some(uid) = self.nth(*pod, |_| true) {
                    self.delete(&uid);
                }
            }
            Step::EndDeleted => self.end_deleted(),
            Step::Wait { seconds } => self.now += seconds,
            Step::Suspend(is_suspended) => self.job.spec.as_mut().unwrap().suspend = Some(*is_suspended),
            Step::Resize(parallelism) => self.job.spec.as_mut().unwrap().parallelism = Some(*parallelism),
        }
    }

    fn nth(&self, place: usize, fits: impl Fn(&Pod) -> bool) -> Option<String> {
        let fitting: Vec<_> = self.pods.values().filter(|pod| fits(pod)).collect();
        let pod = fitting.get(place.checked_rem(fitting.len())?)?;
        Some(pod.metadata.uid.clone())
    }

    fn progress(&mut self, uid: &str, is_success: bool) {
        let end = after(self.now);
        let pod = self.pods.get_mut(uid).unwrap();
        if pod.status.phase == crate::view::Phase::Pending {
            pod.status.phase = crate::view::Phase::Running;
            return;
        }
        let phase = if is_success { "Succeeded" } else { "Failed" };
        let state = json!({"terminated": {"exitCode": i32::from(!is_success), "finishedAt": end}});
        pod.status = from_value(json!({"phase": phase, "containerStatuses": [{ "state": state }]})).unwrap();
        if is_success && pod.metadata.finalizers.iter().any(|f| f == TRACKING) {
            self.succeeded.insert(uid.to_owned());
        }
    }

    fn delete(&mut self, uid: &str) {
        let at = after(self.now + 30);
        let pod = self.pods.get_mut(uid).unwrap();
        pod.metadata.deletion_timestamp.get_or_insert(seconds(at));
        pod.metadata.deletion_grace_period_seconds = Some(30);
        self.collect();
    }

    fn end_deleted(&mut self) {
        let leaving = |pod: &Pod| pod.terminating();
        while let Some(uid) = self.nth(0, leaving) {
            self.pods.get_mut(&uid).unwrap().status.phase = crate::view::Phase::Running;
            self.progress(&uid, false);
        }
        self.collect();
    }

    /// Removes pods that have ended, are being deleted, and have no finalizers.
    fn collect(&mut self) {
        self.pods.retain(|_, pod| {
            !(pod.metadata.is_deleting()
                && pod.status.phase.is_terminal()
                && pod.metadata.finalizers.is_empty())
        });
    }

    fn untrack(&mut self, uid: &str) {
        self.pods.get_mut(uid).unwrap().metadata.finalizers.clear();
        self.collect();
    }

    fn create(&mut self, template: &core::Pod) {
        self.made += 1;
        let name = format!("p{:04}", self.made);
        let mut json = serde_json::to_value(template).unwrap();
        let meta = json["metadata"].as_object_mut().unwrap();
        meta.extend([("name".to_owned(), json!(name)), ("uid".to_owned(), json!(name))]);
        meta.insert("creationTimestamp".into(), json!(after(self.now)));
        json["status"] = json!({"phase": "Pending"});
        let pod: Pod = from_value(json).unwrap();
        self.pods.insert(name, pod);
        self.check_active();
    }

    /// Invariants after each pod creation.
    fn check_active(&self) {
        let active: Vec<&Pod> = self.pods.values().filter(|pod| pod.active()).collect();
        let parallelism = usize::try_from(self.spec().parallelism.unwrap()).unwrap();
        assert!(active.len() <= parallelism, "more pods are active than may be: {active:?}");
        if self.spec().completion_mode.as_deref() == Some("Indexed") {
            let indexes: BTreeSet<_> = active.iter().map(|pod| &pod.metadata.annotations[INDEX]).collect();
            assert_eq!(indexes.len(), active.len(), "an index has two pods: {active:?}");
        }
        let done = usize::try_from(self.status().succeeded.unwrap_or(0)).unwrap();
        if let Some(completions) = self.spec().completions {
            let completions = usize::try_from(completions).unwrap();
            assert!(active.len() + done <= completions, "more pods are active than are needed: {active:?}");
        }
    }

    /// Runs the controller, which stops before write number `writes`.
    fn run(&mut self, writes: usize) {
        if self.is_finished() {
            return;
        }
        if self.write_all(writes).is_none() {
            // The controller stops and loses its memory.
            self.backoff = JobFailures::default();
        }
    }

    fn write_all(&mut self, mut left: usize) -> Option<()> {
        let mut spend = || {
            left = left.checked_sub(1)?;
            Some(())
        };
        let pods: Vec<Arc<Pod>> = self.pods.values().cloned().map(Arc::new).collect();
        let (job, now) = (self.job.clone(), after(self.now));
        let seen = Observed { backoff: self.backoff, ..seen(&job, &pods) };
        let evaluated = evaluate(seen, now);
        let mut carried = ChangeOutcome { created: 0, is_deleted: true };
        match &evaluated.change {
            Change::None => {}
            Change::Create(pod, count) => {
                for _ in 0..*count {
                    spend()?;
                    self.create(pod);
                    carried.created += 1;
                }
            }
            Change::CreateIndexed(pods) => {
                for pod in pods {
                    spend()?;
                    self.create(pod);
                    carried.created += 1;
                }
            }
            // Finalizer and pod are removed in one write.
            Change::Remove(pods) => {
                for pod in pods {
                    spend()?;
                    if pod.metadata.finalizers.iter().any(|f| f == TRACKING) {
                        self.uncounted.insert(pod.metadata.uid.clone());
                    }
                    self.untrack(&pod.metadata.uid);
                    self.delete(&pod.metadata.uid);
                }
            }
            Change::End(pods) => {
                for pod in pods {
                    spend()?;
                    self.delete(&pod.metadata.uid);
                }
            }
        }
        let report = report(seen, &evaluated, carried, now);
        if let Some(status) = report.status {
            spend()?;
            self.set_status(status);
        }
        self.backoff = evaluated.backoff;
        let succeeds =
            super::super::status::is_true(self.job.status.as_ref(), "SuccessCriteriaMet").is_some();
        for pod in report.untracked {
            spend()?;
            let is_ended = pod.status.phase.is_terminal() || seen.has_failed(&pod);
            if succeeds && !is_ended {
                self.uncounted.insert(pod.metadata.uid.clone());
            }
            self.untrack(&pod.metadata.uid);
        }
        Some(())
    }

    fn set_status(&mut self, status: JobStatus) {
        let old = serde_json::to_value(&self.job).unwrap();
        self.job.status = Some(status);
        let new = serde_json::to_value(&self.job).unwrap();
        let jobs = kind::lookup("batch", "v1", "jobs").unwrap();
        let errors = validate::update_subresource(jobs, "status", &new, &old);
        assert!(errors.is_empty(), "{errors:?}\n{old}\n{new}");
        let (before, after) = (finished_text(&old), finished_text(&new));
        assert!(before.is_none() || before == after, "the end of a Job changed: {old} {new}");
        let indexes = |job: &Value| {
            let text = job["status"]["completedIndexes"].as_str().unwrap_or_default();
            crate::job::indexes::Indexes::parse(text, 100)
        };
        assert_eq!(
            indexes(&new).common(&indexes(&old)),
            indexes(&old).len(),
            "a completed index is forgotten"
        );
    }

    /// Invariants of a finished Job: each pod was counted once.
    fn check_finished(&self) {
        let status = self.status();
        let count = |number: Option<i32>| usize::try_from(number.unwrap_or(0)).unwrap();
        let (succeeded, failed) = (count(status.succeeded), count(status.failed));
        assert_eq!(
            failed,
            self.made - self.uncounted.len() - self.succeeded.len(),
            "failed pods: {status:?}"
        );
        assert_eq!(succeeded, self.succeeded.len(), "succeeded pods: {status:?}");
        assert!(self.pods.values().all(|pod| pod.metadata.finalizers.is_empty()), "a pod stays tracked");
        assert!(self.pods.values().all(|pod| pod.status.phase.is_terminal()), "a pod still runs");
    }

    /// Without further faults the Job finishes.
    fn settle(&mut self) {
        self.take(&Step::Suspend(false));
        self.take(&Step::Resize(2));
        for _ in 0..80 {
            self.run(usize::MAX);
            self.check_idempotence();
            if self.is_finished() {
                return;
            }
            self.end_deleted();
            while let Some(uid) = self.nth(0, Pod::active) {
                self.progress(&uid, true);
            }
            self.now += 601;
        }
        panic!("the Job does not finish: {:?} {:?}", self.job.status, self.pods);
    }

    /// Without changes the fourth run finds nothing to do.
    fn check_idempotence(&mut self) {
        for _ in 0..4 {
            self.run(usize::MAX);
        }
        if self.is_finished() {
            return;
        }
        let pods: Vec<Arc<Pod>> = self.pods.values().cloned().map(Arc::new).collect();
        let (evaluated, report) = super::run(&self.job, &pods, after(self.now));
        // Without its memory the controller may create pods earlier.
        let is_quiet =
            matches!(evaluated.change, Change::None | Change::Create(..) | Change::CreateIndexed(_));
        assert!(is_quiet && report.untracked.is_empty(), "{evaluated:?} {report:?}");
    }
}

fn finished_text(job: &Value) -> Option<&Value> {
    let conditions = job["status"]["conditions"].as_array()?;
    conditions.iter().find(|c| (c["type"] == "Complete" || c["type"] == "Failed") && c["status"] == "True")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_pod_is_counted_once_and_every_job_finishes(
        spec in specs(),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut world = SimulatedCluster::new(&spec);
        for step in &steps {
            world.take(step);
        }
        world.settle();
        world.check_finished();
    }
}

#[test]
fn gaps_between_tries_follow_the_formula() {
    let mut world = SimulatedCluster::new(&json!({"completions": 1, "backoffLimit": 9}));
    let mut gaps = vec![];
    let mut failed_at = 0;
    while !world.is_finished() {
        world.run(usize::MAX);
        if let Some(uid) = world.nth(0, Pod::active) {
            gaps.push(world.now - failed_at);
            (0..2).for_each(|_| world.progress(&uid, false));
            failed_at = world.now;
        } else {
            world.now += 1;
        }
    }
    assert_eq!(gaps, [0, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
    assert_eq!(world.status().failed, Some(10));
}
