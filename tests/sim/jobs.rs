//! Jobs and CronJobs end to end: pods that run to completion on simulated nodes, in virtual time.

use kstore_client::{DeleteParams, Propagation};
use kstore_tests::wait::condition;
use kstore_tests::{Change, Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// The finalizer of pods that the Job controller has not counted yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The annotation that scripts the behaviour of a pod's containers.
const SCRIPT: &str = "kubelet-sim.kstore.io";

/// A Job whose pods run for this many seconds and exit with this code.
fn job(name: &str, seconds: u32, code: u8, spec: Value) -> Value {
    let script = json!({format!("{SCRIPT}/run-seconds"): seconds.to_string(), format!("{SCRIPT}/exit-code"): code.to_string()});
    let template = json!({"metadata": {"annotations": script},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work:1"}]}});
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    let spec = job["spec"].as_object_mut().unwrap();
    spec.entry("template").or_insert(template);
    job
}

async fn ended(cluster: &Cluster, name: &str, type_: &str) -> Value {
    let is_true = |job: &Value| condition(job, type_).is_some_and(|c| c["status"] == "True");
    cluster.wait_object("jobs", name, &format!("is {type_}"), is_true).await
}

/// The states of an object over its history.
fn states(cluster: &Cluster, key: &str) -> Vec<Value> {
    let of_key = |change: &Change| change.key == key;
    let values = cluster.history().into_iter().filter(of_key).filter_map(|change| change.value);
    values.map(|value| serde_json::from_slice(&value).unwrap()).collect()
}

/// All pods that a Job ever had, each in its last state.
fn pods_of(cluster: &Cluster, job: &str) -> Vec<Value> {
    let prefix = format!("/registry/pods/default/{job}-");
    let keys: BTreeSet<String> = cluster
        .history()
        .into_iter()
        .map(|change| change.key)
        .filter(|key| key.starts_with(&prefix))
        .collect();
    keys.iter().filter_map(|key| states(cluster, key).pop()).collect()
}

fn is_tracked(pod: &Value) -> bool {
    pod["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|f| f == TRACKING))
}

/// Reason and message of all events about an object, without duplicates.
async fn events_about(cluster: &Cluster, name: &str) -> BTreeSet<(String, String)> {
    // The event recorder may still be working.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let events = cluster.list("events", "default").await;
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let about = events.iter().filter(|event| event["involvedObject"]["name"] == name);
    about.map(|event| (text(event, "reason"), text(event, "message"))).collect()
}

fn has_event(events_about: &BTreeSet<(String, String)>, reason: &str, message: &str) -> bool {
    events_about.iter().any(|(r, m)| r == reason && m.starts_with(message))
}

#[test]
fn a_job_completes_with_two_pods_at_a_time() {
    simulate(Setup::seed(41), async |cluster| {
        cluster.create(job("work", 10, 0, json!({"completions": 5, "parallelism": 2}))).await;
        let done = ended(cluster, "work", "Complete").await;
        let status = &done["status"];
        assert_eq!(
            (&status["succeeded"], &status["failed"], &status["active"]),
            (&json!(5), &Value::Null, &Value::Null)
        );
        assert_eq!((&status["ready"], &status["terminating"]), (&json!(0), &json!(0)));
        assert_eq!(condition(&done, "Complete").unwrap()["reason"], "CompletionsReached");
        assert!(status["startTime"].is_string() && status["completionTime"].is_string(), "{status}");
        let pods = pods_of(cluster, "work");
        assert_eq!(pods.len(), 5);
        assert!(pods.iter().all(|pod| pod["status"]["phase"] == "Succeeded" && !is_tracked(pod)), "{pods:?}");
        let states = states(cluster, "/registry/jobs/default/work");
        let active = |state: &Value| state["status"]["active"].as_u64().unwrap_or(0);
        assert_eq!(states.iter().map(active).max(), Some(2));
        let is_interim = |state: &&Value| condition(state, "SuccessCriteriaMet").is_some();
        let interim: Vec<&Value> = states.iter().filter(is_interim).collect();
        assert!(condition(interim[0], "Complete").is_none(), "a job says first that it will be complete");
        let events_about = events_about(cluster, "work").await;
        assert!(
            has_event(&events_about, "SuccessfulCreate", "Created pod: work-")
                && has_event(&events_about, "Completed", "Job completed"),
            "{events_about:?}"
        );
    });
}

#[test]
fn pods_of_an_indexed_job_have_their_index() {
    simulate(Setup::seed(42), async |cluster| {
        let script = "sleep 5; test $JOB_COMPLETION_INDEX != 1";
        let template = json!({"spec": {"restartPolicy": "Never", "subdomain": "work",
            "containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", script]}]}});
        let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
            "template": template});
        cluster.create(job("work", 0, 0, spec)).await;
        let done = ended(cluster, "work", "Failed").await;
        let status = &done["status"];
        assert_eq!((&status["completedIndexes"], &status["failedIndexes"]), (&json!("0,2"), &json!("1")));
        assert_eq!((&status["succeeded"], &status["failed"]), (&json!(2), &json!(2)));
        assert_eq!(condition(&done, "Failed").unwrap()["reason"], "FailedIndexes");
        let pods = pods_of(cluster, "work");
        assert_eq!(pods.len(), 4, "one index is tried twice");
        for pod in pods {
            let index =
                pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].as_str().unwrap();
            assert_eq!(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], index);
            assert_eq!(pod["spec"]["hostname"], format!("work-{index}"));
            assert!(pod["metadata"]["name"].as_str().unwrap().starts_with(&format!("work-{index}-")));
            assert_eq!(pod["status"]["phase"], if index == "1" { "Failed" } else { "Succeeded" });
            assert!(!is_tracked(&pod));
        }
    });
}

