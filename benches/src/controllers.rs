//! What controllers cost: the end of a full namespace, a cascade of owned objects, settled Deployments, one
//! change beside many unrelated pods, and the loss of many nodes at once.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::cost_meter::CostMeter;
use crate::limits::{
    CASCADE_OBJECTS, CONNECTIONS, COSTS_TIMEOUT, IDLE, LOST_NODES, LOST_PODS_PER_NODE, NAMESPACE_PODS,
    SCALINGS, SETTLE, SETTLED_DEPLOYMENTS, UNRELATED_PODS,
};
use crate::measurement::Measurement;
use crate::pods;
use crate::process::{Server, Storage};
use crate::spread::{Short, Spread};
use crate::usage::processor_seconds;
use crate::writes::CONFIG_MAPS;
use anyhow::Context;
use bytes::Bytes;
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::Instant;

const NAMESPACES: &str = "/api/v1/namespaces";
const NODES: &str = "/api/v1/nodes";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// All measurements of this file, each on a server of its own.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let mut measurements = vec![namespace(&binary).await?, cascade(&binary).await?, settled(&binary).await?];
    measurements.extend(unrelated(&binary).await?);
    Ok(measurements)
}

/// Runs a measurement with a time limit, so that a cluster that hangs ends it.
async fn limited<T>(measured: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(COSTS_TIMEOUT, measured).await.context("the cluster never got there")?
}

/// Deletion of a namespace with running pods of one Deployment, on simulated nodes.
async fn namespace(binary: &Binary) -> anyhow::Result<Measurement> {
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/full/deployments";
    let server = Server::start_with(binary, Storage::Memory, &["--nodes", "200"]).await?;
    let cost = limited(async {
        let mut meter = CostMeter::of_start(&server).await?;
        meter.connection.create(NAMESPACES, object("v1", "Namespace", "full", json!({}))).await?;
        meter.connection.create(DEPLOYMENTS, deployment("many", NAMESPACE_PODS)).await?;
        ready(&server, DEPLOYMENTS, NAMESPACE_PODS).await?;
        tokio::time::sleep(SETTLE).await;
        meter.stage().await?;
        meter.connection.delete(&format!("{NAMESPACES}/full")).await?;
        let named = format!("{NAMESPACES}?fieldSelector=metadata.name=full&");
        meter.until(&named, |count| count == 0).await?;
        meter.stage().await
    });
    let cost = cost.await?;
    server.kill().await?;
    let what = format!("a namespace with {NAMESPACE_PODS} running pods deleted, in memory");
    Ok(Measurement::new(what, "≤ 5 s", cost.describe(NAMESPACE_PODS, "pod")))
}

/// Deletion of an object that owns many others, until the last one is collected.
async fn cascade(binary: &Binary) -> anyhow::Result<Measurement> {
    let server = Server::start(binary, Storage::Memory).await?;
    let cost = limited(async {
        let mut meter = CostMeter::of_start(&server).await?;
        let owner = object("v1", "ConfigMap", "owner", json!({}));
        let owner: Value = serde_json::from_slice(&meter.connection.create(CONFIG_MAPS, owner).await?)?;
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
            "uid": owner["metadata"]["uid"]});
        create_owned(&server, reference).await?;
        tokio::time::sleep(SETTLE).await;
        meter.stage().await?;
        meter.connection.delete(&format!("{CONFIG_MAPS}/owner")).await?;
        let owned = format!("{CONFIG_MAPS}?labelSelector=owned&");
        meter.until(&owned, |count| count == 0).await?;
        meter.stage().await
    });
    let cost = cost.await?;
    server.kill().await?;
    let what = format!("a cascade of {CASCADE_OBJECTS} owned ConfigMaps, in memory");
    Ok(Measurement::new(what, "≤ 5 s", cost.describe(CASCADE_OBJECTS, "object")))
}

