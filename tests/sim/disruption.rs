//! Disruption budgets end to end: the counts of their controller, and the evictions that they allow.

use futures::future::join_all;
use kstore_client::{DeleteParams, Gvr, Patch, Propagation};
use kstore_kubelet_sim::behavior::Delay;
use kstore_tests::wait::{condition, is_ready};
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

/// Three nodes whose pods take five seconds to become ready.
fn setup(seed: u64) -> Setup {
    let mut setup = Setup::seed(seed);
    setup.kubelets.delays.ready = Delay::Fixed(Duration::from_secs(5));
    setup
}

async fn roll_out(cluster: &Cluster, replicas: u32) {
    cluster.create(manifests::deployment("web", replicas)).await;
    cluster.wait_rolled_out("web").await;
}

/// Creates the budget `web` for pods `app=web`.
async fn create_budget(cluster: &Cluster, mut spec: Value) {
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let metadata = json!({"name": "web"});
    let budget =
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec});
    cluster.create(budget).await;
}

/// Expected, desired, healthy and allowed counts.
fn counts(budget: &Value) -> [i64; 4] {
    ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
        .map(|field| budget["status"][field].as_i64().unwrap_or(-1))
}

async fn counted(cluster: &Cluster, wanted: [i64; 4]) -> Value {
    let what = format!("counts {wanted:?}");
    cluster.wait_object("poddisruptionbudgets", "web", &what, |budget| counts(budget) == wanted).await
}

/// Evicts a pod and returns the code of the answer.
async fn evict(cluster: &Cluster, pod: &str) -> u16 {
    let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}});
    let reply = cluster.rest().call_as("POST", &path, "application/json", body.to_string()).await;
    if reply.code == 429 {
        let why = "Cannot evict pod as it would violate the pod's disruption budget.";
        assert_eq!(reply.text("/message"), why);
    }
    reply.code
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Names of the pods that are not being deleted.
async fn live_pods(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.list("pods", "default").await;
    pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).map(name).collect()
}

async fn patch_status(cluster: &Cluster, plural: &str, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    cluster.resource(plural).patch("default", name, "status", &patch).await.unwrap();
}

fn seconds_since(cluster: &Cluster, start: jiff::Timestamp) -> i64 {
    cluster.nondet().clock.now().duration_since(start).as_secs()
}

#[test]
fn concurrent_evictions_never_exceed_the_budget() {
    simulate(setup(31), async |cluster| {
        roll_out(cluster, 3).await;
        create_budget(cluster, json!({"minAvailable": 2})).await;
        let budget = counted(cluster, [3, 2, 3, 1]).await;
        assert_eq!(condition(&budget, "DisruptionAllowed").unwrap()["reason"], "SufficientPods");
        assert_eq!(budget["status"]["observedGeneration"], 1);

        let pods = live_pods(cluster).await;
        let mut codes = join_all(pods.iter().map(|pod| evict(cluster, pod))).await;
        codes.sort_unstable();
        assert_eq!(codes, [201, 429, 429]);
        let budget = counted(cluster, [3, 2, 2, 0]).await;
        assert_eq!(condition(&budget, "DisruptionAllowed").unwrap()["reason"], "InsufficientPods");

        cluster.wait_rolled_out("web").await;
        let budget = counted(cluster, [3, 2, 3, 1]).await;
        assert!(budget["status"]["disruptedPods"].is_null(), "{budget}");
        assert_eq!(evict(cluster, &live_pods(cluster).await[0]).await, 201, "the replacement is ready");
    });
}

