//! Tests of the plan and report of a Job, with tables. `world` has the properties.

mod world;

use super::backoff::JobFailures;
use super::plan::{Change, JobDecisions, Observed, evaluate};
use super::pods::{TRACKING, indexed_pod_of, pod_of};
use super::status::{ChangeOutcome, Report, report};
use crate::limits::{JOB_BURST, UNCOUNTED_PODS};
use crate::view::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use serde_json::{Value, from_value, json};
use std::sync::Arc;
use std::time::Duration;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

fn after(seconds: i64) -> Timestamp {
    START.checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// A Job with the API defaults plus `spec` and `status`.
fn job(spec: &Value, status: &Value) -> Job {
    let template = json!({"metadata": {"labels": {"app": "work"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}});
    let mut all = json!({"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
        "podReplacementPolicy": "TerminatingOrFailed", "template": template,
        "selector": {"matchLabels": {"app": "work"}}});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let meta = json!({"name": "work", "namespace": "ns", "uid": "job"});
    from_value(json!({"metadata": meta, "spec": all, "status": status})).unwrap()
}

/// A pod with the tracking finalizer.
fn pod(name: &str, phase: &str) -> Pod {
    from_value(json!({
        "metadata": {"name": name, "uid": name, "namespace": "ns", "finalizers": [TRACKING], "labels": {"app": "work"},
            "creationTimestamp": START},
        "spec": {"nodeName": "n"},
        "status": {"phase": phase},
    }))
    .unwrap()
}

fn pods(phases: &[&str]) -> Vec<Arc<Pod>> {
    phases.iter().enumerate().map(|(i, phase)| Arc::new(pod(&format!("p{i}"), phase))).collect()
}

fn indexed(index: i32, name: &str, phase: &str) -> Arc<Pod> {
    let mut pod = pod(name, phase);
    pod.metadata.annotations.insert(INDEX.into(), index.to_string());
    Arc::new(pod)
}

fn changed(pod: &Arc<Pod>, change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
    let mut pod = (**pod).clone();
    change(&mut pod);
    Arc::new(pod)
}

fn seen<'a>(job: &'a Job, pods: &'a [Arc<Pod>]) -> Observed<'a> {
    let spec = job.spec.as_ref().unwrap();
    Observed { job, spec, pods, backoff: JobFailures::default(), is_namespace_ending: false }
}

fn evaluated(job: &Job, pods: &[Arc<Pod>], now: Timestamp) -> JobDecisions {
    evaluate(seen(job, pods), now)
}

/// A run whose change is executed.
fn run(job: &Job, pods: &[Arc<Pod>], now: Timestamp) -> (JobDecisions, Report) {
    let evaluated = evaluated(job, pods, now);
    let created = match &evaluated.change {
        Change::Create(_, count) => *count,
        Change::CreateIndexed(pods) => pods.len(),
        Change::None | Change::Remove(_) | Change::End(_) => 0,
    };
    let report = report(seen(job, pods), &evaluated, ChangeOutcome { created, is_deleted: true }, now);
    (evaluated, report)
}

fn created(evaluated: &JobDecisions) -> usize {
    match &evaluated.change {
        Change::Create(_, count) => *count,
        Change::CreateIndexed(pods) => pods.len(),
        Change::None => 0,
        Change::Remove(_) | Change::End(_) => panic!("{:?}", evaluated.change),
    }
}

fn removed(evaluated: &JobDecisions) -> Vec<&str> {
    match &evaluated.change {
        Change::Remove(pods) | Change::End(pods) => pods.iter().map(|p| p.metadata.name.as_str()).collect(),
        Change::None => vec![],
        Change::Create(..) | Change::CreateIndexed(_) => panic!("{:?}", evaluated.change),
    }
}

fn condition(status: &JobStatus, type_: &str) -> Option<(String, String)> {
    let found = status.conditions.iter().flatten().find(|c| c.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone().unwrap_or_default()))
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.metadata.name.as_str()).collect()
}

