//! Thousands of pods, as large as real ones, for measurements of lists, watches and memory.

use crate::connection::Connection;
use crate::limits::CONNECTIONS;
use crate::process::Server;
use bytes::Bytes;
use serde_json::json;
use std::ops::Range;
use tokio::task::JoinSet;

/// Collection path of the pods.
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Number of nodes that pods are spread over.
pub(crate) const NODES: usize = 1000;

/// Creates `count` pods, over many connections.
pub(crate) async fn create(server: &Server, count: usize) -> anyhow::Result<()> {
    create_range(server, 0..count).await
}

/// Creates the pods with these numbers, over many connections.
pub(crate) async fn create_range(server: &Server, numbers: Range<usize>) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS {
        clients.spawn(share(server.connect().await?, client, numbers.clone()));
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

/// Creates one client's share of the pods.
async fn share(mut connection: Connection, client: usize, numbers: Range<usize>) -> anyhow::Result<()> {
    for index in numbers.skip(client).step_by(CONNECTIONS) {
        connection.create(PODS, pod(index)).await?;
    }
    Ok(())
}

/// The name of a pod.
pub(crate) fn name(index: usize) -> String {
    format!("web-7c5ddbdf54-{index:06}")
}

/// A pod of a Deployment, with two containers, probes, limits and a volume; the server stores about 2.3 KB.
pub(crate) fn pod(index: usize) -> Bytes {
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    let container = |name: &str| {
        json!({"name": name, "image": "registry.example.com/team/web:v1.14.2",
            "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": [{"containerPort": 8080}], "livenessProbe": probe, "readinessProbe": probe,
            "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]})
    };
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name(index), "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54"},
            "annotations": {"example.com/team": "payments"}},
        "spec": {"nodeName": node(index), "containers": [container("web"), container("proxy")],
            "volumes": [{"name": "data", "emptyDir": {}}]},
    });
    pod.to_string().into()
}

/// The node of a pod.
pub(crate) fn node(index: usize) -> String {
    format!("node-{:04}", index % NODES)
}
