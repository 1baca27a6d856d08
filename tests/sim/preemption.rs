//! Preemption end to end: pods of high priority get room, and only as many pods as necessary lose theirs.

use kstore_client::DeleteParams;
use kstore_tests::wait::condition;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

/// Nodes of four cores each.
fn setup(seed: u64, nodes: usize) -> Setup {
    let mut setup = Setup::seed(seed).nodes(nodes);
    setup.kubelets.cpu = "4".to_owned();
    setup
}

/// Creates the priority classes of these tests.
async fn create_classes(cluster: &Cluster) {
    for (name, value, policy) in [
        ("low", 10, "PreemptLowerPriority"),
        ("high", 1000, "PreemptLowerPriority"),
        ("patient", 1000, "Never"),
    ] {
        cluster
            .create(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value, "preemptionPolicy": policy}))
            .await;
    }
    cluster.wait_until("all nodes exist", async || !cluster.list("nodes", "").await.is_empty()).await;
}

fn pod(name: &str, class: &str, cpu: &str) -> Value {
    let containers = json!([{"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": cpu}}}]);
    manifests::pod(name, json!({"priorityClassName": class, "containers": containers}))
}

/// Waits until the pod runs and returns its node.
async fn running(cluster: &Cluster, name: &str) -> String {
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let pod = cluster.wait_object("pods", name, "it runs", is_running).await;
    pod["spec"]["nodeName"].as_str().unwrap().to_owned()
}

async fn create_running(cluster: &Cluster, pod: Value) -> String {
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.create(pod).await;
    running(cluster, &name).await
}

async fn exists(cluster: &Cluster, name: &str) -> bool {
    cluster.get("pods", "default", name).await.is_some()
}

/// The events with this reason.
async fn events(cluster: &Cluster, reason: &str) -> Vec<Value> {
    let mut events = cluster.list("events", "default").await;
    events.retain(|event| event["reason"] == reason);
    events
}

/// Names and versions of all pods and of the events about them.
async fn versions(cluster: &Cluster) -> Vec<String> {
    let mut objects = cluster.list("pods", "default").await;
    objects.extend(cluster.list("events", "default").await);
    let text =
        |object: &Value| format!("{} {}", object["metadata"]["name"], object["metadata"]["resourceVersion"]);
    objects.iter().map(text).collect()
}

#[test]
fn a_pod_of_high_priority_evicts_the_least_important_pod_and_runs_in_its_place() {
    let setup = setup(181, 1);
    let metrics = setup.kubelets.metrics.clone();
    simulate(setup, async |cluster| {
        create_classes(cluster).await;
        let node = create_running(cluster, pod("first", "low", "1900m")).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        // The finalizer keeps the victim readable.
        let mut second = pod("second", "low", "1900m");
        second["metadata"]["finalizers"] = json!(["example.com/keep"]);
        create_running(cluster, second).await;
        let high = cluster.create(pod("high", "high", "1500m")).await;
        assert_eq!(running(cluster, "high").await, node);
        assert_eq!(running(cluster, "first").await, node, "the pod that started first stays");
        let victim = cluster.get("pods", "default", "second").await.expect("the finalizer keeps it");
        assert!(victim["metadata"]["deletionTimestamp"].is_string());
        let target = condition(&victim, "DisruptionTarget").expect("the scheduler says why");
        assert_eq!((&target["status"], &target["reason"]), (&json!("True"), &json!("PreemptionByScheduler")));
        let message = "default-scheduler: preempting to accommodate a higher priority pod";
        assert_eq!(target["message"], message);
        let events = events(cluster, "Preempted").await;
        assert_eq!(events.len(), 1);
        let uid = high["metadata"]["uid"].as_str().unwrap();
        assert_eq!(events[0]["message"], format!("Preempted by pod {uid} on node {node}"));
        assert_eq!(
            (&events[0]["involvedObject"]["name"], &events[0]["related"]["name"]),
            (&json!("second"), &json!("high"))
        );
        let bound = cluster.get("pods", "default", "high").await.unwrap();
        assert_eq!(bound["status"]["nominatedNodeName"], Value::Null, "the bind ends the nomination");

        let mut page = String::new();
        metrics.render(&mut page);
        for text in ["\nscheduler_preemption_attempts_total ", "\nscheduler_preemption_victims_sum 1\n"] {
            assert!(page.contains(text), "{text} is in {page}");
        }

        let trace = "/kstore/v1/trace?resource=pods&namespace=default&name=high";
        let trace = cluster.rest().call("GET", trace, "").await.json().to_string();
        assert!(trace.contains("pods/default/second"), "the preemptor is the cause of the eviction: {trace}");

        let before = versions(cluster).await;
        tokio::time::sleep(Duration::from_secs(1200)).await;
        assert_eq!(versions(cluster).await, before, "the cluster has settled");
    });
}