#[test]
fn as_many_pods_run_as_parallelism_and_remaining_completions_allow() {
    let table: [(Value, &[&str], usize); 9] = [
        (json!({"completions": 5, "parallelism": 2}), &[], 2),
        (json!({"completions": 5, "parallelism": 2}), &["Running"], 1),
        (json!({"completions": 5, "parallelism": 2}), &["Running", "Pending"], 0),
        (json!({"completions": 5, "parallelism": 2}), &["Succeeded", "Running"], 1),
        (json!({"completions": 5, "parallelism": 9}), &["Succeeded", "Succeeded"], 3),
        (json!({"parallelism": 3}), &["Running"], 2),
        (json!({"parallelism": 3}), &["Running", "Succeeded"], 0),
        (json!({"completions": 5, "parallelism": 0}), &[], 0),
        (json!({"completions": 9000, "parallelism": 9000}), &[], JOB_BURST),
    ];
    for (spec, phases, expected) in table {
        assert_eq!(
            created(&evaluated(&job(&spec, &json!({})), &pods(phases), START)),
            expected,
            "{spec} {phases:?}"
        );
    }
}

#[test]
fn surplus_and_suspended_pods_are_deleted_uncounted() {
    let running = pods(&["Running", "Pending", "Running"]);
    let fewer = job(&json!({"completions": 5, "parallelism": 1}), &json!({}));
    let (evaluated, report) = run(&fewer, &running, START);
    assert_eq!(removed(&evaluated), ["p1", "p0"], "pending pods go first");
    assert!(matches!(evaluated.change, Change::Remove(_)));
    assert!(report.untracked.is_empty());
    let status = report.status.unwrap();
    assert_eq!((status.active, status.terminating, status.failed), (Some(1), Some(2), None));

    let suspended =
        job(&json!({"completions": 5, "parallelism": 3, "suspend": true}), &json!({"startTime": START}));
    let (evaluated, report) = run(&suspended, &running, after(9));
    assert_eq!(removed(&evaluated).len(), 3);
    let status = report.status.unwrap();
    assert_eq!(condition(&status, "Suspended").unwrap(), ("True".into(), "JobSuspended".into()));
    assert_eq!(report.events, [(false, "Suspended".into(), "Job suspended".into())]);
    assert_eq!(status.start_time, None, "a suspended job has not started");
    let stored = json!({"startTime": START, "terminating": 0, "ready": 0, "conditions": status.conditions});
    let earlier = job(&json!({"completions": 5, "suspend": true}), &stored);
    let (_, again) = run(&earlier, &[], after(10));
    assert_eq!(again.status.unwrap().start_time, None, "also if it was suspended before");
    assert_eq!(again.events, []);

    let resumed = job(
        &json!({"completions": 5, "parallelism": 3, "activeDeadlineSeconds": 30}),
        &serde_json::to_value(&status).unwrap(),
    );
    let (evaluated, report) = run(&resumed, &[], after(60));
    assert_eq!(created(&evaluated), 3);
    let status = report.status.unwrap();
    assert_eq!(condition(&status, "Suspended").unwrap(), ("False".into(), "JobResumed".into()));
    assert_eq!(status.start_time.unwrap().0, after(60), "a job that resumes begins anew");
    assert_eq!(report.events, [(false, "Resumed".into(), "Job resumed".into())]);
}

#[test]
fn a_job_suspended_at_creation_has_no_start_time_and_no_deadline() {
    let spec = json!({"completions": 1, "suspend": true, "activeDeadlineSeconds": 5});
    let (evaluated, report) = run(&job(&spec, &json!({})), &[], after(100));
    assert_eq!((&evaluated.change, evaluated.wake), (&Change::None, None));
    assert_eq!(report.status.unwrap().start_time, None);
}