/// Creates the dependents of the cascade, over many connections.
async fn create_owned(server: &Server, reference: Value) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS {
        let (mut connection, reference) = (server.connect().await?, reference.clone());
        clients.spawn(async move {
            for index in (client..CASCADE_OBJECTS).step_by(CONNECTIONS) {
                let metadata = json!({"name": format!("owned-{index}"), "labels": {"owned": ""},
                    "ownerReferences": [reference]});
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
                connection.create(CONFIG_MAPS, Bytes::from(object.to_string())).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

/// CPU usage of a cluster whose Deployments have settled.
async fn settled(binary: &Binary) -> anyhow::Result<Measurement> {
    let server = Server::start_with(binary, Storage::Memory, &["--nodes", "20"]).await?;
    let cost = limited(async {
        let mut meter = CostMeter::of_start(&server).await?;
        for index in 0..SETTLED_DEPLOYMENTS {
            meter.connection.create(DEPLOYMENTS, deployment(&format!("web-{index}"), 1)).await?;
        }
        // Lists with a selector do not say how many objects remain, so all pods are counted.
        meter.until("/api/v1/pods", |count| count >= SETTLED_DEPLOYMENTS).await?;
        tokio::time::sleep(SETTLE).await;
        meter.stage().await?;
        tokio::time::sleep(IDLE).await;
        meter.stage().await
    });
    let cost = cost.await?;
    server.kill().await?;
    let share = cost.processor / IDLE.as_secs_f64() * 100.0;
    let commits = cost.commits as f64 / IDLE.as_secs_f64();
    let measured = format!("{share:.2} % of a core, {commits:.1} commits a second");
    let what = format!("{SETTLED_DEPLOYMENTS} settled Deployments on 20 nodes at rest");
    Ok(Measurement::new(what, "< 1 % of a core", measured))
}

/// Scaling of one Deployment beside growing numbers of pods that it does not own: time until its status shows
/// the change, and CPU time of the server.
async fn unrelated(binary: &Binary) -> anyhow::Result<Vec<Measurement>> {
    const ALONE: &[&str] = &["--components", "apiserver,controllers", "--controllers=deployment,replicaset"];
    let server = Server::start_with(binary, Storage::Memory, ALONE).await?;
    server.connect().await?.create(DEPLOYMENTS, deployment("scaled", 0)).await?;
    let (mut measurements, mut existing) = (Vec::new(), 0);
    for count in UNRELATED_PODS {
        pods::create_range(&server, existing..count).await?;
        existing = count;
        tokio::time::sleep(SETTLE).await;
        // The server closes connections that are idle while pods are created.
        let mut connection = server.connect().await?;
        let before = processor_seconds(server.id()?)?;
        let times = limited(scalings(&server, &mut connection)).await?;
        let each = (processor_seconds(server.id()?)? - before) / times.len() as f64;
        let measured = format!("{}; {:.0} µs of processor time", Spread::of(times), each * 1e6);
        let what = format!("a Deployment scaled by one pod beside {count} unrelated pods");
        measurements.push(Measurement::new(what, "the same beside any number", measured));
    }
    server.kill().await?;
    Ok(measurements)
}

/// Times of [`SCALINGS`] changes of the number of replicas, each until the status shows it.
async fn scalings(server: &Server, connection: &mut Connection) -> anyhow::Result<Vec<Duration>> {
    let path = format!("{DEPLOYMENTS}/scaled");
    let mut watch = server.connect().await?.stream(&format!("{DEPLOYMENTS}?watch=1")).await?;
    let mut times = Vec::new();
    for round in 0..SCALINGS {
        let replicas = (round + 1) % 2;
        let started = Instant::now();
        connection.patch(&path, json!({"spec": {"replicas": replicas}}).to_string().into()).await?;
        loop {
            let line = watch.line().await?.context("the watch ended")?;
            let object = &serde_json::from_slice::<Value>(&line)?["object"];
            let is_observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let shown = object["status"]["replicas"].as_u64().unwrap_or(0);
            if object["spec"]["replicas"] == replicas && is_observed && shown == replicas as u64 {
                break;
            }
        }
        times.push(started.elapsed());
    }
    Ok(times)
}

/// The loss of all nodes of another process, until every node is NotReady: for two sizes, whose CPU time per
/// node should be equal. Nearly all of the time is the grace period of Kubernetes.
pub(crate) async fn lost_nodes(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for nodes in LOST_NODES {
        measurements.push(limited(lose(&binary, nodes)).await?);
    }
    Ok(measurements)
}

async fn lose(binary: &Binary, nodes: usize) -> anyhow::Result<Measurement> {
    const ALONE: &[&str] = &["--components", "apiserver,controllers,scheduler"];
    let server = Server::start_with(binary, Storage::Memory, ALONE).await?;
    let mut kubelets = Command::new(binary.path());
    kubelets.args(["--components", "kubelet-sim", "--nodes", &nodes.to_string(), "--kubeconfig"]);
    kubelets.arg(server.kubeconfig_path()).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let mut kubelets = kubelets.spawn().context("cannot start the nodes")?;
    let mut meter = CostMeter::of_start(&server).await?;
    meter.until(NODES, |count| count >= nodes).await?;
    let replicas = nodes * LOST_PODS_PER_NODE;
    meter.connection.create(DEPLOYMENTS, deployment("many", replicas)).await?;
    ready(&server, DEPLOYMENTS, replicas).await?;
    tokio::time::sleep(SETTLE).await;
    let mut watch = server.connect().await?.stream(&format!("{NODES}?watch=1")).await?;
    meter.stage().await?;
    kubelets.kill().await.context("cannot end the nodes")?;
    let (mut lost, mut first) = (std::collections::BTreeSet::new(), None);
    while lost.len() < nodes {
        let line = watch.line().await?.context("the watch ended")?;
        let node = &serde_json::from_slice::<Value>(&line)?["object"];
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let is_lost = conditions.into_iter().any(|of| of["type"] == "Ready" && of["status"] == "Unknown");
        if is_lost {
            first.get_or_insert_with(Instant::now);
            lost.insert(node["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    let spread = first.map_or(Duration::ZERO, |first| first.elapsed());
    tokio::time::sleep(SETTLE).await;
    // The server closes connections that are idle for as long as the grace period.
    meter.connection = server.connect().await?;
    let cost = meter.stage().await?;
    server.kill().await?;
    let what =
        format!("{nodes} nodes with {replicas} pods lost at once: from the first NotReady to the last");
    let measured =
        format!("{}; until {} s later: {}", Short(spread), SETTLE.as_secs(), cost.describe(nodes, "node"));
    Ok(Measurement::new(what, "linear", measured))
}

/// Waits until the one Deployment of a collection has this number of ready replicas.
async fn ready(server: &Server, deployments: &str, replicas: usize) -> anyhow::Result<()> {
    let mut watch = server.connect().await?.stream(&format!("{deployments}?watch=1")).await?;
    loop {
        let line = watch.line().await?.context("the watch ended")?;
        let event: Value = serde_json::from_slice(&line)?;
        if event["object"]["status"]["readyReplicas"] == replicas {
            return Ok(());
        }
    }
}

/// A Deployment of this name.
pub(crate) fn deployment(name: &str, replicas: usize) -> Bytes {
    let labels = json!({ "app": name });
    let containers = json!([{ "name": "nginx", "image": "nginx" }]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
    object("apps/v1", "Deployment", name, json!({ "spec": spec }))
}

/// An object with these members beside its kind and name.
fn object(api_version: &str, kind: &str, name: &str, mut members: Value) -> Bytes {
    members["apiVersion"] = json!(api_version);
    members["kind"] = json!(kind);
    members["metadata"] = json!({ "name": name });
    Bytes::from(members.to_string())
}