#[test]
fn a_waiting_preemptor_is_nominated_and_its_room_is_kept() {
    let mut setup = setup(182, 1);
    setup.kubelets.delays.stop = kstore_kubelet_sim::behavior::Delay::Fixed(Duration::from_secs(20));
    simulate(setup, async |cluster| {
        create_classes(cluster).await;
        let node = create_running(cluster, pod("victim", "low", "3500m")).await;
        cluster.create(pod("high", "high", "3500m")).await;
        let is_nominated = |pod: &Value| pod["status"]["nominatedNodeName"] == node;
        let waiting = cluster.wait_object("pods", "high", "it is nominated", is_nominated).await;
        let scheduled = condition(&waiting, "PodScheduled").unwrap();
        assert_eq!(scheduled["reason"], "Unschedulable");
        cluster.create(pod("other", "high", "3500m")).await;
        assert_eq!(running(cluster, "high").await, node);
        assert!(!exists(cluster, "victim").await);
        let other = cluster.get("pods", "default", "other").await.unwrap();
        assert_eq!(other["spec"]["nodeName"], Value::Null);
        assert_eq!(events(cluster, "Preempted").await.len(), 1);
    });
}

#[test]
fn a_disruption_budget_turns_the_eviction_to_another_node() {
    simulate(setup(183, 2), async |cluster| {
        create_classes(cluster).await;
        let guarded = create_running(cluster, pod("guarded", "low", "3")).await;
        // It starts last and would be the victim without the budget.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let other = create_running(cluster, pod("other", "low", "3")).await;
        assert_ne!(guarded, other);
        cluster
            .create(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "other"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "other"}}}}))
            .await;
        let counted = |budget: &Value| budget["status"]["currentHealthy"] == 1;
        cluster.wait_object("poddisruptionbudgets", "other", "its pod is healthy", counted).await;
        assert_eq!(create_running(cluster, pod("high", "high", "3")).await, guarded);
        assert!(exists(cluster, "other").await && !exists(cluster, "guarded").await);
    });
}

#[test]
fn a_pod_that_must_not_preempt_waits() {
    simulate(setup(184, 1), async |cluster| {
        create_classes(cluster).await;
        create_running(cluster, pod("low", "low", "3")).await;
        cluster.create(pod("patient", "patient", "3")).await;
        let message = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
        let refused =
            |pod: &Value| condition(pod, "PodScheduled").is_some_and(|one| one["message"] == message);
        cluster.wait_object("pods", "patient", "it is refused", refused).await;
        tokio::time::sleep(Duration::from_secs(900)).await;
        assert!(exists(cluster, "low").await);
        cluster.delete("pods", "low", DeleteParams::default()).await;
        running(cluster, "patient").await;
    });
}

#[test]
fn no_pod_is_evicted_if_a_node_has_room() {
    simulate(setup(185, 2), async |cluster| {
        create_classes(cluster).await;
        let node = create_running(cluster, pod("low", "low", "3")).await;
        assert_ne!(create_running(cluster, pod("high", "high", "3")).await, node);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(exists(cluster, "low").await);
        assert!(events(cluster, "Preempted").await.is_empty());
    });
}
