//! One object read again and again over TLS: by one client, and by 64 at a time, each on a connection of its own.

use crate::binary::Binary;
use crate::connection::{Connection, alone};
use crate::figure::Figure;
use crate::limits::{CONNECTIONS, REPEAT};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::ensure;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const OBJECT: &str = "/api/v1/namespaces/default";

/// Rate and latency of reads.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start_with(&binary, Storage::Memory, &["--components", "apiserver"]).await?;
    let mut figures = Vec::new();
    for connections in [1, CONNECTIONS] {
        let started = Instant::now();
        let latencies = match connections {
            1 => {
                let kubeconfig = server.kubeconfig.clone();
                alone(move || async move { read(Connection::open(&kubeconfig).await?).await }).await?
            }
            _ => together(&server, connections).await?,
        };
        let rate = latencies.len() as f64 / started.elapsed().as_secs_f64();
        let plural = if connections == 1 { "" } else { "s" };
        let what = format!("GET of one object, {connections} connection{plural}");
        figures.push(Figure::new(what, "", format!("{rate:.0}/s ({})", Spread::of(latencies).latency())));
    }
    server.kill().await?;
    Ok(figures)
}

/// Reads per second with [`CONNECTIONS`] clients.
pub(crate) async fn rate(binary: &Binary) -> anyhow::Result<f64> {
    let server = Server::start_with(binary, Storage::Memory, &["--components", "apiserver"]).await?;
    let started = Instant::now();
    let read = together(&server, CONNECTIONS).await?.len();
    let rate = read as f64 / started.elapsed().as_secs_f64();
    server.kill().await?;
    Ok(rate)
}

/// So many clients at a time.
async fn together(server: &Server, connections: usize) -> anyhow::Result<Vec<Duration>> {
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        clients.spawn(read(server.connect().await?));
    }
    let mut latencies = Vec::new();
    while let Some(client) = clients.join_next().await {
        latencies.append(&mut client??);
    }
    Ok(latencies)
}

/// Reads for a while; gives back how long each took.
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