/// Three writes count a pod, and each end has its interim condition first.
#[test]
fn pods_are_listed_untracked_and_counted_before_the_job_completes() {
    let spec = json!({"completions": 1});
    let ended = pods(&["Succeeded"]);
    let (_, first) = run(&job(&spec, &json!({"startTime": START, "active": 1})), &ended, after(10));
    let status = first.status.unwrap();
    assert_eq!(status.uncounted_terminated_pods.as_ref().unwrap().succeeded, Some(vec!["p0".to_owned()]));
    assert_eq!((status.succeeded, status.active), (None, None));
    assert_eq!(
        condition(&status, "SuccessCriteriaMet").unwrap(),
        ("True".into(), "CompletionsReached".into())
    );
    assert_eq!(condition(&status, "Complete"), None);
    assert_eq!(names(&first.untracked), ["p0"]);

    let stored = serde_json::to_value(&status).unwrap();
    let (_, again) = run(&job(&spec, &stored), &ended, after(11));
    assert!(again.status.is_none(), "a pod that is listed is not listed again");
    assert_eq!(names(&again.untracked), ["p0"]);

    let free = [changed(&ended[0], |pod| pod.metadata.finalizers.clear())];
    let (evaluated, last) = run(&job(&spec, &stored), &free, after(12));
    assert_eq!(evaluated.change, Change::None);
    let status = last.status.unwrap();
    assert_eq!(status.succeeded, Some(1));
    assert_eq!(status.uncounted_terminated_pods, Some(Default::default()));
    assert_eq!(condition(&status, "Complete").unwrap(), ("True".into(), "CompletionsReached".into()));
    assert_eq!(status.completion_time.as_ref().unwrap().0, after(12));
    assert_eq!(last.events, [(false, "Completed".into(), "Job completed".into())]);
}

#[test]
fn a_failing_job_deletes_its_pods_and_waits_for_them() {
    let spec = json!({"completions": 3, "parallelism": 2, "backoffLimit": 0});
    let all = pods(&["Failed", "Running"]);
    let (evaluated, first) = run(&job(&spec, &json!({"startTime": START})), &all, after(10));
    assert_eq!(removed(&evaluated), ["p1"]);
    let status = first.status.unwrap();
    assert_eq!(condition(&status, "FailureTarget").unwrap(), ("True".into(), "BackoffLimitExceeded".into()));
    assert_eq!(names(&first.untracked), ["p0", "p1"], "every pod of a failing job counts as failed");
    assert_eq!(status.terminating, Some(1));

    let leaving = changed(&all[1], |pod| {
        pod.metadata.finalizers.clear();
        pod.metadata.deletion_timestamp = Some(crate::view::seconds(after(40)));
    });
    let stored = serde_json::to_value(&status).unwrap();
    let (_, second) = run(&job(&spec, &stored), &[leaving], after(11));
    let status = second.status.unwrap();
    assert_eq!(
        (status.failed, condition(&status, "Failed")),
        (Some(2), None),
        "one pod is still terminating"
    );

    let (_, last) = run(&job(&spec, &serde_json::to_value(&status).unwrap()), &[], after(41));
    let status = last.status.unwrap();
    assert_eq!(condition(&status, "Failed").unwrap(), ("True".into(), "BackoffLimitExceeded".into()));
    assert_eq!(status.completion_time, None);
    let message = "Job has reached the specified backoff limit";
    assert_eq!(last.events, [(true, "BackoffLimitExceeded".into(), message.into())]);
}

#[test]
fn failed_pod_deletions_delay_the_end_of_a_job() {
    let all = pods(&["Failed", "Running"]);
    let job = job(&json!({"completions": 3, "backoffLimit": 0}), &json!({"startTime": START}));
    let evaluated = evaluated(&job, &all, START);
    let report = report(seen(&job, &all), &evaluated, ChangeOutcome::default(), START);
    let status = report.status.unwrap();
    assert_eq!((status.active, condition(&status, "FailureTarget")), (Some(1), None));
    assert_eq!(names(&report.untracked), ["p0"]);
}

