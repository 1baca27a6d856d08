//! Tests of the loop against the fake API server.

mod extenders;

use super::fake::Fake;
use super::*;
use crate::limits::{BINDS_PER_CALL, EVICTIONS_IN_FLIGHT};
use kstore_proto::kstore::v1::kstore_server::KstoreServer;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;

fn node(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": { "name": name, "uid": name },
        "status": { "allocatable": { "cpu": cpu, "memory": "32Gi", "pods": "110" } }
    })
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "ns", "uid": format!("uid-{name}") },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }]
        },
        "status": { "phase": "Pending" }
    })
}

struct Running {
    fake: Fake,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn start(fake: &Fake, seed: u64) -> Running {
    start_with(fake, seed, Config::default())
}

fn start_with(fake: &Fake, seed: u64, config: Config) -> Running {
    let client = Client::over(KstoreServer::new(fake.clone()), "test");
    let stop = CancellationToken::new();
    let task = tokio::spawn(run(client, Nondet::simulated(seed), config, stop.clone()));
    Running { fake: fake.clone(), stop, task }
}

impl Running {
    /// Lets everything settle that is due within half a second.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    fn node_of(&self, pod: &str) -> Value {
        self.fake.get("pods", &format!("ns/{pod}"))["spec"]["nodeName"].clone()
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        assert_eq!(self.fake.watchers(), 0, "nothing listens any more");
    }
}

