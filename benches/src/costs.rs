//! The cost of clusters with many nodes and pods, stage by stage: elapsed time, and of the server's process,
//! per node or pod, CPU time, commits and wake-ups. CPU time and counts are reliable on a busy machine;
//! elapsed times are not.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::limits::{COSTS_POLL, COSTS_TIMEOUT, IDLE, SETTLE};
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::spread::Short;
use crate::usage::{processor_seconds, wakeups};
use anyhow::{Context, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

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

/// Measures the stages of a cluster of this size.
pub(crate) async fn measure(binary: Binary, size: Size) -> anyhow::Result<Vec<Measurement>> {
    let Size { nodes, replicas, storage, bounds } = size;
    let server = Server::start_with(&binary, storage, &["--nodes", &nodes.to_string()]).await?;
    let staged = stages(&server, size);
    let stages =
        tokio::time::timeout(COSTS_TIMEOUT, staged).await.context("the cluster never got there")??;
    server.kill().await?;
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
    meter.connection.create(DEPLOYMENTS, deployment(replicas)).await?;
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

/// The cost of one stage.
struct Cost {
    time: Duration,
    /// CPU time of all threads, in seconds.
    processor: f64,
    commits: u64,
    /// How often a thread of the process was woken after it had blocked.
    wakeups: u64,
}

impl Cost {
    fn describe(&self, count: usize, unit: &str) -> String {
        let each = |total: f64| total / count as f64;
        format!(
            "{}; per {unit} {:.0} µs of processor time, {:.2} commits, {:.2} wake-ups",
            Short(self.time),
            each(self.processor) * 1e6,
            each(self.commits as f64),
            each(self.wakeups as f64),
        )
    }

    fn describe_at_rest(&self, nodes: usize) -> String {
        let seconds = self.time.as_secs_f64();
        format!(
            "{:.0} µs of processor time a second and node, {:.1} commits and {:.0} wake-ups a second",
            self.processor * 1e6 / seconds / nodes as f64,
            self.commits as f64 / seconds,
            self.wakeups as f64 / seconds,
        )
    }
}

/// Measures the usage since the last reading.
struct CostMeter {
    process: u32,
    connection: Connection,
    since: Instant,
    processor: f64,
    revision: u64,
    wakeups: u64,
}

impl CostMeter {
    /// Starts at the start of the process.
    async fn of_start(server: &Server) -> anyhow::Result<Self> {
        let (process, connection) = (server.id()?, server.connect().await?);
        let since = Instant::now() - server.ready_after;
        Ok(Self { process, connection, since, processor: 0.0, revision: 0, wakeups: 0 })
    }

    /// Returns the cost of the ending stage and begins the next one.
    async fn stage(&mut self) -> anyhow::Result<Cost> {
        let (time, processor, wakeups) =
            (self.since.elapsed(), processor_seconds(self.process)?, wakeups(self.process)?);
        let revision = revision(&mut self.connection).await?;
        let cost = Cost {
            time,
            processor: processor - self.processor,
            commits: revision.saturating_sub(self.revision),
            wakeups: wakeups.saturating_sub(self.wakeups),
        };
        (self.since, self.processor, self.revision, self.wakeups) =
            (Instant::now(), processor, revision, wakeups);
        Ok(cost)
    }

    /// Polls the number of objects under `path` until it is enough.
    async fn until(&mut self, path: &str, is_enough: impl Fn(usize) -> bool) -> anyhow::Result<()> {
        while !is_enough(count(&mut self.connection, path).await?) {
            tokio::time::sleep(COSTS_POLL).await;
        }
        Ok(())
    }
}

/// The number of objects, from a list of one of them.
async fn count(connection: &mut Connection, path: &str) -> anyhow::Result<usize> {
    let list = read(connection, &format!("{path}?limit=1")).await?;
    let shown = list["items"].as_array().map_or(0, Vec::len);
    let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    Ok(shown + usize::try_from(more)?)
}

async fn revision(connection: &mut Connection) -> anyhow::Result<u64> {
    let list = read(connection, "/api/v1/namespaces?limit=1").await?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list without a revision")?;
    Ok(revision.parse()?)
}

async fn read(connection: &mut Connection, path: &str) -> anyhow::Result<Value> {
    let (status, body) = connection.get(path).await?;
    ensure!(status == 200, "{path}: {status}");
    Ok(serde_json::from_slice(&body)?)
}

fn deployment(replicas: usize) -> Bytes {
    let labels = json!({ "app": "many" });
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "many" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "nginx", "image": "nginx" }] },
            },
        },
    });
    Bytes::from(object.to_string())
}
