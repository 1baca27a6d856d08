//! A Deployment of 500 replicas, from its creation until its status says that all are ready, as a watch of it tells. Created
//! by kubectl where there is one (the time of kubectl's own start counts), and by one request.

use crate::binary::Binary;
use crate::figure::Figure;
use crate::limits::{REPLICAS, ROLLOUT_TIMEOUT, ROLLOUTS, SETTLE};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::{Context, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::Instant;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Who creates the Deployment.
#[derive(Clone, Copy)]
pub(crate) enum Creator {
    /// `kubectl create deployment`.
    Kubectl,
    /// One POST.
    Request,
}

/// The time from creation to readiness.
pub(crate) async fn measure(binary: Binary, storage: Storage) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (creator, name) in [(Creator::Kubectl, "`kubectl create deployment`"), (Creator::Request, "one POST")]
    {
        let what = format!("{REPLICAS} replicas ready after {name}, {}", storage.name());
        if matches!(creator, Creator::Kubectl) && !kubectl_is_there().await {
            figures.push(Figure::new(what, "≤ 1.5 s", "no kubectl here"));
            continue;
        }
        figures.push(Figure::new(what, "≤ 1.5 s", times(&binary, storage, creator).await?.to_string()));
    }
    Ok(figures)
}

/// How long [`ROLLOUTS`] rollouts took, each on a fresh server that was given time to settle.
pub(crate) async fn times(binary: &Binary, storage: Storage, creator: Creator) -> anyhow::Result<Spread> {
    let mut times = Vec::new();
    for _ in 0..ROLLOUTS {
        let server = Server::start(binary, storage).await?;
        tokio::time::sleep(SETTLE).await;
        let once = once(&server, creator);
        times.push(tokio::time::timeout(ROLLOUT_TIMEOUT, once).await.context("never ready")??);
        server.kill().await?;
    }
    Ok(Spread::of(times))
}

async fn once(server: &Server, creator: Creator) -> anyhow::Result<Duration> {
    let mut watch = server.connect().await?.stream(&format!("{DEPLOYMENTS}?watch=1")).await?;
    let mut connection = server.connect().await?;
    let started = Instant::now();
    match creator {
        Creator::Request => drop(connection.create(DEPLOYMENTS, deployment()).await?),
        Creator::Kubectl => {
            let replicas = format!("--replicas={REPLICAS}");
            let created = kubectl(&["create", "deployment", "many", "--image=nginx", &replicas])
                .env("KUBECONFIG", server.kubeconfig_path())
                .status();
            ensure!(created.await?.success(), "kubectl failed");
        }
    }
    loop {
        let line = watch.line().await?.context("the watch ended")?;
        let event: Value = serde_json::from_slice(&line)?;
        if event["object"]["status"]["readyReplicas"] == REPLICAS {
            return Ok(started.elapsed());
        }
    }
}

fn deployment() -> Bytes {
    let labels = json!({ "app": "many" });
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "many" },
        "spec": {
            "replicas": REPLICAS,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "nginx", "image": "nginx" }] },
            },
        },
    });
    Bytes::from(object.to_string())
}

async fn kubectl_is_there() -> bool {
    kubectl(&["version", "--client"]).status().await.is_ok_and(|status| status.success())
}

fn kubectl(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}