#[tokio::test(start_paused = true)]
async fn pending_pods_are_bound_and_an_event_names_the_node() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "4"));
    let revision = fake.put("pods", pod("a", "1"));
    let running = start(&fake, 1);
    running.settle().await;
    assert_eq!(running.node_of("a"), "n1");
    assert_eq!(fake.events(), ["Normal Scheduled Successfully assigned ns/a to n1 ×1"]);
    assert_eq!(fake.causes(), [revision.to_string()]);
    fake.put("pods", pod("b", "1"));
    running.settle().await;
    assert_eq!(running.node_of("b"), "n1", "also while running");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_gets_a_condition_and_is_bound_when_a_node_is_added() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "1"));
    fake.put("pods", pod("a", "2"));
    let running = start(&fake, 1);
    running.settle().await;
    let condition = fake.get("pods", "ns/a")["status"]["conditions"][0].clone();
    let message = condition["message"].as_str().unwrap();
    assert_eq!(
        message,
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: \
         1 Preemption is not helpful for scheduling."
    );
    assert_eq!(condition["type"], "PodScheduled");
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Unschedulable")));
    assert_eq!(condition["lastTransitionTime"], "2026-01-01T00:00:00Z");
    assert_eq!(fake.events(), [format!("Warning FailedScheduling {message} ×1")]);
    let pod = fake.get("pods", "ns/a")["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let revision = fake.put("nodes", node("n2", "4"));
    running.settle().await;
    assert_eq!(running.node_of("a"), "n2");
    assert_eq!(fake.causes(), [format!("{pod},{revision}")], "the pod and the node led to the bind");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_bind_is_reported_and_retried() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "4"));
    fake.put("pods", pod("a", "3"));
    fake.refuse_binds(1);
    let running = start(&fake, 1);
    running.settle().await;
    let condition = fake.get("pods", "ns/a")["status"]["conditions"][0].clone();
    assert_eq!(condition["reason"], "SchedulerError");
    assert_eq!(condition["message"], "running Bind plugin \"DefaultBinder\": try later");
    assert!(running.node_of("a").is_null());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(running.node_of("a"), "n1");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_bind_with_a_lost_response_counts_if_it_succeeded() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "4"));
    fake.put("pods", pod("a", "3"));
    fake.lose_responses(1);
    let running = start(&fake, 1);
    running.settle().await;
    assert_eq!(fake.binds(), ["ns/a n1"]);
    assert_eq!(fake.events(), ["Normal Scheduled Successfully assigned ns/a to n1 ×1"]);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_decided_together_are_bound_by_one_call_with_their_own_causes() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "64"));
    let revisions: Vec<String> =
        (0..100).map(|n| fake.put("pods", pod(&format!("p{n:03}"), "100m")).to_string()).collect();
    let running = start(&fake, 1);
    running.settle().await;
    assert_eq!(fake.binds().len(), 100);
    let mut causes = fake.causes();
    causes.sort();
    let mut expected = revisions;
    expected.sort();
    assert_eq!(causes, expected, "each bind has the revision of its own pod");
    let calls = fake.calls_of_binds();
    assert_eq!(calls.iter().sum::<usize>(), 100);
    assert!(calls.len() <= 4 && calls.iter().all(|binds| *binds <= BINDS_PER_CALL), "{calls:?}");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn refused_binds_of_a_call_return_alone() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "64"));
    for n in 0..60 {
        fake.put("pods", pod(&format!("p{n:02}"), "100m"));
    }
    let refused = |n: usize| n % 7 == 3;
    fake.refuse_binds_of((0..60).filter(|n| refused(*n)).map(|n| format!("ns/p{n:02}")));
    let running = start(&fake, 1);
    running.settle().await;
    for n in 0..60 {
        let name = format!("p{n:02}");
        assert_eq!(running.node_of(&name).is_null(), refused(n), "{name}");
        let condition = fake.get("pods", &format!("ns/{name}"))["status"]["conditions"][0].clone();
        assert_eq!(condition["reason"] == "SchedulerError", refused(n), "{name}: {condition}");
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!((0..60).all(|n| running.node_of(&format!("p{n:02}")) == "n1"), "they were tried again");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn binds_of_a_call_with_a_lost_response_count_if_they_succeeded() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "64"));
    for n in 0..10 {
        fake.put("pods", pod(&format!("p{n}"), "100m"));
    }
    fake.refuse_binds_of(["ns/p4".to_owned()]);
    fake.lose_responses(1);
    let running = start(&fake, 1);
    running.settle().await;
    assert_eq!(fake.binds().len(), 9);
    for n in 0..10 {
        let condition = fake.get("pods", &format!("ns/p{n}"))["status"]["conditions"][0].clone();
        assert_eq!(condition["reason"] == "SchedulerError", n == 4, "p{n}: {condition}");
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(fake.binds().len(), 10, "each pod is bound once");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn resources_of_a_deleted_pod_are_used() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "4"));
    fake.put("pods", pod("a", "3"));
    let running = start(&fake, 1);
    running.settle().await;
    fake.put("pods", pod("b", "3"));
    running.settle().await;
    assert!(running.node_of("b").is_null());
    fake.remove("pods", "ns/a");
    running.settle().await;
    assert_eq!(running.node_of("b"), "n1");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn many_victims_are_evicted_concurrently_and_counted() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "4"));
    let victims: Vec<String> = (0..40).map(|n| format!("v{n:02}")).collect();
    for name in &victims {
        let mut pod = pod(name, "100m");
        pod["spec"]["nodeName"] = "n1".into();
        fake.put("pods", pod);
    }
    fake.refuse_eviction("ns/v07");
    let mut high = pod("high", "4");
    high["spec"]["priority"] = 5.into();
    fake.put("pods", high);
    let config = Config::default();
    let registry = config.metrics.clone();
    let running = start_with(&fake, 1, config);
    running.settle().await;
    let (evicted, at_once) = fake.evictions();
    let keys = victims.iter().map(|name| format!("ns/{name}"));
    let others: Vec<String> = keys.filter(|key| key != "ns/v07").collect();
    assert_eq!((evicted, at_once), (others, EVICTIONS_IN_FLIGHT));
    assert!(running.node_of("high").is_null(), "one victim is left");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(running.node_of("high"), "n1", "its eviction was repeated");
    let mut page = String::new();
    registry.render(&mut page);
    for line in [
        "scheduler_preemption_attempts_total 2",
        "scheduler_preemption_victims_bucket{le=\"1\"} 1",
        "scheduler_preemption_victims_bucket{le=\"32\"} 1",
        "scheduler_preemption_victims_bucket{le=\"64\"} 2",
        "scheduler_preemption_victims_sum 41",
        "scheduler_preemption_victims_count 2",
    ] {
        assert!(page.lines().any(|other| other == line), "{line} is on the page: {page}");
    }
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn attempts_waits_and_queues_have_kube_schedulers_metrics() {
    let fake = Fake::default();
    fake.put("nodes", node("n1", "4"));
    for (name, cpu) in [("a", "1"), ("b", "1"), ("big", "9")] {
        fake.put("pods", pod(name, cpu));
    }
    let mut gated = pod("gated", "1");
    gated["spec"]["schedulingGates"] = serde_json::json!([{"name": "example.com/gate"}]);
    fake.put("pods", gated);
    let config = Config::default();
    let registry = config.metrics.clone();
    let running = start_with(&fake, 1, config);
    running.settle().await;
    let mut page = String::new();
    registry.render(&mut page);
    for line in [
        r#"scheduler_pending_pods{queue="active"} 0"#,
        r#"scheduler_pending_pods{queue="backoff"} 0"#,
        r#"scheduler_pending_pods{queue="unschedulable"} 1"#,
        r#"scheduler_pending_pods{queue="gated"} 1"#,
        r#"scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1"#,
        r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 2"#,
        r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 1"#,
        r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="error"} 0"#,
        r#"scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="scheduled",le="16.384"} 2"#,
        r#"scheduler_scheduling_attempt_duration_seconds_count{profile="default-scheduler",result="unschedulable"} 1"#,
        "scheduler_scheduling_algorithm_duration_seconds_count 3",
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Bind",status="Success",profile="default-scheduler"} 2"#,
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="PreFilter",status="Success",profile="default-scheduler"} 3"#,
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",status="Success",profile="default-scheduler"} 2"#,
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",status="Unschedulable",profile="default-scheduler"} 1"#,
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="PostFilter",status="Unschedulable",profile="default-scheduler"} 1"#,
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Reserve",status="Success",profile="default-scheduler"} 2"#,
        r#"scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"} 2"#,
        r#"scheduler_pod_scheduling_sli_duration_seconds_bucket{attempts="1",le="5242.88"} 2"#,
        r#"scheduler_pod_scheduling_attempts_bucket{le="1"} 2"#,
    ] {
        assert!(page.lines().any(|other| other == line), "{line} is on the page: {page}");
    }
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn every_tenth_attempt_measures_its_plugins_by_node() {
    let fake = Fake::default();
    for name in ["n1", "n2"] {
        fake.put("nodes", node(name, "4"));
    }
    for nth in 0..21 {
        fake.put("pods", pod(&format!("p{nth:02}"), "100m"));
    }
    let config = Config::default();
    let registry = config.metrics.clone();
    let running = start_with(&fake, 1, config);
    running.settle().await;
    let mut page = String::new();
    registry.render(&mut page);
    // The first attempt, the eleventh and the twenty-first.
    for (point, plugin, count) in [
        ("PreFilter", "NodeResourcesFit", 3),
        ("Filter", "NodeResourcesFit", 6),
        ("Score", "NodeResourcesFit", 3),
        ("Score", "TaintToleration", 3),
    ] {
        let labels = format!(r#"extension_point="{point}",plugin="{plugin}",status="Success""#);
        let line = format!("scheduler_plugin_execution_duration_seconds_count{{{labels}}} {count}");
        assert!(page.lines().any(|other| other == line), "{line} is on the page: {page}");
    }
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_pods_are_bound_without_overcommitment_and_deterministically() {
    let mut histories = Vec::new();
    for seed in [7, 7, 8] {
        let fake = Fake::default();
        for n in 0..10 {
            fake.put("nodes", node(&format!("n{n}"), "4"));
        }
        for n in 0..450 {
            fake.put("pods", pod(&format!("p{n:03}"), "100m"));
        }
        let running = start(&fake, seed);
        running.settle().await;
        let binds = fake.binds();
        assert_eq!(binds.len(), 400, "forty fit on each node");
        let fullest = (0..10).map(|n| binds.iter().filter(|b| b.ends_with(&format!(" n{n}"))).count()).max();
        assert_eq!(fullest, Some(40));
        running.end().await;
        histories.push(binds);
    }
    assert_eq!(histories[0], histories[1]);
    assert_ne!(histories[0], histories[2], "the seed breaks ties");
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_with_unsynced_caches_stops_at_once() {
    let fake = Fake::default();
    fake.stop_responding();
    let running = start(&fake, 1);
    running.settle().await;
    let stopped = tokio::time::Instant::now();
    running.end().await;
    assert_eq!(stopped.elapsed(), Duration::ZERO);
}