#[test]
fn a_drain_never_leaves_fewer_pods_than_the_budget_requires() {
    simulate(setup(32), async |cluster| {
        roll_out(cluster, 10).await;
        create_budget(cluster, json!({"minAvailable": "65%"})).await;
        counted(cluster, [10, 7, 10, 3]).await;
        let old = live_pods(cluster).await;
        let (fewest, gone) = (std::cell::Cell::new(usize::MAX), std::cell::Cell::new(0));
        // Evicts all pods after every change, as several concurrent drains would.
        let drained = async || {
            let live = live_pods(cluster).await;
            let left: Vec<_> = old.iter().filter(|pod| live.contains(pod)).collect();
            let codes = join_all(left.iter().map(|pod| evict(cluster, pod))).await;
            assert!(codes.iter().all(|code| [201, 429].contains(code)), "{codes:?}");
            gone.set(gone.get() + codes.iter().filter(|code| **code == 201).count());
            let pods = cluster.list("pods", "default").await;
            let healthy = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod);
            fewest.set(fewest.get().min(pods.iter().filter(healthy).count()));
            left.is_empty()
        };
        cluster.wait_until("all old pods are deleted", drained).await;
        assert_eq!((fewest.get(), gone.get()), (7, 10));
    });
}

#[test]
fn an_evicted_pod_that_stays_counts_again_after_two_minutes() {
    simulate(setup(33), async |cluster| {
        roll_out(cluster, 3).await;
        create_budget(cluster, json!({"maxUnavailable": 1})).await;
        counted(cluster, [3, 2, 3, 1]).await;
        let pod = live_pods(cluster).await.remove(0);
        let start = cluster.nondet().clock.now();
        let now = jiff::Timestamp::from_second(start.as_second()).unwrap().to_string();
        // The state left by an eviction that fails between charge and deletion; kstore commits both at once.
        let charged = json!({"disruptionsAllowed": 0, "disruptedPods": {&pod: now}});
        patch_status(cluster, "poddisruptionbudgets", "web", charged).await;
        let budget = counted(cluster, [3, 2, 2, 0]).await;
        assert!(budget["status"]["disruptedPods"][&pod].is_string(), "{budget}");

        let budget = counted(cluster, [3, 2, 3, 1]).await;
        assert!(budget["status"]["disruptedPods"].is_null(), "{budget}");
        let waited = seconds_since(cluster, start);
        assert!((119..=121).contains(&waited), "after {waited} s");
        let has_event = async || {
            let events = cluster.list("events", "default").await;
            events.iter().any(|e| e["reason"] == "NotDeleted" && e["involvedObject"]["name"] == pod)
        };
        cluster.wait_until("an event is recorded", has_event).await;
    });
}

#[test]
fn budgets_count_desired_replicas_and_not_current_ones() {
    simulate(setup(34), async |cluster| {
        roll_out(cluster, 4).await;
        create_budget(cluster, json!({"maxUnavailable": "30%"})).await;
        counted(cluster, [4, 2, 4, 2]).await;
        cluster.merge("deployments", "web", json!({"spec": {"replicas": 7}})).await;
        counted(cluster, [7, 4, 7, 3]).await;

        let mut set = manifests::deployment("web", 2);
        (set["kind"], set["metadata"]["name"]) = (json!("StatefulSet"), json!("db"));
        cluster.create(set).await;
        counted(cluster, [9, 6, 9, 3]).await;
        cluster.merge("statefulsets", "db", json!({"spec": {"replicas": 5}})).await;
        counted(cluster, [12, 8, 12, 4]).await;
        // Its pods then have no owner and still count as healthy.
        let orphan = DeleteParams::default().propagation(Propagation::Orphan);
        cluster.delete("statefulsets", "db", orphan).await;
        counted(cluster, [7, 4, 12, 8]).await;

        let mut agent = manifests::deployment("web", 1);
        (agent["kind"], agent["metadata"]["name"]) = (json!("DaemonSet"), json!("agent"));
        agent["spec"].as_object_mut().unwrap().retain(|field, _| field != "replicas");
        cluster.create(agent).await;
        let failed = |budget: &Value| {
            condition(budget, "DisruptionAllowed").is_some_and(|c| c["reason"] == "SyncFailed")
        };
        let budget = cluster.wait_object("poddisruptionbudgets", "web", "gives up", failed).await;
        let why = &condition(&budget, "DisruptionAllowed").unwrap()["message"];
        assert_eq!(why, "daemonsets.apps does not implement the scale subresource");
        let pods = live_pods(cluster).await;
        let running = pods.iter().find(|pod| pod.starts_with("web-")).unwrap();
        assert_eq!(evict(cluster, running).await, 429);
    });
}

