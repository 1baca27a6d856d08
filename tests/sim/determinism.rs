//! Determinism of the simulation: with one thread and virtual time, equal seeds give equal revisions, byte
//! for byte.

use kstore_client::DeleteParams;
use kstore_tests::{Change, Cluster, Setup, manifests, simulate};

/// Rolls out a Deployment, updates it, stops one of its nodes until the pods are evicted, and deletes it.
async fn run_deployment(cluster: &Cluster) -> Vec<Change> {
    cluster.create(manifests::deployment("web", 6)).await;
    cluster.wait_rolled_out("web").await;
    cluster.strategic("deployments", "web", manifests::image("nginx:2")).await;
    cluster.wait_rolled_out("web").await;

    let nodes = async || {
        let pods = cluster.list("pods", "default").await;
        let live = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        live.filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    // The seed decides which nodes have pods.
    let node = nodes().await.into_iter().min().expect("a Deployment that is rolled out has pods on nodes");
    cluster.nodes().stop_node(&node).await.unwrap();
    let there = async || nodes().await.iter().filter(|of| **of == node).count();
    cluster.wait_until("the node's pods are evicted", async || there().await == 0).await;
    cluster.wait_rolled_out("web").await;

    cluster.delete("deployments", "web", DeleteParams::default()).await;
    let gone = async || cluster.list("replicasets", "default").await.is_empty();
    cluster.wait_until("the ReplicaSets are collected", gone).await;
    cluster.nodes().resume_node(&node).await.unwrap();
    let gone = async || cluster.list("pods", "default").await.is_empty();
    cluster.wait_until("the pods have ended", gone).await;
    cluster.history()
}

#[test]
fn a_seed_determines_every_byte_of_every_revision() {
    let run = |seed| simulate(Setup::seed(seed).creates_initial_objects(), run_deployment);
    let (first, second, other) = (run(7), run(7), run(8));
    if let Some(at) = (0..first.len().max(second.len())).find(|at| first.get(*at) != second.get(*at)) {
        let from = at.saturating_sub(3);
        panic!(
            "the runs part at change {at} of {}/{}: after {:#?}\nfirst {:#?}\nsecond {:#?}",
            first.len(),
            second.len(),
            &first[from..at],
            first.get(at),
            second.get(at)
        );
    }
    assert_ne!(first, other, "another seed is another run");
    assert!(first.len() > 100, "a rollout leaves traces: {}", first.len());
}
