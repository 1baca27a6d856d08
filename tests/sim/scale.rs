//! The number of commits that components cause, which is independent of speed. The benches measure times and
//! CPU time.

use kstore_tests::wait::is_ready;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

const NODES: usize = 60;

/// The `resourceVersion` of every object of a kind, by name.
async fn versions(cluster: &Cluster, plural: &str, namespace: &str) -> BTreeMap<String, String> {
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    let objects = cluster.list(plural, namespace).await;
    objects.iter().map(|object| (text(object, "name"), text(object, "resourceVersion"))).collect()
}

#[test]
fn idle_nodes_write_only_leases_under_their_own_users() {
    simulate(Setup::seed(31).nodes(NODES), async |cluster| {
        cluster
            .wait_until("all nodes are ready", async || {
                cluster.list("nodes", "").await.iter().filter(|node| is_ready(node)).count() == NODES
            })
            .await;
        // Taints, leases and events of the registration are written by then.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let nodes = versions(cluster, "nodes", "").await;
        let leases = versions(cluster, "leases", "kube-node-lease").await;
        let before = cluster.store().revision().0;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let commits = cluster.store().revision().0 - before;
        assert_eq!(nodes, versions(cluster, "nodes", "").await, "no node writes an unchanged status");
        let renewed = versions(cluster, "leases", "kube-node-lease").await;
        assert_eq!((leases.len(), renewed.len()), (NODES, NODES));
        assert!(leases.iter().all(|(name, version)| renewed[name] != *version), "each lease was renewed");
        // A transaction has one user, so each renewal is a commit. The apiserver renews its own lease as
        // well.
        let renewals = 2 * NODES as i64;
        assert!(
            (renewals - 5..=renewals + 10).contains(&commits),
            "{commits} commits for {renewals} renewals"
        );
    });
}

#[test]
fn a_set_of_more_pods_than_one_burst_becomes_ready_without_waiting_for_a_timer() {
    const REPLICAS: u32 = 510;
    simulate(Setup::seed(32), async |cluster| {
        cluster.create(manifests::deployment("web", REPLICAS)).await;
        let began = Instant::now();
        let complete = |deployment: &Value| deployment["status"]["readyReplicas"] == REPLICAS;
        cluster.wait_object("deployments", "web", "all replicas are ready", complete).await;
        // Virtual time stands still while a task is ready. The bursts themselves wait for no timer; there is
        // one rest, before the last status update.
        assert!(began.elapsed() <= Duration::from_millis(45), "{:?}", began.elapsed());
    });
}