#[test]
fn the_first_end_reason_of_a_job_wins() {
    let restarting = |count: i32| {
        let containers = json!([{"name": "main", "restartCount": count}]);
        let with = |pod: &mut Pod| pod.status.container_statuses = from_value(containers).unwrap();
        vec![changed(&pods(&["Running"])[0], with)]
    };
    let on_failure = |limit: i32| json!({"completions": 1, "backoffLimit": limit, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    let fail =
        json!({"rules": [{"action": "FailJob", "onPodConditions": [{"type": "Gone", "status": "True"}]}]});
    let gone = changed(&pods(&["Failed"])[0], |pod| {
        pod.status.conditions = from_value(json!([{"type": "Gone", "status": "True"}])).unwrap();
    });
    let table = [
        (json!({"completions": 1, "backoffLimit": 0}), pods(&["Failed"]), 1, Some("BackoffLimitExceeded")),
        (json!({"completions": 1, "backoffLimit": 1}), pods(&["Failed"]), 1, None),
        (on_failure(2), restarting(1), 1, None),
        (on_failure(2), restarting(2), 1, Some("BackoffLimitExceeded")),
        (on_failure(0), restarting(1), 1, Some("BackoffLimitExceeded")),
        (on_failure(0), restarting(0), 1, None),
        (json!({"completions": 1, "activeDeadlineSeconds": 5}), pods(&["Running"]), 4, None),
        (
            json!({"completions": 1, "activeDeadlineSeconds": 5}),
            pods(&["Running"]),
            5,
            Some("DeadlineExceeded"),
        ),
        (
            json!({"completions": 1, "backoffLimit": 0, "podFailurePolicy": fail}),
            vec![gone],
            9,
            Some("PodFailurePolicy"),
        ),
    ];
    for (spec, pods, seconds, reason) in table {
        let evaluated = evaluated(&job(&spec, &json!({"startTime": START})), &pods, after(seconds));
        assert_eq!(evaluated.ending.as_ref().map(|e| e.reason.as_str()), reason, "{spec} {pods:?}");
        if spec["activeDeadlineSeconds"] == 5 && reason.is_none() {
            assert_eq!(evaluated.wake, Some(Duration::from_secs(1)));
        }
    }
}

#[test]
fn failed_pods_are_replaced_after_their_back_off() {
    let failed_at = |second: i64| {
        let state =
            json!([{"name": "main", "state": {"terminated": {"exitCode": 1, "finishedAt": after(second)}}}]);
        vec![changed(&pods(&["Failed"])[0], |pod| pod.status.container_statuses = from_value(state).unwrap())]
    };
    let job = job(&json!({"completions": 1}), &json!({"startTime": START}));
    let waiting = evaluated(&job, &failed_at(5), after(8));
    assert_eq!((&waiting.change, waiting.wake), (&Change::None, Some(Duration::from_secs(7))));
    assert_eq!(created(&evaluated(&job, &failed_at(5), after(15))), 1);
    // The failures of earlier runs count.
    let pods = failed_at(5);
    let again = Observed { backoff: waiting.backoff, ..seen(&job, &pods) };
    assert_eq!(evaluate(again, after(8)).wake, Some(Duration::from_secs(17)));
}

#[test]
fn terminating_pods_are_replaced_by_the_replacement_policy() {
    let leaving = vec![changed(&pods(&["Running"])[0], |pod| {
        pod.metadata.deletion_timestamp = Some(crate::view::seconds(START));
    })];
    let spec = json!({"completions": 1});
    let table: [(&str, usize, &[&str]); 2] = [("TerminatingOrFailed", 0, &["p0"]), ("Failed", 0, &[])];
    for (policy, count, untracked) in table {
        let mut spec = spec.clone();
        spec["podReplacementPolicy"] = json!(policy);
        let (evaluated, report) = run(&job(&spec, &json!({"startTime": START})), &leaving, START);
        assert_eq!(
            (created(&evaluated), names(&report.untracked).as_slice()),
            (count, untracked),
            "{policy}"
        );
        // The first waits because a deleted pod counts as failed and the Job backs off; the second waits
        // until the pod has ended.
        assert_eq!(evaluated.wake.is_some(), policy == "TerminatingOrFailed");
    }
    let later = evaluated(&job(&spec, &json!({"startTime": START})), &leaving, after(60));
    assert_eq!(created(&later), 1);
    let failed_only = json!({"completions": 1, "podReplacementPolicy": "Failed"});
    assert_eq!(created(&evaluated(&job(&failed_only, &json!({"startTime": START})), &leaving, after(60))), 0);
}

#[test]
fn an_indexed_job_runs_each_index_once() {
    let spec = json!({"completions": 5, "parallelism": 3, "completionMode": "Indexed"});
    let all = [
        indexed(0, "a", "Succeeded"),
        indexed(1, "b", "Running"),
        indexed(1, "c", "Pending"),
        indexed(7, "d", "Running"),
        Arc::new(pod("e", "Running")),
    ];
    let (evaluated, report) = run(&job(&spec, &json!({"startTime": START})), &all, START);
    let mut gone = removed(&evaluated);
    gone.sort_unstable();
    assert_eq!(gone, ["c", "d", "e"], "a second pod of an index, and pods without a valid one");
    let status = report.status.unwrap();
    assert_eq!((status.completed_indexes.as_deref(), status.succeeded), (Some("0"), Some(1)));
    assert_eq!(names(&report.untracked), ["a"]);
    assert_eq!(status.uncounted_terminated_pods, Some(Default::default()), "an index needs no list");

    let stored = serde_json::to_value(&status).unwrap();
    let (evaluated, _) = run(&job(&spec, &stored), &all[1..2], START);
    let Change::CreateIndexed(pods) = &evaluated.change else { panic!("{:?}", evaluated.change) };
    let prefixes: Vec<_> = pods.iter().map(|p| p.metadata.generate_name.as_deref().unwrap()).collect();
    assert_eq!(prefixes, ["work-2-", "work-3-"]);
}

#[test]
fn pods_have_the_labels_annotations_and_finalizer_of_their_job() {
    let spec = json!({"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    let job = job(&spec, &json!({}));
    let plain = serde_json::to_value(pod_of(&job, job.spec.as_ref().unwrap())).unwrap();
    assert_eq!(plain["metadata"]["generateName"], "work-");
    assert_eq!(plain["metadata"]["finalizers"], json!([TRACKING]));
    assert_eq!(plain["metadata"]["ownerReferences"][0]["kind"], "Job");
    let failed = changed(&indexed(1, "x", "Failed"), |pod| {
        pod.metadata.annotations.insert("batch.kubernetes.io/job-index-failure-count".into(), "2".into());
    });
    let own = indexed_pod_of(&job, job.spec.as_ref().unwrap(), 1, Some(&failed));
    let own = serde_json::to_value(own).unwrap();
    let (meta, spec) = (&own["metadata"], &own["spec"]);
    assert_eq!((&meta["annotations"][INDEX], &meta["labels"][INDEX]), (&json!("1"), &json!("1")));
    assert_eq!(meta["annotations"]["batch.kubernetes.io/job-index-failure-count"], "3");
    assert_eq!((&meta["generateName"], &spec["hostname"]), (&json!("work-1-"), &json!("work-1")));
    let env = json!([{"name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}}}]);
    assert_eq!(spec["containers"][0]["env"], env);
    assert_eq!(meta["labels"]["app"], "work");
}

#[test]
fn in_an_ending_namespace_failed_pods_are_released_and_none_is_created() {
    let per_index = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": i32::MAX,
        "backoffLimitPerIndex": 1});
    let policy = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]});
    let with_policy = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "podFailurePolicy": policy});
    let plain = json!({"completions": 2, "parallelism": 2});
    let failed = [indexed(0, "a", "Failed")];
    for spec in [per_index, with_policy, plain] {
        let job = job(&spec, &json!({"startTime": START}));
        let seen = Observed { is_namespace_ending: true, ..seen(&job, &failed) };
        let evaluated = evaluate(seen, after(1));
        assert_eq!(evaluated.change, Change::None, "{spec}");
        let outcome = ChangeOutcome { created: 0, is_deleted: true };
        assert_eq!(names(&report(seen, &evaluated, outcome, after(1)).untracked), ["a"], "{spec}");
    }
}

