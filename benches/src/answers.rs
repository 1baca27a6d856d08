//! Questions about the place of pods: `explain` of a decision, and `what-if`, in a cluster with thousands of nodes.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::limits::{ASKED_NODES, ASKED_PODS, EXPLAINED_PODS, LISTS, NEW_PODS, ROLLOUT_TIMEOUT};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::Instant;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Times of answers, with the start of the command.
pub(crate) struct Answers {
    /// `explain --placement` of a pod, the first time.
    pub(crate) explained: Duration,
    /// The median of further ones, of other pods.
    pub(crate) explained_again: Duration,
    /// `what-if` with a Deployment of [`NEW_PODS`] pods, median.
    pub(crate) asked: Duration,
}

/// Fills a cluster of [`ASKED_NODES`] nodes with [`ASKED_PODS`] pods and asks.
pub(crate) async fn answers(binary: &Binary, storage: Storage) -> anyhow::Result<Answers> {
    let nodes = ASKED_NODES.to_string();
    let server = Server::start_with(binary, storage, &["--nodes", &nodes, "--history", "all"]).await?;
    let mut connection = server.connect().await?;
    connection.create(DEPLOYMENTS, deployment("many", ASKED_PODS).into()).await?;
    scheduled(&mut connection, "many", ASKED_PODS).await?;
    let pods = some_pods(&mut connection).await?;
    let mut explained = Vec::new();
    for pod in &pods {
        let name = format!("pod/{pod}");
        explained.push(run(binary, &server, &["explain", &name, "--placement"], &[0]).await?);
    }
    let first = explained.remove(0);
    let file = tempfile::NamedTempFile::with_suffix(".yaml")?;
    std::fs::write(file.path(), deployment("new", NEW_PODS))?;
    let path = file.path().display().to_string();
    let mut asked = Vec::new();
    for _ in 0..LISTS.div_ceil(4) {
        // 1 says that something is pending.
        asked.push(run(binary, &server, &["what-if", "-f", &path], &[0, 1]).await?);
    }
    server.kill().await?;
    let median = |times: Vec<Duration>| Spread::of(times).quantile(0.5);
    Ok(Answers { explained: first, explained_again: median(explained), asked: median(asked) })
}

fn deployment(name: &str, replicas: usize) -> String {
    let container =
        json!({"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}})
    .to_string()
}

/// Waits until all replicas of a Deployment are ready.
async fn scheduled(connection: &mut Connection, name: &str, replicas: usize) -> anyhow::Result<()> {
    let ready = async {
        loop {
            let object: Value = read(connection, &format!("{DEPLOYMENTS}/{name}")).await?;
            if object["status"]["readyReplicas"] == replicas {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(2 * ROLLOUT_TIMEOUT, ready).await.context("never ready")?
}

/// Names of [`EXPLAINED_PODS`] pods, which were decided on at different times.
async fn some_pods(connection: &mut Connection) -> anyhow::Result<Vec<String>> {
    let list: Value =
        read(connection, &format!("/api/v1/namespaces/default/pods?limit={EXPLAINED_PODS}")).await?;
    let items = list["items"].as_array().context("no list")?;
    let names: Vec<String> =
        items.iter().filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned())).collect();
    ensure!(names.len() == EXPLAINED_PODS, "{} pods", names.len());
    Ok(names)
}

async fn read(connection: &mut Connection, path: &str) -> anyhow::Result<Value> {
    let (status, body) = connection.get(path).await?;
    ensure!(status == 200, "{path}: {status}");
    Ok(serde_json::from_slice(&body)?)
}

/// The time of a command, whose exit code is one of `codes`.
async fn run(
    binary: &Binary,
    server: &Server,
    arguments: &[&str],
    codes: &[i32],
) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut command = Command::new(binary.path());
    command.args(arguments).env("KUBECONFIG", server.kubeconfig_path());
    let output = command.stdin(Stdio::null()).output().await?;
    let is_expected = output.status.code().is_some_and(|code| codes.contains(&code));
    ensure!(
        is_expected,
        "{arguments:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(started.elapsed())
}
