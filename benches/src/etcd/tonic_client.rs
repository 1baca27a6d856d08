//! The store under load from an ordinary gRPC client, tonic's: closed loops of calls through `KvClient`, one
//! task per client, on one thread. The other rows send HTTP/2 frames directly, because tonic's client uses
//! more CPU per call than the server. These rows show how much of the server's advantage remains for programs
//! with an ordinary client.

use super::limits::{KEYS, ROUNDS, VALUE_BYTES};
use super::load::{Call, ClientCount};
use super::measure::{self, Bench, Interval};
use super::request::{key, put, value};
use super::row::{Row, Sample, median};
use super::server::{Durability, Server, ServerKind};
use bytes::Bytes;
use kstore_proto::etcd::etcdserverpb::RangeRequest;
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use std::net::SocketAddr;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

/// The operation of every client.
#[derive(Clone, Copy)]
enum Operation {
    /// A durable put of 256 B.
    Put,
    /// A linearizable read of one key.
    Get,
}

/// Puts with 1, 100 and 1000 clients, and reads with 100.
pub(super) async fn measure(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (operation, clients, target) in [
        (Operation::Put, 1, "≥ 1.5×"),
        (Operation::Put, 100, "≥ 3×"),
        (Operation::Put, 1_000, "≥ 3×"),
        (Operation::Get, 100, "≥ 4×"),
    ] {
        rows.push(row(&bench, operation, clients, target).await?);
    }
    Ok(rows)
}

async fn row(
    bench: &Bench,
    operation: Operation,
    clients: usize,
    target: &'static str,
) -> anyhow::Result<Row> {
    let (mut etcd, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (is_ours, kind) in bench.kinds() {
            let sample = once(kind, operation, ClientCount::of(clients)).await?;
            if is_ours { ours.push(sample) } else { etcd.push(sample) }
        }
    }
    let plural = if clients == 1 { "" } else { "s" };
    let what = match operation {
        Operation::Put => format!("tonic client: durable puts of 256 B, {clients} client{plural}"),
        Operation::Get => format!("tonic client: range of one key, {clients} client{plural}"),
    };
    let ours = median(ours).expect("ours is always measured");
    Ok(Row::rates(what, target, median(etcd).as_ref(), &ours))
}

async fn once(kind: &ServerKind, operation: Operation, crowd: ClientCount) -> anyhow::Result<Sample> {
    let server = Server::start(kind, Durability::Synced).await?;
    if matches!(operation, Operation::Get) {
        measure::fill(server.address, operation.family(), KEYS, VALUE_BYTES).await?;
    }
    let interval = Interval::from_now();
    let calls = run(server.address, operation, crowd, interval.end);
    let sample = measure::count(&server, interval, calls).await?;
    server.kill().await?;
    Ok(sample)
}

/// Runs all clients until `until`. A failed call is an error.
async fn run(
    address: SocketAddr,
    operation: Operation,
    crowd: ClientCount,
    until: Instant,
) -> anyhow::Result<Vec<Call>> {
    let mut channels = Vec::new();
    for _ in 0..crowd.connections {
        channels.push(Endpoint::from_shared(format!("http://{address}"))?.connect().await?);
    }
    let mut clients = JoinSet::new();
    for client in 0..crowd.clients {
        let channel = channels[client % channels.len()].clone();
        clients.spawn(closed_loop(channel, operation, client, until));
    }
    let mut calls = Vec::new();
    while let Some(client) = clients.join_next().await {
        calls.append(&mut client??);
    }
    Ok(calls)
}

/// One client: sends the next call as soon as the last one is answered.
async fn closed_loop(
    channel: Channel,
    operation: Operation,
    client: usize,
    until: Instant,
) -> anyhow::Result<Vec<Call>> {
    let mut kv = KvClient::new(channel);
    let value = value(VALUE_BYTES);
    let mut n = client * 1_000_003;
    let mut calls = Vec::new();
    loop {
        let sent = Instant::now();
        if sent >= until {
            return Ok(calls);
        }
        n = n.wrapping_add(7_919);
        operation.call(&mut kv, key(operation.family(), n % KEYS), value.clone()).await?;
        let end = Instant::now();
        calls.push(Call { end, latency: end - sent });
    }
}

impl Operation {
    /// The family of keys that the operation uses.
    fn family(self) -> &'static str {
        match self {
            Self::Put => "puts",
            Self::Get => "gets",
        }
    }

    async fn call(self, kv: &mut KvClient<Channel>, key: Bytes, value: Bytes) -> anyhow::Result<()> {
        match self {
            Self::Put => {
                kv.put(put(key, value)).await?;
            }
            Self::Get => {
                let answer = kv.range(RangeRequest { key, ..RangeRequest::default() }).await?.into_inner();
                anyhow::ensure!(answer.count == 1, "a key that was written is missing");
            }
        }
        Ok(())
    }
}