#[test]
fn a_failing_job_is_retried_with_back_off_up_to_its_limit() {
    simulate(Setup::seed(43), async |cluster| {
        cluster.create(job("work", 1, 3, json!({"backoffLimit": 3}))).await;
        let done = ended(cluster, "work", "Failed").await;
        assert_eq!((&done["status"]["failed"], &done["status"]["succeeded"]), (&json!(4), &Value::Null));
        assert_eq!(condition(&done, "FailureTarget").unwrap()["reason"], "BackoffLimitExceeded");
        let time = |pod: &Value| {
            let at = pod["metadata"]["creationTimestamp"].as_str().unwrap();
            at.parse::<jiff::Timestamp>().unwrap().as_second()
        };
        let mut created: Vec<i64> = pods_of(cluster, "work").iter().map(time).collect();
        created.sort_unstable();
        let gaps: Vec<i64> = created.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // A pod takes little more than a second to start and run; then the back-off is 10, 20 and 40 seconds.
        for (gap, back_off) in gaps.iter().zip([10, 20, 40]) {
            assert!((back_off + 1..back_off + 6).contains(gap), "{gaps:?}");
        }
        let events_about = events_about(cluster, "work").await;
        let message = "Job has reached the specified backoff limit";
        assert!(has_event(&events_about, "BackoffLimitExceeded", message), "{events_about:?}");
    });
}

#[test]
fn a_pod_failure_policy_distinguishes_failures() {
    simulate(Setup::seed(44), async |cluster| {
        let on_code = |action: &str, code: u8| json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}});
        let policy = json!({"podFailurePolicy": {"rules": [on_code("FailJob", 42), on_code("Ignore", 7)]}});
        cluster.create(job("fatal", 1, 42, policy.clone())).await;
        let done = ended(cluster, "fatal", "Failed").await;
        assert_eq!(done["status"]["failed"], 1);
        let why = condition(&done, "Failed").unwrap();
        assert_eq!(why["reason"], "PodFailurePolicy");
        let message = why["message"].as_str().unwrap();
        assert!(message.starts_with("Container main for pod default/fatal-"), "{message}");
        assert!(message.ends_with(" failed with exit code 42 matching FailJob rule at index 0"), "{message}");

        cluster.create(job("harmless", 1, 7, policy)).await;
        cluster.wait_until("several pods failed", async || pods_of(cluster, "harmless").len() > 2).await;
        let job = cluster.get("jobs", "default", "harmless").await.unwrap();
        assert_eq!((&job["status"]["failed"], condition(&job, "FailureTarget")), (&Value::Null, None));
    });
}