#[test]
fn each_index_has_its_own_failure_limit() {
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimit": i32::MAX,
        "backoffLimitPerIndex": 1});
    let failed = |index, name: &str, count: &str| {
        changed(&indexed(index, name, "Failed"), |pod| {
            pod.metadata
                .annotations
                .insert("batch.kubernetes.io/job-index-failure-count".into(), count.into());
        })
    };
    let all = [failed(0, "a", "1"), failed(1, "b", "0"), indexed(2, "c", "Succeeded")];
    let (evaluated, report) = run(&job(&spec, &json!({"startTime": START})), &all, after(1));
    assert_eq!((&evaluated.change, evaluated.wake), (&Change::None, Some(Duration::from_secs(9))));
    let status = report.status.unwrap();
    assert_eq!(
        (status.failed_indexes.as_deref(), status.completed_indexes.as_deref()),
        (Some("0"), Some("2"))
    );
    assert_eq!(
        names(&report.untracked),
        ["a", "c"],
        "a pod that waits for its successor keeps its finalizer"
    );

    let (evaluated, _) = run(&job(&spec, &serde_json::to_value(&status).unwrap()), &all[1..2], after(10));
    assert_eq!(created(&evaluated), 1);
    let mut limited = spec.clone();
    limited["maxFailedIndexes"] = json!(0);
    let (evaluated, _) = run(&job(&limited, &json!({"startTime": START})), &all, after(1));
    assert_eq!(evaluated.ending.unwrap().reason, "MaxFailedIndexesExceeded");
    let lost = [failed(0, "a", "1"), failed(1, "b", "1"), indexed(2, "c", "Succeeded")];
    let (evaluated, _) = run(&job(&spec, &json!({"startTime": START})), &lost, after(1));
    assert_eq!(evaluated.ending.unwrap().reason, "FailedIndexes");
}

