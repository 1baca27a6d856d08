//! Creates of 1 KiB ConfigMaps over TLS: rate with one client that waits for each answer, and with 64
//! clients. On disk a create is synced before its answer, so that one client observes the disk's latency, and
//! 64 share syncs.

use crate::account;
use crate::binary::Binary;
use crate::connection::{Connection, alone};
use crate::limits::{CONNECTIONS, REPEAT, TURNS, VALUE_BYTES};
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::spread::Spread;
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Collection path of the ConfigMaps.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Rate and latency of creates in a whole cluster, whose controllers watch them.
pub(crate) async fn measure(binary: Binary, storage: Storage) -> anyhow::Result<Vec<Measurement>> {
    let server = Server::start(&binary, storage).await?;
    let measurements = vec![one(&server, storage.name()).await?, many(&server, storage.name()).await?];
    server.kill().await?;
    Ok(measurements)
}

/// Rate and latency on disk, for an apiserver without controllers.
pub(crate) async fn measure_alone(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let server = Server::start_with(&binary, Storage::Disk, &["--components", "apiserver"]).await?;
    let storage = format!("{}, apiserver alone", Storage::Disk.name());
    let measurements = vec![one(&server, &storage).await?, many(&server, &storage).await?];
    server.kill().await?;
    Ok(measurements)
}

/// Rate and latency in memory, under a quota that every create is charged to.
pub(crate) async fn measure_under_quota(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
    let server = Server::start(&binary, Storage::Memory).await?;
    let spec = json!({ "hard": { "count/configmaps": "1000000000" } });
    let quota =
        json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q" }, "spec": spec });
    let mut connection = server.connect().await?;
    connection.create(QUOTAS, Bytes::from(quota.to_string())).await?;
    let is_in_force = |quota: &serde_json::Value| quota["status"]["used"].is_object();
    while !is_in_force(&serde_json::from_slice(&connection.get(&format!("{QUOTAS}/q")).await?.1)?) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let measurements = vec![many(&server, &format!("{}, under a quota", Storage::Memory.name())).await?];
    server.kill().await?;
    Ok(measurements)
}

async fn one(server: &Server, storage: &str) -> anyhow::Result<Measurement> {
    let kubeconfig = server.kubeconfig.clone();
    let started = Instant::now();
    let client = move || async move { create(Connection::open(&kubeconfig).await?, "c1".into()).await };
    let latencies = alone(client).await?;
    Ok(measurement("1 connection", storage, latencies, started.elapsed()))
}

async fn many(server: &Server, storage: &str) -> anyhow::Result<Measurement> {
    let started = Instant::now();
    let latencies = create_concurrently(server, "many", None).await?;
    Ok(measurement(&format!("{CONNECTIONS} connections"), storage, latencies, started.elapsed()))
}

fn measurement(clients: &str, storage: &str, latencies: Vec<Duration>, took: Duration) -> Measurement {
    let rate = latencies.len() as f64 / took.as_secs_f64();
    let measured = format!("{rate:.0}/s ({})", Spread::of(latencies).latency());
    Measurement::new(format!("creates of 1 KiB ConfigMaps, {clients}, {storage}"), "", measured)
}

/// Creates per second with [`CONNECTIONS`] clients on a whole cluster.
pub(crate) async fn rate(binary: &Binary, storage: Storage) -> anyhow::Result<f64> {
    let server = Server::start(binary, storage).await?;
    let started = Instant::now();
    let created = create_concurrently(&server, "c", None).await?.len();
    let rate = created as f64 / started.elapsed().as_secs_f64();
    server.kill().await?;
    Ok(rate)
}

/// Creates with a service account's token relative to creates with a certificate, in turns on one server,
/// with [`CONNECTIONS`] clients.
pub(crate) async fn with_token(binary: &Binary) -> anyhow::Result<f64> {
    let server = Server::start(binary, Storage::Memory).await?;
    let token = account::token(&server).await?;
    let (mut by_certificate, mut by_token) = (0, 0);
    for round in 0..TURNS {
        by_certificate += create_concurrently(&server, &format!("certificate{round}"), None).await?.len();
        by_token += create_concurrently(&server, &format!("token{round}"), Some(&token)).await?.len();
    }
    server.kill().await?;
    Ok(by_token as f64 / by_certificate as f64)
}

/// Creates with [`CONNECTIONS`] concurrent clients, with the token if there is one.
pub(crate) async fn create_concurrently(
    server: &Server,
    prefix: &str,
    token: Option<&str>,
) -> anyhow::Result<Vec<Duration>> {
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS {
        clients.spawn(create(server.connect_with(token).await?, format!("{prefix}-{client}")));
    }
    let mut latencies = Vec::new();
    while let Some(client) = clients.join_next().await {
        latencies.append(&mut client??);
    }
    Ok(latencies)
}

/// Creates one object after the other for a while. Returns the latencies.
async fn create(mut connection: Connection, prefix: String) -> anyhow::Result<Vec<Duration>> {
    let value = "x".repeat(VALUE_BYTES);
    let mut latencies = Vec::new();
    let started = Instant::now();
    while started.elapsed() < REPEAT {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": format!("{prefix}-{}", latencies.len()) },
            "data": { "value": value },
        });
        let sent = Instant::now();
        connection.create(CONFIG_MAPS, Bytes::from(object.to_string())).await?;
        latencies.push(sent.elapsed());
    }
    Ok(latencies)
}