#[test]
fn a_suspended_job_has_no_pods_and_restarts_when_resumed() {
    simulate(Setup::seed(45), async |cluster| {
        let spec = json!({"completions": 2, "parallelism": 2, "suspend": true, "activeDeadlineSeconds": 60});
        cluster.create(job("work", 40, 0, spec)).await;
        let says = |value: &'static str| {
            move |job: &Value| condition(job, "Suspended").is_some_and(|c| c["status"] == value)
        };
        let job = cluster.wait_object("jobs", "work", "is suspended", says("True")).await;
        assert!(job["status"]["startTime"].is_null() && pods_of(cluster, "work").is_empty());
        tokio::time::sleep(Duration::from_secs(600)).await;

        let suspend = async |is_suspended: bool| {
            cluster.merge("jobs", "work", json!({"spec": {"suspend": is_suspended}})).await;
        };
        suspend(false).await;
        cluster.wait_object("jobs", "work", "has pods", |job| job["status"]["ready"] == 2).await;
        suspend(true).await;
        let job = cluster.wait_object("jobs", "work", "is suspended again", says("True")).await;
        assert!(job["status"]["startTime"].is_null(), "{job}");
        let gone = async || cluster.list("pods", "default").await.is_empty();
        cluster.wait_until("its pods are deleted", gone).await;
        tokio::time::sleep(Duration::from_secs(600)).await;

        suspend(false).await;
        let done = ended(cluster, "work", "Complete").await;
        assert_eq!((&done["status"]["succeeded"], &done["status"]["failed"]), (&json!(2), &Value::Null));
        let events_about = events_about(cluster, "work").await;
        for (reason, message) in [("Suspended", "Job suspended"), ("Resumed", "Job resumed")] {
            assert!(has_event(&events_about, reason, message), "{events_about:?}");
        }
    });
}

#[test]
fn a_finished_job_and_its_pods_are_deleted_after_their_ttl() {
    simulate(Setup::seed(46), async |cluster| {
        cluster.create(job("work", 1, 0, json!({"ttlSecondsAfterFinished": 100}))).await;
        ended(cluster, "work", "Complete").await;
        let end = cluster.nondet().clock.now();
        let is_gone = async || cluster.get("jobs", "default", "work").await.is_none();
        cluster.wait_until("the job is deleted", is_gone).await;
        let waited = cluster.nondet().clock.now().duration_since(end).as_secs();
        assert!((99..=103).contains(&waited), "after {waited} s");
        assert!(cluster.list("pods", "default").await.is_empty());
    });
}

#[test]
fn pods_that_lose_their_job_can_be_deleted() {
    simulate(Setup::seed(47), async |cluster| {
        for (name, propagation) in [("left", Propagation::Orphan), ("taken", Propagation::Background)] {
            cluster.create(job(name, 100_000, 0, json!({}))).await;
            cluster.wait_object("jobs", name, "runs", |job| job["status"]["ready"] == 1).await;
            cluster.delete("jobs", name, DeleteParams::default().propagation(propagation)).await;
        }
        let of = async |name: &str| {
            let pods = cluster.list("pods", "default").await;
            pods.into_iter().filter(|pod| pod["metadata"]["labels"]["job-name"] == name).collect::<Vec<_>>()
        };
        cluster.wait_until("one pod is deleted", async || of("taken").await.is_empty()).await;
        let is_free = async || {
            let pods = of("left").await;
            !is_tracked(&pods[0]) && pods[0]["metadata"]["ownerReferences"].is_null()
        };
        cluster.wait_until("the other one is free", is_free).await;
        let name = of("left").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
        cluster.delete("pods", &name, DeleteParams::default()).await;
        cluster.wait_until("the other pod is deleted", async || of("left").await.is_empty()).await;
    });
}

#[test]
fn a_job_managed_by_another_controller_is_ignored() {
    simulate(Setup::seed(48), async |cluster| {
        cluster.create(job("work", 1, 0, json!({"managedBy": "example.com/other"}))).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(pods_of(cluster, "work").is_empty());
        assert_eq!(states(cluster, "/registry/jobs/default/work").len(), 1);
    });
}

/// A CronJob whose Jobs have one pod that runs for this many seconds.
fn cron_job(name: &str, seconds: u32, spec: Value) -> Value {
    cron_job_of(name, json!({}), seconds, spec)
}

fn cron_job_of(name: &str, work: Value, seconds: u32, spec: Value) -> Value {
    let template = json!({"spec": job("", seconds, 0, work)["spec"]});
    let mut cron =
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec});
    cron["spec"]["jobTemplate"] = template;
    cron
}

/// The names of all Jobs that a CronJob ever created.
fn jobs_of(cluster: &Cluster, cron: &str) -> Vec<String> {
    let prefix = format!("/registry/jobs/default/{cron}-");
    let history = cluster.history();
    let names = history.iter().filter_map(|change| change.key.strip_prefix(&prefix));
    names.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}

