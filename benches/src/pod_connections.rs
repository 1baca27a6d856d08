//! Connections between simulated pods: by the address of a pod, by that of a Service, and by a port of the node. A server of a pod makes
//! them one after the other, each with a small request, so that a figure is that of a connection with an answer.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::limits::POD_CONNECTIONS;
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
/// Services beside the one that is asked: a connection must not look at them.
const OTHERS: usize = 1000;
/// How long a pod may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// A pause in which the namespace earns the work of its next connections.
const PAUSE: Duration = Duration::from_secs(2);
/// Measurements of each kind.
const TIMES: usize = 7;

/// The time of a connection of each kind.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let server = Server::start_with(&binary, Storage::Memory, &["--nodes", "1"]).await?;
    let mut client = server.connect().await?;
    for name in ["asked", "asks"] {
        client.create(PODS, pod(name)).await?;
    }
    for number in 0..OTHERS {
        client.create(SERVICES, service(&format!("other-{number}"), "ClusterIP")).await?;
    }
    let made = client.create(SERVICES, service("asked", "NodePort")).await?;
    let made: Value = serde_json::from_slice(&made)?;
    let asked = ready(&mut client, "asked").await?;
    ready(&mut client, "asks").await?;
    has_endpoint(&mut client).await?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("an address");
    let node_port = made["spec"]["ports"][0]["nodePort"].as_u64().context("a port of nodes")?;
    let targets = [
        ("a pod's address", text(&asked["status"]["podIP"])?, 8080),
        ("a Service's address", text(&made["spec"]["clusterIP"])?, 80),
        ("a node's port", text(&asked["status"]["hostIP"])?, node_port),
    ];
    let mut measurements = Vec::new();
    for (kind, host, port) in targets {
        let mut each = Vec::new();
        for _ in 0..TIMES {
            sleep(PAUSE).await;
            let one = dial(&mut client, (&host, port), 1).await?;
            let all = dial(&mut client, (&host, port), POD_CONNECTIONS + 1).await?;
            each.push(all.saturating_sub(one) / u32::try_from(POD_CONNECTIONS)?);
        }
        let what =
            format!("connection between simulated pods with a request, by {kind}, beside {OTHERS} Services");
        measurements.push(Measurement::new(what, "", Spread::of(each).latency()));
    }
    server.kill().await?;
    Ok(measurements)
}

fn pod(name: &str) -> bytes::Bytes {
    let container = json!({"name": "c", "image": "agnhost", "args": ["netexec"]});
    let metadata = json!({"name": name, "labels": {"app": name}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
        .to_string()
        .into()
}

fn service(name: &str, kind: &str) -> bytes::Bytes {
    let ports = json!([{"port": 80, "targetPort": 8080}]);
    let spec = json!({"type": kind, "selector": {"app": name}, "ports": ports});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
        .to_string()
        .into()
}

/// Waits until a pod is ready.
async fn ready(client: &mut Connection, name: &str) -> anyhow::Result<Value> {
    let begin = Instant::now();
    loop {
        let pod: Value = serde_json::from_slice(&client.get(&format!("{PODS}/{name}")).await?.1)?;
        if pod["status"]["containerStatuses"][0]["ready"] == true {
            return Ok(pod);
        }
        ensure!(begin.elapsed() < PATIENCE, "{name} is not ready: {}", pod["status"]);
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the Service `asked` has an endpoint.
async fn has_endpoint(client: &mut Connection) -> anyhow::Result<()> {
    let begin = Instant::now();
    let path = format!("{SLICES}?labelSelector=kubernetes.io/service-name%3Dasked");
    loop {
        let slices: Value = serde_json::from_slice(&client.get(&path).await?.1)?;
        if slices["items"][0]["endpoints"][0]["conditions"]["ready"] == true {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "the Service has no endpoint");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The time of a request that lets a pod connect to a target this many times.
async fn dial(client: &mut Connection, target: (&str, u64), times: usize) -> anyhow::Result<Duration> {
    let (host, port) = target;
    let query = format!("host={host}&port={port}&request=hostname&tries={times}");
    let begin = Instant::now();
    let (_, body) = client.get(&format!("{PODS}/asks:8080/proxy/dial?{query}")).await?;
    let took = begin.elapsed();
    let answer: Value = serde_json::from_slice(&body)?;
    let answers = answer["responses"].as_array().map_or(0, Vec::len);
    ensure!(answers == times, "{answers} of {times} connections were answered: {answer}");
    Ok(took)
}
