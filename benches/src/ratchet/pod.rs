//! A pod's whole way, from the creation by a controller to Ready, in a cluster with all components.

use super::virtual_time::{SEED, in_virtual_time};
use kstore_testing::Cluster;
use serde_json::json;

/// A Deployment with this number of replicas on three nodes, until all are ready.
pub(super) fn run(replicas: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let cluster = Cluster::builder().virtual_time(SEED).nodes(3).start().await;
        cluster.settled().await?;
        let labels = json!({"app": "web"});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}});
        cluster.apply(&deployment.to_string()).await?;
        let is_ready = json!({"status": {"readyReplicas": replicas}});
        let deployments = ("apps", "v1", "deployments");
        cluster.wait_for(deployments, "default", "web", &is_ready).await?;
        Ok(())
    })
}
