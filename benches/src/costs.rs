//! The cost of clusters with many nodes and pods, stage by stage: elapsed time, and of the server's process,
//! per node or pod, CPU time, commits and wake-ups.

use crate::binary::Binary;
use crate::controllers::deployment;
use crate::cost_meter::{Cost, CostMeter};
use crate::limits::{COSTS_TIMEOUT, IDLE, SETTLE};
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use anyhow::Context;
use serde_json::Value;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/many";
const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";

/// The size of a cluster, with the bounds of its times.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub nodes: usize,
    pub replicas: usize,
    pub storage: Storage,
    /// Bounds of the times: nodes registered, share of a core at rest, replicas ready, replicas deleted.
    pub bounds: [&'static str; 4],
}

/// As many nodes as the largest supported Kubernetes cluster.
pub(crate) const LARGE: Size =
    Size {
        nodes: 5000, replicas: 10_000, storage: Storage::Memory, bounds: ["≤ 3 s", "≤ 5 %", "≤ 8 s", ""]
    };

/// Many pods on few nodes.
pub(crate) fn dense(storage: Storage) -> Size {
    Size {
        nodes: 100, replicas: 5000, storage, bounds: ["", "", "≤ 4 s", "≤ 3 s, and the pods' own 0.3 s"]
    }
}

/// Processor time of the server per pod, in seconds.
pub(crate) struct PodCosts {
    /// Until the pods are ready, with the events that follow.
    pub ready: f64,
    /// Until the pods are gone.
    pub deleted: f64,
}

/// Measures what the pods of a cluster of this size cost.
pub(crate) async fn pods(binary: &Binary, size: Size) -> anyhow::Result<PodCosts> {
    let Stages { ready, after, deleted, .. } = run(binary, size).await?;
    let each = |total: f64| total / size.replicas as f64;
    Ok(PodCosts { ready: each(ready.processor + after.processor), deleted: each(deleted.processor) })
}

/// Starts a cluster of this size and takes it through its stages.
async fn run(binary: &Binary, size: Size) -> anyhow::Result<Stages> {
    let server = Server::start_with(binary, size.storage, &["--nodes", &size.nodes.to_string()]).await?;
    let staged = stages(&server, size);
    let stages =
        tokio::time::timeout(COSTS_TIMEOUT, staged).await.context("the cluster never got there")??;
    server.kill().await?;
    Ok(stages)
}

/// Measures the stages of a cluster of this size.
pub(crate) async fn measure(binary: Binary, size: Size) -> anyhow::Result<Vec<Measurement>> {
    let Size { nodes, replicas, storage, bounds } = size;
    let stages = run(&binary, size).await?;
    let of = format!("on {nodes} nodes, {}", storage.name());
    let [registered, idle, ready, deleted] = bounds;
    let rest = stages.idle.processor / IDLE.as_secs_f64() * 100.0;
    Ok(vec![
        Measurement::new(
            format!("{nodes} nodes ready after the start, {}", storage.name()),
            registered,
            stages.registered.describe(nodes, "node"),
        ),
        Measurement::new(
            format!("{nodes} nodes at rest, {}", storage.name()),
            idle,
            format!("{rest:.1} % of a core; {}", stages.idle.describe_at_rest(nodes)),
        ),
        Measurement::new(
            format!("{replicas} replicas ready {of}"),
            ready,
            stages.ready.describe(replicas, "pod"),
        ),
        Measurement::new(
            format!("the events of these, after that, {of}"),
            "",
            stages.after.describe(replicas, "pod"),
        ),
        Measurement::new(
            format!("{replicas} pods deleted with their Deployment {of}"),
            deleted,
            stages.deleted.describe(replicas, "pod"),
        ),
    ])
}

struct Stages {
    registered: Cost,
    idle: Cost,
    ready: Cost,
    after: Cost,
    deleted: Cost,
}

async fn stages(server: &Server, size: Size) -> anyhow::Result<Stages> {
    let Size { nodes, replicas, .. } = size;
    let mut meter = CostMeter::of_start(server).await?;
    meter.until(NODES, |count| count >= nodes).await?;
    let registered = meter.stage().await?;
    tokio::time::sleep(SETTLE).await;
    meter.stage().await?;
    tokio::time::sleep(IDLE).await;
    let idle = meter.stage().await?;
    let mut watch = server.connect().await?.stream(&format!("{DEPLOYMENTS}?watch=1")).await?;
    meter.connection.create(DEPLOYMENTS, deployment("many", replicas)).await?;
    loop {
        let line = watch.line().await?.context("the watch ended")?;
        let event: Value = serde_json::from_slice(&line)?;
        if event["object"]["status"]["readyReplicas"] == replicas {
            break;
        }
    }
    drop(watch);
    let ready = meter.stage().await?;
    tokio::time::sleep(SETTLE).await;
    let after = meter.stage().await?;
    meter.connection.delete(&format!("{DEPLOYMENT}?propagationPolicy=Background")).await?;
    meter.until(PODS, |count| count == 0).await?;
    let deleted = meter.stage().await?;
    Ok(Stages { registered, idle, ready, after, deleted })
}
