//! Measures a load on both servers: alternating runs, each on a fresh server, and the median of each.

use super::limits::{COUNTED, FILL_CLIENTS, ROUNDS, WARM};
use super::load::{self, Call, ClientCount, RequestSource};
use super::request::{Fill, value};
use super::row::{Row, Sample, median};
use super::server::{Durability, Server, ServerKind};
use crate::spread::Spread;
use std::net::SocketAddr;
use tokio::time::Instant;

/// The servers to measure.
#[derive(Clone)]
pub(super) struct Bench {
    /// A real etcd, if one is installed.
    pub(super) etcd: Option<ServerKind>,
    /// kstore.
    pub(super) ours: ServerKind,
}

/// A load: the store's initial content, and the clients' requests.
pub(super) struct Load<F> {
    pub(super) what: String,
    pub(super) target: &'static str,
    pub(super) crowd: ClientCount,
    pub(super) durability: Durability,
    /// Family, number of keys and size of each value.
    pub(super) fill: Option<(&'static str, usize, usize)>,
    /// Creates the request source of one connection.
    pub(super) ask: F,
}

impl ClientCount {
    /// A single client.
    pub(super) const ONE: Self = Self { clients: 1, connections: 1 };

    /// This many clients, on the usual number of connections for them.
    pub(super) fn of(clients: usize) -> Self {
        Self { clients, connections: if clients > 100 { 10 } else { 1 } }
    }
}

impl Bench {
    /// The available servers, etcd first.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (bool, &ServerKind)> {
        self.etcd.iter().map(|kind| (false, kind)).chain([(true, &self.ours)])
    }

    /// Measures a load and returns its row.
    pub(super) async fn row<A: RequestSource, F: Fn(usize) -> A>(
        &self,
        load: Load<F>,
    ) -> anyhow::Result<Row> {
        let (etcd, ours) = self.samples(&load).await?;
        Ok(Row::rates(load.what, load.target, etcd.as_ref(), &ours))
    }

    /// The median results of a load.
    pub(super) async fn samples<A: RequestSource, F: Fn(usize) -> A>(
        &self,
        load: &Load<F>,
    ) -> anyhow::Result<(Option<Sample>, Sample)> {
        let (mut etcd, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for (is_ours, kind) in self.kinds() {
                let sample = once(kind, load).await?;
                if is_ours { ours.push(sample) } else { etcd.push(sample) }
            }
        }
        Ok((median(etcd), median(ours).expect("ours is always measured")))
    }
}

async fn once<A: RequestSource, F: Fn(usize) -> A>(
    kind: &ServerKind,
    load: &Load<F>,
) -> anyhow::Result<Sample> {
    let server = Server::start(kind, load.durability).await?;
    if let Some((family, keys, bytes)) = load.fill {
        fill(server.address, family, keys, bytes).await?;
    }
    let sample = sample(&server, load.crowd, &load.ask).await?;
    server.kill().await?;
    Ok(sample)
}

/// Writes a family of keys.
pub(super) async fn fill(
    address: SocketAddr,
    family: &'static str,
    keys: usize,
    bytes: usize,
) -> anyhow::Result<()> {
    let value = value(bytes);
    let part = |n| Fill::part(family, keys, value.clone(), n, FILL_CLIENTS);
    let crowd = ClientCount { clients: FILL_CLIENTS, connections: FILL_CLIENTS };
    load::run(address, crowd, None, part).await?;
    Ok(())
}

/// Runs a load on a running server, and counts after the warm-up.
pub(super) async fn sample<A: RequestSource>(
    server: &Server,
    crowd: ClientCount,
    ask: impl Fn(usize) -> A,
) -> anyhow::Result<Sample> {
    let interval = Interval::from_now();
    count(server, interval, load::run(server.address, crowd, Some(interval.end), ask)).await
}

/// The time interval in which calls are counted.
#[derive(Clone, Copy)]
pub(super) struct Interval {
    start: Instant,
    /// Time at which clients stop.
    pub(super) end: Instant,
}

impl Interval {
    /// Begins after the warm-up.
    pub(super) fn from_now() -> Self {
        let start = Instant::now() + WARM;
        Self { start, end: start + COUNTED }
    }
}

/// Rate, latency and CPU time of the calls that end within an interval.
pub(super) async fn count(
    server: &Server,
    Interval { start, end }: Interval,
    calls: impl Future<Output = anyhow::Result<Vec<Call>>>,
) -> anyhow::Result<Sample> {
    let processor = async {
        tokio::time::sleep_until(start).await;
        let before = server.processor_seconds()?;
        tokio::time::sleep_until(end).await;
        anyhow::Ok(server.processor_seconds()? - before)
    };
    let (calls, processor) = tokio::try_join!(calls, processor)?;
    let counted: Vec<Call> = calls.into_iter().filter(|call| (start..end).contains(&call.end)).collect();
    anyhow::ensure!(!counted.is_empty(), "nothing was answered");
    Ok(Sample {
        rate: counted.len() as f64 / COUNTED.as_secs_f64(),
        processor: processor * 1e6 / counted.len() as f64,
        latency: Some(Spread::of(counted.iter().map(|call| call.latency).collect())),
    })
}
