//! What the loops cost the store, in commits: how much they write, not how fast. Times and processor time are measured by the
//! benches.

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
fn idle_nodes_write_nothing_but_leases_each_as_its_own_user() {
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
        assert_eq!(
            nodes,
            versions(cluster, "nodes", "").await,
            "no node posts a status that tells nothing new"
        );
        let renewed = versions(cluster, "leases", "kube-node-lease").await;
        assert_eq!((leases.len(), renewed.len()), (NODES, NODES));
        assert!(leases.iter().all(|(name, version)| renewed[name] != *version), "each lease was renewed");
        // A transaction has one user: each renewal is a commit. Beside them the apiserver renews its own lease.
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
        // Virtual time stands still while anything can be done.
        // One rest, before the last report; the bursts themselves do not wait for any.
        assert!(began.elapsed() <= Duration::from_millis(45), "{:?}", began.elapsed());
    });
}
