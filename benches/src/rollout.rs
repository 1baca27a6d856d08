//! Rollout of a Deployment of 500 replicas, from its creation until a watch shows a status with all replicas
//! ready. Created by kubectl where it is installed (including kubectl's own start), and by one request.

use crate::binary::Binary;
use crate::controllers::deployment;
use crate::limits::{REPLICAS, ROLLOUT_TIMEOUT, ROLLOUTS, SETTLE};
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::{Context, ensure};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::Instant;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// The client that creates the Deployment.
#[derive(Clone, Copy)]
pub(crate) enum Creator {
    /// `kubectl create deployment`.
    Kubectl,
    /// One POST.
    Request,
}

/// Time from creation to readiness.
pub(crate) async fn measure(binary: Binary, storage: Storage) -> anyhow::Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for (creator, name) in [(Creator::Kubectl, "`kubectl create deployment`"), (Creator::Request, "one POST")]
    {
        let what = format!("{REPLICAS} replicas ready after {name}, {}", storage.name());
        if matches!(creator, Creator::Kubectl) && !is_kubectl_installed().await {
            measurements.push(Measurement::new(what, "≤ 1.5 s", "no kubectl here"));
            continue;
        }
        measurements.push(Measurement::new(
            what,
            "≤ 1.5 s",
            times(&binary, storage, creator).await?.to_string(),
        ));
    }
    Ok(measurements)
}

/// Times of [`ROLLOUTS`] rollouts, each on a fresh, settled server.
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
        Creator::Request => drop(connection.create(DEPLOYMENTS, deployment("many", REPLICAS)).await?),
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

async fn is_kubectl_installed() -> bool {
    kubectl(&["version", "--client"]).status().await.is_ok_and(|status| status.success())
}

fn kubectl(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}