#[test]
fn pods_outside_the_selector_or_deleted_are_not_counted() {
    simulate(setup(35), async |cluster| {
        create_budget(cluster, json!({"minAvailable": 1})).await;
        counted(cluster, [0, 1, 0, 0]).await;
        for pod in ["a", "b", "c"] {
            let mut pod = manifests::pod(pod, json!({}));
            pod["metadata"]["labels"]["app"] = json!("web");
            cluster.create(pod).await;
        }
        counted(cluster, [3, 1, 3, 2]).await;
        cluster.merge("pods", "a", json!({"metadata": {"labels": {"app": "else"}}})).await;
        counted(cluster, [2, 1, 2, 1]).await;
        cluster.delete("pods", "b", Default::default()).await;
        counted(cluster, [1, 1, 1, 0]).await;
        cluster.merge("poddisruptionbudgets", "web", json!({"spec": {"minAvailable": 0}})).await;
        let budget = counted(cluster, [1, 0, 1, 1]).await;
        assert_eq!(budget["status"]["observedGeneration"], 2);
        assert_eq!(evict(cluster, "c").await, 201);
        counted(cluster, [0, 0, 0, 0]).await;
    });
}

#[test]
fn a_stale_disruption_target_condition_is_reset_after_two_minutes() {
    simulate(setup(36), async |cluster| {
        cluster.create(manifests::pod("web", json!({}))).await;
        let pod = cluster.wait_ready("web").await;
        let start = cluster.nondet().clock.now();
        let mut conditions = pod["status"]["conditions"].as_array().unwrap().clone();
        let now = jiff::Timestamp::from_second(start.as_second()).unwrap().to_string();
        conditions
            .push(json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": "", "lastTransitionTime": now}));
        patch_status(cluster, "pods", "web", json!({ "conditions": conditions })).await;
        let unmarked =
            |pod: &Value| condition(pod, "DisruptionTarget").is_some_and(|c| c["status"] == "False");
        let pod = cluster.wait_object("pods", "web", "says that it stays", unmarked).await;
        let waited = seconds_since(cluster, start);
        assert!((119..=121).contains(&waited), "after {waited} s");
        assert!(is_ready(&pod), "{pod}");
    });
}

#[test]
fn a_budget_counts_the_scale_of_a_custom_kind() {
    simulate(setup(36), async |cluster| {
        let replicas = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gangs.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "gangs", "kind": "Gang"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": replicas, "status": replicas}}},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas"}}}]}});
        cluster.create(definition).await;
        let gangs = cluster.client().dynamic(Gvr::new("example.com", "v1", "gangs"));
        let gang = json!({"apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": "g"}, "spec": {"replicas": 4}});
        let gang = gangs.create("default", &gang).await.unwrap();
        let owner = json!([{"apiVersion": "example.com/v1", "kind": "Gang", "name": "g", "uid": gang["metadata"]["uid"],
            "controller": true}]);
        let member = |name: &str| {
            let mut pod = manifests::pod(name, json!({"containers": [{"name": "c", "image": "i"}]}));
            pod["metadata"]["labels"] = json!({"app": "web"});
            pod["metadata"]["ownerReferences"] = owner.clone();
            pod
        };
        for name in ["g-0", "g-1", "g-2"] {
            cluster.create(member(name)).await;
        }
        create_budget(cluster, json!({"maxUnavailable": "50%"})).await;
        counted(cluster, [4, 2, 3, 1]).await;
        assert_eq!(evict(cluster, "g-0").await, 201);
        assert_eq!(evict(cluster, "g-1").await, 429);

        // Once the owner has gone, its pods are nobody's.
        let orphan = DeleteParams::default().propagation(Propagation::Orphan);
        gangs.delete("default", "g", &orphan).await.unwrap();
        counted(cluster, [0, 0, 2, 0]).await;
    });
}
