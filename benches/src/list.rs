//! All of 10 000 pods in one answer, as JSON over TLS. Nothing else runs in that server: the pods stay unscheduled.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::figure::Figure;
use crate::limits::{CONNECTIONS, LIST_PODS, LISTS};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::ensure;
use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The latency of a large list.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start_with(&binary, Storage::Memory, &["--components", "apiserver"]).await?;
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS {
        clients.spawn(fill(server.connect().await?, client));
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let mut connection = server.connect().await?;
    let mut latencies = Vec::new();
    let mut bytes = 0;
    for _ in 0..LISTS {
        let sent = Instant::now();
        let (status, body) = connection.get(PODS).await?;
        ensure!(status == 200, "{PODS}: {status}");
        latencies.push(sent.elapsed());
        bytes = body.len();
    }
    server.kill().await?;
    let what = format!("LIST of {LIST_PODS} pods ({:.1} MB of JSON)", bytes as f64 / 1e6);
    Ok(vec![Figure::new(what, "", Spread::of(latencies).to_string())])
}

/// This client's part of the pods.
async fn fill(mut connection: Connection, client: usize) -> anyhow::Result<()> {
    for index in (client..LIST_PODS).step_by(CONNECTIONS) {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": format!("pod-{index:05}"), "labels": { "app": "many" } },
            "spec": { "containers": [{ "name": "nginx", "image": "nginx" }] },
        });
        connection.create(PODS, Bytes::from(pod.to_string())).await?;
    }
    Ok(())
}
