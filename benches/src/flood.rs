//! A modest client beside another that floods the server with requests over many connections: the 99th
//! percentile of the modest client's reads alone, beside the flood, and beside the same flood without priority
//! and fairness. Both clients are service accounts, so they share a priority level and are two of its flows.
//! The load runs on the same machine: part of the slowdown is the flood's own processor time as a client. The
//! modest client has a thread and a runtime of its own, since it would otherwise wait for the flood's tasks.

use crate::account;
use crate::binary::Binary;
use crate::connection::Connection;
use crate::limits::{FLOOD_CONNECTIONS, FLOOD_OBJECTS, MODEST_PAUSE, MODEST_REPEAT};
use crate::measurement::Measurement;
use crate::pods::{self, PODS};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::ensure;
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const OBJECT: &str = "/api/v1/namespaces/default";
const UNFAIR: &str = "--enable-priority-and-fairness=false";

/// What the flood requests: its name, and its path.
const FLOODS: [(&str, &str); 2] = [("lists of 1,000 pods", PODS), ("reads of one object", OBJECT)];

/// Latencies of the modest client, alone and beside the flood, and the flood's own rate.
struct Slowdown {
    alone: Spread,
    beside: Spread,
    flood_rate: f64,
}

impl Slowdown {
    /// How many times the 99th percentile is beside the flood.
    fn factor(&self) -> f64 {
        self.beside.quantile(0.99).as_secs_f64() / self.alone.quantile(0.99).as_secs_f64()
    }
}

/// All floods, with and without priority and fairness.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for (name, path) in FLOODS {
        for (what, flags) in [("", &[][..]), (", without priority and fairness", &[UNFAIR][..])] {
            let measured = slowdown(&binary, path, flags).await?;
            let ms = |spread: &Spread| spread.quantile(0.99).as_secs_f64() * 1e3;
            let text = format!(
                "p99 {:.2} ms alone, {:.2} ms beside {:.0}/s of the flood: {:.1} times",
                ms(&measured.alone),
                ms(&measured.beside),
                measured.flood_rate,
                measured.factor()
            );
            let what = format!("GET beside a flood of {name} over {FLOOD_CONNECTIONS} connections{what}");
            measurements.push(Measurement::new(what, "", text));
        }
    }
    Ok(measurements)
}

async fn slowdown(binary: &Binary, path: &'static str, flags: &[&str]) -> anyhow::Result<Slowdown> {
    let flags = [&["--components", "apiserver"], flags].concat();
    let server = Server::start_with(binary, Storage::Memory, &flags).await?;
    pods::create(&server, FLOOD_OBJECTS).await?;
    let (modest, greedy) =
        (account::token_of(&server, "modest").await?, account::token_of(&server, "greedy").await?);
    let alone = read(&server, &modest).await?;
    let answered = Arc::new(AtomicU64::new(0));
    let mut flood = JoinSet::new();
    for _ in 0..FLOOD_CONNECTIONS {
        let (connection, answered) = (server.connect_with(Some(&greedy)).await?, answered.clone());
        flood.spawn(request_forever(connection, path, answered));
    }
    sleep(Duration::from_secs(1)).await;
    let (began, before) = (Instant::now(), answered.load(Ordering::Relaxed));
    let beside = read(&server, &modest).await?;
    let flood_rate = (answered.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    flood.shutdown().await;
    server.kill().await?;
    Ok(Slowdown { alone: Spread::of(alone), beside: Spread::of(beside), flood_rate })
}

/// Reads one object again and again, with pauses, on a thread of its own. Returns the latencies.
async fn read(server: &Server, token: &str) -> anyhow::Result<Vec<Duration>> {
    let (kubeconfig, token) = (server.kubeconfig.clone(), token.to_owned());
    let thread = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut connection = Connection::open_with_token(&kubeconfig, &token).await?;
            let (mut latencies, began) = (Vec::new(), Instant::now());
            while began.elapsed() < MODEST_REPEAT {
                let sent = Instant::now();
                let (status, _) = connection.get(OBJECT).await?;
                ensure!(status == StatusCode::OK, "{OBJECT}: {status}");
                latencies.push(sent.elapsed());
                sleep(MODEST_PAUSE).await;
            }
            Ok(latencies)
        })
    });
    thread.await?
}

async fn request_forever(mut connection: Connection, path: &'static str, answered: Arc<AtomicU64>) {
    while let Ok((status, _)) = connection.get(path).await {
        match status {
            StatusCode::OK => drop(answered.fetch_add(1, Ordering::Relaxed)),
            // The server states a second; a flood does not wait as long.
            _ => sleep(MODEST_PAUSE).await,
        }
    }
}
