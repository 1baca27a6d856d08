//! Scores end to end: the scheduler prefers nodes for the sake of other pods.

use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};

async fn node_of(cluster: &Cluster, name: &str) -> String {
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let pod = cluster.wait_object("pods", name, "it runs", is_running).await;
    pod["spec"]["nodeName"].as_str().unwrap().to_owned()
}

/// Two nodes: one with the pod `first`, the other with a pod that takes most of it. Returns their names.
async fn uneven_nodes(cluster: &Cluster) -> (String, String) {
    cluster.wait_until("all nodes exist", async || cluster.list("nodes", "").await.len() == 2).await;
    cluster.create(manifests::pod("first", json!({}))).await;
    let first = node_of(cluster, "first").await;
    let nodes = cluster.list("nodes", "").await;
    let names = nodes.iter().map(|node| node["metadata"]["name"].as_str().unwrap().to_owned());
    let full = names.into_iter().find(|name| *name != first).unwrap();
    let containers = json!([{"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "3"}}}]);
    cluster.create(manifests::pod("large", json!({"containers": containers, "nodeName": full}))).await;
    node_of(cluster, "large").await;
    (first, full)
}

fn setup(seed: u64) -> Setup {
    let mut setup = Setup::seed(seed).nodes(2);
    setup.kubelets.cpu = "4".to_owned();
    setup
}

#[test]
fn a_pod_goes_to_the_emptier_node() {
    simulate(setup(191), async |cluster| {
        let (first, _) = uneven_nodes(cluster).await;
        cluster.create(manifests::pod("second", json!({}))).await;
        assert_eq!(node_of(cluster, "second").await, first);
    });
}

#[test]
fn preferred_anti_affinity_outweighs_free_resources() {
    simulate(setup(192), async |cluster| {
        let (_, full) = uneven_nodes(cluster).await;
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "first"}}});
        let affinity = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 10, "podAffinityTerm": term}]}});
        cluster.create(manifests::pod("second", json!({"affinity": affinity}))).await;
        assert_eq!(node_of(cluster, "second").await, full);
    });
}

#[test]
fn pods_of_a_service_are_spread_over_nodes_by_default() {
    simulate(setup(193), async |cluster| {
        let (_, full) = uneven_nodes(cluster).await;
        cluster
            .create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                "spec": {"selector": {"tier": "web"}, "ports": [{"port": 80}]}}))
            .await;
        let labels = json!({"metadata": {"labels": {"tier": "web"}}});
        cluster.merge("pods", "first", labels).await;
        let mut second = manifests::pod("second", json!({}));
        second["metadata"]["labels"]["tier"] = "web".into();
        cluster.create(second).await;
        assert_eq!(node_of(cluster, "second").await, full);
    });
}
