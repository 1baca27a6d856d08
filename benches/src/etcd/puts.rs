//! Durable puts of 256 B, spread over 10 000 keys: one client, which observes the latency of a sync, and
//! many, which share syncs. Unsynced writes are a separate row.

use super::limits::{KEYS, VALUE_BYTES};
use super::load::{ClientCount, RequestSource};
use super::measure::{Bench, Load};
use super::request::{PUT, key, put, value};
use super::row::{Row, Sample};
use super::server::Durability;
use bytes::Bytes;
use kstore_proto::etcd::etcdserverpb::PutRequest;

/// Puts of keys in pseudo-random order.
pub(super) struct Puts {
    value: Bytes,
    n: usize,
}

impl Puts {
    /// The puts of connection `connection`.
    pub(super) fn of(connection: usize) -> Self {
        Self { value: value(VALUE_BYTES), n: connection * 1_000_003 }
    }
}

impl RequestSource for Puts {
    type Request = PutRequest;

    fn next(&mut self, _client: usize) -> Option<(&'static str, PutRequest)> {
        self.n = self.n.wrapping_add(7_919);
        Some((PUT, put(key("puts", self.n % KEYS), self.value.clone())))
    }
}

pub(super) fn load(clients: usize, durability: Durability, target: &'static str) -> Load<fn(usize) -> Puts> {
    let plural = if clients == 1 { "" } else { "s" };
    let kind = match durability {
        Durability::Synced => "durable",
        Durability::Relaxed => "relaxed",
    };
    let what = format!("{kind} puts of 256 B, {clients} client{plural}");
    Load { what, target, crowd: ClientCount::of(clients), durability, fill: None, ask: Puts::of }
}

/// Rate and latency of puts.
pub(super) async fn measure(bench: Bench, clients: usize, target: &'static str) -> anyhow::Result<Vec<Row>> {
    Ok(vec![bench.row(load(clients, Durability::Synced, target)).await?])
}

/// Rate and latency of unsynced puts: etcd with `--unsafe-no-fsync`, kstore with background syncs.
pub(super) async fn relaxed(bench: Bench, clients: usize) -> anyhow::Result<Vec<Row>> {
    Ok(vec![bench.row(load(clients, Durability::Relaxed, "")).await?])
}

/// etcd's result with 1000 clients, if etcd is installed.
pub(super) async fn etcd_with_1000(bench: &Bench) -> anyhow::Result<Option<Sample>> {
    Ok(bench.samples(&load(1_000, Durability::Synced, "")).await?.0)
}
