//! Races between controllers and clients, in many task orders. Each seed permutes the order in which the
//! cluster's tasks run ([`Setup::permuted`]), so that a failure is reproduced by its seed:
//! `KSTORE_TEST_SCHEDULE=SEED`. A seed costs a whole cluster's lifetime, so a test run tries a few;
//! `KSTORE_TEST_SCHEDULES=COUNT` sets the number.

use kstore_client::{Client, DeleteParams, Propagation};
use kstore_cluster::Component;
use kstore_registry::user::UserInfo;
use kstore_tests::wait::rolled_out;
use kstore_tests::{Change, Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Default number of seeds.
const SCHEDULES: u64 = 12;
/// Environment variable with the number of seeds.
const COUNT: &str = "KSTORE_TEST_SCHEDULES";
/// Environment variable with the only seed to run.
const SCHEDULE: &str = "KSTORE_TEST_SCHEDULE";
/// Number of concurrent clusters, each on its own thread.
const THREADS: usize = 2;
/// Number of dependents of the owner that is deleted with orphaning.
const ORPHANS: usize = 4;
/// Time limit, in virtual time, for a ReplicaSet to have its pods after a change makes them acceptable. Its
/// back-off is longer.
const REPAIRED_WITHIN: Duration = Duration::from_secs(10);

/// Rolls out a deployment, changes it before it is complete, and scales it.
async fn rollout(cluster: &Cluster) {
    cluster.create(manifests::deployment("web", 2)).await;
    cluster.strategic("deployments", "web", manifests::image("nginx:2")).await;
    cluster.merge("deployments", "web", json!({"spec": {"replicas": 3}})).await;
    cluster.wait_rolled_out("web").await;
}

/// Deletes an owner with orphaning while its dependents change.
async fn orphaning(cluster: &Cluster) {
    let owner = cluster.create(manifests::config_map("parent", "1")).await;
    for number in 0..ORPHANS {
        let mut child = manifests::config_map(&format!("child-{number}"), "1");
        child["metadata"]["ownerReferences"] = reference(&owner, "v1", "ConfigMap", false);
        cluster.create(child).await;
    }
    let params = DeleteParams::default().propagation(Propagation::Orphan);
    let changes = async {
        for number in 0..ORPHANS {
            cluster.merge("configmaps", &format!("child-{number}"), json!({"data": {"value": "2"}})).await;
        }
    };
    futures::join!(cluster.delete("configmaps", "parent", params), changes);
    let is_gone = async || cluster.get("configmaps", "default", "parent").await.is_none();
    cluster.wait_until("the owner is deleted", is_gone).await;
}

/// Deletes a namespace while clients create objects in it.
async fn racing_creations(cluster: &Cluster) {
    cluster.create(manifests::namespace("doomed")).await;
    let create = async |client: usize| {
        for number in 0.. {
            let mut object = manifests::config_map(&format!("racing-{client}-{number}"), "1");
            object["metadata"]["namespace"] = json!("doomed");
            if cluster.try_create(object).await.is_err() {
                return;
            }
        }
    };
    let delete = async {
        cluster.resource("namespaces").delete("", "doomed", &DeleteParams::default()).await.unwrap();
    };
    futures::join!(create(0), create(1), delete);
    let is_gone = async || cluster.get("namespaces", "", "doomed").await.is_none();
    cluster.wait_until("the namespace is deleted", is_gone).await;
}

/// Moves a pod from one ReplicaSet to another and deletes it at once: both must observe it.
async fn owner_move(cluster: &Cluster) {
    for (name, replicas) in [("from", 1), ("to", 0)] {
        cluster.create(replica_set(name, replicas, "default")).await;
    }
    cluster.wait_object("replicasets", "from", "has its pod", |set| set["status"]["replicas"] == 1).await;
    let to = cluster.get("replicasets", "default", "to").await.unwrap();
    let pods = cluster.list("pods", "default").await;
    let pod = pods.iter().find(|pod| pod["metadata"]["labels"]["app"] == "from").unwrap();
    let name = pod["metadata"]["name"].as_str().unwrap();
    let references = reference(&to, "apps/v1", "ReplicaSet", true);
    let moved = json!({"metadata": {"labels": {"app": "to"}, "ownerReferences": references}});
    cluster.merge("pods", name, moved).await;
    // The controllers may have deleted it first: the other owner wants no pods.
    let _ = cluster.resource("pods").delete("default", name, &DeleteParams::default().grace(0)).await;
    let is_whole = |set: &Value| set["status"]["readyReplicas"] == 1 && set["status"]["replicas"] == 1;
    cluster.wait_object("replicasets", "from", "has a replacement of the moved pod", is_whole).await;
}

/// Lets pods of a ReplicaSet be refused until its key has a long back-off, then makes them acceptable.
async fn new_cause_in_back_off(cluster: &Cluster) {
    cluster.create(replica_set("late", 1, "missing")).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let repaired = json!({"spec": {"template": {"spec": {"serviceAccountName": "default"}}}});
    cluster.merge("replicasets", "late", repaired).await;
    let has_pod =
        cluster.wait_object("replicasets", "late", "has its pod", |set| set["status"]["replicas"] == 1);
    tokio::time::timeout(REPAIRED_WITHIN, has_pod).await.expect("a new cause ends the back-off");
}

/// Collects pods on a missing node while a client deletes one of them.
async fn pods_of_a_missing_node(cluster: &Cluster) {
    const PODS: usize = 4;
    let name = |number: usize| format!("stray-{number}");
    for number in 0..PODS {
        cluster.create(manifests::pod(&name(number), json!({"nodeName": "missing"}))).await;
    }
    let left = async || {
        let pods = cluster.list("pods", "default").await;
        pods.iter().filter(|pod| pod["spec"]["nodeName"] == "missing").count()
    };
    cluster.wait_until("the collector removes pods of a missing node", async || left().await < PODS).await;
    // The pod may be deleted already.
    let (pods, params) = (cluster.resource("pods"), DeleteParams::default().grace(0));
    let _ = pods.delete("default", &name(PODS - 1), &params).await;
    cluster.wait_until("the pods of the missing node are deleted", async || left().await == 0).await;
}

fn reference(owner: &Value, api_version: &str, kind: &str, controls: bool) -> Value {
    let (name, uid) = (&owner["metadata"]["name"], &owner["metadata"]["uid"]);
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": controls}])
}

fn replica_set(name: &str, replicas: u32, account: &str) -> Value {
    let mut set = manifests::deployment(name, replicas);
    set["kind"] = json!("ReplicaSet");
    set["spec"]["template"]["spec"]["serviceAccountName"] = json!(account);
    set
}

/// Whether a change concerns the objects of these races, and not Lease renewals, Events or node status.
fn is_relevant(change: &Change) -> bool {
    !["/registry/leases/", "/registry/events/", "/registry/minions/"]
        .iter()
        .any(|kind| change.key.starts_with(kind))
}

/// Checks that no object was created in the namespace after its deletion, and that none is left.
fn check_namespace(history: &[Change]) {
    let end = history.iter().rposition(|change| change.key == "/registry/namespaces/doomed").unwrap();
    assert!(history[end].value.is_none(), "the namespace ends with its deletion");
    let late = history[end..].iter().find(|change| change.key.contains("/doomed/"));
    assert!(late.is_none(), "{late:?} after the end of its namespace");
}

/// Checks that the owner was deleted only after each dependent lost its reference, and that no dependent was
/// deleted.
fn check_orphans(history: &[Change]) {
    let end = history.iter().rposition(|change| change.key == "/registry/configmaps/default/parent").unwrap();
    for number in 0..ORPHANS {
        let key = format!("/registry/configmaps/default/child-{number}");
        let of_child = |change: &&Change| change.key == key;
        assert!(history.iter().filter(of_child).all(|change| change.value.is_some()), "{key} was deleted");
        let before = history[..end].iter().rfind(of_child).unwrap().value.clone().unwrap();
        let before: Value = serde_json::from_slice(&before).unwrap();
        let references = before["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
        assert_eq!(references, 0, "{key} has its owner when that is deleted");
    }
}

/// Checks that the controllers are done: new ones that start with only the current state find nothing to
/// write.
async fn check_fixpoint(cluster: &Cluster) {
    const SETTLED: Duration = Duration::from_secs(45);
    tokio::time::sleep(SETTLED).await;
    let before = cluster.history().len();
    let api = cluster.apiserver().in_process(UserInfo::new("system:kube-controller-manager", None::<&str>));
    let client = Client::over(api.clone(), "others").with_feed(move |request| api.watch(request));
    let (root_ca, accounts) = ("test CA".to_owned(), cluster.accounts());
    let config = kstore_controllers::Config { root_ca, accounts, ..Default::default() };
    let stop = CancellationToken::new();
    let controllers = Component::controllers(config, client, cluster.nondet());
    let others = tokio::spawn(controllers.work(None, stop.clone()));
    tokio::time::sleep(SETTLED).await;
    stop.cancel();
    others.await.unwrap();
    let history = cluster.history();
    let written: Vec<&Change> = history[before..].iter().filter(|change| is_relevant(change)).collect();
    assert!(written.is_empty(), "the controllers had left work undone: {written:#?}");
    let web = cluster.get("deployments", "default", "web").await.unwrap();
    assert!(rolled_out(&web), "{web}");
}

/// Runs all races at once, in the task order of one seed.
fn race(seed: u64) -> Vec<Change> {
    simulate(Setup::seed(seed).nodes(2).permuted(), async |cluster| {
        futures::join!(
            rollout(cluster),
            orphaning(cluster),
            racing_creations(cluster),
            owner_move(cluster),
            new_cause_in_back_off(cluster),
            pods_of_a_missing_node(cluster),
        );
        check_fixpoint(cluster).await;
        let history = cluster.history();
        check_namespace(&history);
        check_orphans(&history);
        history
    })
}

#[test]
fn racing_components_reach_the_same_fixpoint_in_every_task_order() {
    let number = |variable: &str| std::env::var(variable).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number(SCHEDULE) {
        race(seed);
        return;
    }
    let (count, next) = (number(COUNT).unwrap_or(SCHEDULES), AtomicU64::new(1));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > count {
                return;
            }
            let done = std::panic::catch_unwind(|| race(seed));
            assert!(done.is_ok(), "the races fail with {SCHEDULE}={seed}");
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
}

#[test]
fn a_seed_determines_the_task_order_and_every_change() {
    let (first, second, other) = (race(7), race(7), race(8));
    assert!(first == second, "the same seed gives the same history");
    let keys = |history: &[Change]| history.iter().map(|change| change.key.clone()).collect::<Vec<_>>();
    assert_ne!(keys(&first), keys(&other), "another seed gives another order");
}
