//! Reads of one object over TLS: by one client, and by 64 concurrent clients, each on its own connection; as
//! an admin with a certificate, and as a service account with a token.

use crate::account;
use crate::binary::Binary;
use crate::connection::{Connection, alone};
use crate::limits::{CONNECTIONS, REPEAT};
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::spread::Spread;
use crate::usage::processor_seconds;
use anyhow::ensure;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const OBJECT: &str = "/api/v1/namespaces/default";

/// Rate and latency of reads.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let server = Server::start_with(&binary, Storage::Memory, &["--components", "apiserver"]).await?;
    let mut measurements = Vec::new();
    let token = account::token(&server).await?;
    for (connections, token) in [(1, None), (CONNECTIONS, None), (CONNECTIONS, Some(token.as_str()))] {
        let (started, before) = (Instant::now(), processor_seconds(server.id()?)?);
        let latencies = match connections {
            1 => {
                let kubeconfig = server.kubeconfig.clone();
                alone(move || async move { read(Connection::open(&kubeconfig).await?).await }).await?
            }
            _ => read_concurrently(&server, connections, token).await?,
        };
        let rate = latencies.len() as f64 / started.elapsed().as_secs_f64();
        let cost = (processor_seconds(server.id()?)? - before) * 1e6 / latencies.len() as f64;
        let plural = if connections == 1 { "" } else { "s" };
        let by = if token.is_some() { ", with a service account's token" } else { "" };
        let what = format!("GET of one object, {connections} connection{plural}{by}");
        let measured = format!(
            "{rate:.0}/s ({}); the server's processor time: {cost:.1} µs each",
            Spread::of(latencies).latency()
        );
        measurements.push(Measurement::new(what, "", measured));
    }
    server.kill().await?;
    Ok(measurements)
}

/// Reads per second with [`CONNECTIONS`] clients.
pub(crate) async fn rate(binary: &Binary) -> anyhow::Result<f64> {
    rate_with(binary, &["--components", "apiserver"]).await
}

/// As [`rate`], of a server with these flags.
pub(crate) async fn rate_with(binary: &Binary, flags: &[&str]) -> anyhow::Result<f64> {
    let server = Server::start_with(binary, Storage::Memory, flags).await?;
    let started = Instant::now();
    let read = read_concurrently(&server, CONNECTIONS, None).await?.len();
    let rate = read as f64 / started.elapsed().as_secs_f64();
    server.kill().await?;
    Ok(rate)
}

/// Latencies of reads by this many concurrent clients, with the token if there is one.
async fn read_concurrently(
    server: &Server,
    connections: usize,
    token: Option<&str>,
) -> anyhow::Result<Vec<Duration>> {
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        clients.spawn(read(server.connect_with(token).await?));
    }
    let mut latencies = Vec::new();
    while let Some(client) = clients.join_next().await {
        latencies.append(&mut client??);
    }
    Ok(latencies)
}

/// Reads for a while. Returns the latency of each read.
async fn read(mut connection: Connection) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    let started = Instant::now();
    while started.elapsed() < REPEAT {
        let sent = Instant::now();
        let (status, _) = connection.get(OBJECT).await?;
        ensure!(status == 200, "{OBJECT}: {status}");
        latencies.push(sent.elapsed());
    }
    Ok(latencies)
}