#[test]
fn a_cron_job_runs_each_hour_and_keeps_three_jobs() {
    simulate(Setup::seed(49).nodes(0), async |cluster| {
        let start = cluster.nondet().clock.now().as_second() / 60;
        // Jobs without pods, in a cluster without nodes: hours of heartbeats would take long.
        let create = async |name: &str, spec: Value| {
            let nothing = json!({"completions": 0, "parallelism": 0});
            cluster.create(cron_job_of(name, nothing, 0, spec)).await;
        };
        create("tick", json!({"schedule": "@hourly"})).await;
        create("tea", json!({"schedule": "0 8 * * *", "timeZone": "Asia/Kolkata"})).await;
        create("asleep", json!({"schedule": "* * * * *", "suspend": true})).await;
        tokio::time::sleep(Duration::from_secs(5 * 3600 + 600)).await;
        let hours: Vec<String> = (1..=5).map(|hour| (start + hour * 60).to_string()).collect();
        assert_eq!(jobs_of(cluster, "tick"), hours);
        // 14:30 UTC.
        assert_eq!(jobs_of(cluster, "tea"), [(start + 2 * 60 + 30).to_string()]);
        assert!(jobs_of(cluster, "asleep").is_empty());
        let left = cluster.list("jobs", "default").await;
        let of = |cron: &str| {
            left.iter().filter(|job| job["metadata"]["ownerReferences"][0]["name"] == cron).count()
        };
        assert_eq!((of("tick"), of("tea")), (3, 1), "three successful jobs are kept");
        let tick = cluster.get("cronjobs", "default", "tick").await.unwrap();
        assert_eq!(tick["status"]["lastScheduleTime"], "2026-01-01T05:00:00Z");
        let status = &tick["status"];
        assert!(status["lastSuccessfulTime"].is_string() && status["active"].is_null(), "{tick}");
        let events_about = events_about(cluster, "tick").await;
        for (reason, message) in [
            ("SuccessfulCreate", "Created job tick-"),
            ("SawCompletedJob", "Saw completed job: tick-"),
            ("SuccessfulDelete", "Deleted job tick-"),
        ] {
            assert!(has_event(&events_about, reason, message), "{reason}: {events_about:?}");
        }
        assert_eq!(
            events_about.iter().find(|(reason, _)| reason == "MissingJob" || reason == "UnexpectedJob"),
            None
        );
    });
}

#[test]
fn concurrency_policies_keep_long_jobs_apart() {
    simulate(Setup::seed(50).nodes(1), async |cluster| {
        for policy in ["Allow", "Forbid", "Replace"] {
            let spec = json!({"schedule": "*/10 * * * *", "concurrencyPolicy": policy});
            cluster.create(cron_job(&policy.to_lowercase(), 1500, spec)).await;
        }
        tokio::time::sleep(Duration::from_secs(3630)).await;
        let most = |name: &str| {
            let states = states(cluster, &format!("/registry/cronjobs/default/{name}"));
            states.iter().map(|cron| cron["status"]["active"].as_array().map_or(0, Vec::len)).max()
        };
        assert_eq!((most("allow"), most("forbid"), most("replace")), (Some(3), Some(1), Some(1)));
        let count = |name: &str| jobs_of(cluster, name).len();
        assert_eq!((count("allow"), count("forbid"), count("replace")), (6, 3, 6));
        let active = async |name: &str| {
            let cron = cluster.get("cronjobs", "default", name).await.unwrap();
            cron["status"]["active"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(active("replace").await, 1);
        let (pods, jobs) = (cluster.list("pods", "default").await, cluster.list("jobs", "default").await);
        assert!(pods.len() <= jobs.len() + 1, "pods go with their jobs");
        let told_forbid = events_about(cluster, "forbid").await;
        let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
        assert!(has_event(&told_forbid, "JobAlreadyActive", message), "{told_forbid:?}");
        assert!(has_event(
            &events_about(cluster, "replace").await,
            "SuccessfulDelete",
            "Deleted job replace-"
        ));
    });
}

#[test]
fn a_namespace_with_a_waiting_indexed_job_is_deleted() {
    simulate(Setup::seed(55), async |cluster| {
        cluster.create(manifests::namespace("doomed")).await;
        let rule =
            json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        let policy = json!({"rules": [rule]});
        let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
            "podFailurePolicy": policy});
        let mut job = job("work", 1, 0, spec);
        job["metadata"]["namespace"] = json!("doomed");
        job["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "none"});
        cluster.create(job).await;
        let wait = async || cluster.list("pods", "doomed").await.len() == 2;
        cluster.wait_until("the pods wait for a node", wait).await;
        let namespaces = cluster.resource("namespaces");
        namespaces.delete("", "doomed", &DeleteParams::default()).await.unwrap();
        let is_gone = async || cluster.get("namespaces", "", "doomed").await.is_none();
        cluster.wait_until("the namespace is deleted", is_gone).await;
    });
}