#[test]
fn a_success_policy_ends_a_job_early() {
    let spec = json!({"completions": 5, "parallelism": 5, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    let all = [indexed(0, "a", "Succeeded"), indexed(1, "b", "Running")];
    let (evaluated, report) = run(&job(&spec, &json!({"startTime": START})), &all, after(1));
    assert_eq!(removed(&evaluated), ["b"]);
    let status = report.status.unwrap();
    assert_eq!(condition(&status, "SuccessCriteriaMet").unwrap(), ("True".into(), "SuccessPolicy".into()));
    assert_eq!(
        status.uncounted_terminated_pods,
        Some(Default::default()),
        "pods that are stopped do not fail"
    );
    assert_eq!(names(&report.untracked), ["a", "b"]);
}

#[test]
fn the_list_of_uncounted_pods_is_bounded() {
    let many: Vec<&str> = vec!["Succeeded"; UNCOUNTED_PODS + 7];
    let job = job(&json!({"completions": 9000, "parallelism": 1}), &json!({"startTime": START}));
    let (_, report) = run(&job, &pods(&many), START);
    assert_eq!(report.untracked.len(), UNCOUNTED_PODS);
    let listed = report.status.unwrap().uncounted_terminated_pods.unwrap().succeeded.unwrap();
    assert_eq!(listed.len(), UNCOUNTED_PODS);
}

#[test]
fn a_terminating_job_releases_its_pods_and_creates_none() {
    let mut job = job(&json!({"completions": 3, "parallelism": 3}), &json!({"startTime": START}));
    job.metadata.deletion_timestamp = Some(crate::view::seconds(START));
    let all = pods(&["Running", "Succeeded"]);
    let (evaluated, report) = run(&job, &all, START);
    assert_eq!(evaluated.change, Change::None);
    assert_eq!(names(&report.untracked), ["p0", "p1"]);
}
