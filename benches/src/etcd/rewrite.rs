//! Disk space after all keys were rewritten and compacted ten times, and after half of that, which shows
//! growth. Neither server is defragmented.

use super::limits::{REWRITE_KEYS, REWRITE_VALUE_BYTES, REWRITES, TIDY};
use super::load::{self, ClientCount, RequestSource};
use super::measure::{Bench, fill};
use super::request::{Compact, RANGE};
use super::row::{Row, ratio};
use super::server::{Durability, Server, ServerKind};
use kstore_proto::etcd::etcdserverpb::{RangeRequest, RangeResponse};
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

/// Reads the store's revision once.
struct Newest {
    is_sent: bool,
    revision: Arc<AtomicI64>,
}

impl RequestSource for Newest {
    type Request = RangeRequest;
    const READS: bool = true;

    fn next(&mut self, _client: usize) -> Option<(&'static str, RangeRequest)> {
        let first = !std::mem::replace(&mut self.is_sent, true);
        first.then(|| (RANGE, RangeRequest { key: "0".into(), ..RangeRequest::default() }))
    }

    fn answered(&mut self, _client: usize, message: &[u8]) {
        let header = RangeResponse::decode(message).ok().and_then(|answer| answer.header);
        self.revision.store(header.map_or(0, |header| header.revision), Relaxed);
    }
}

/// Disk space relative to live data.
pub(super) async fn measure(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let live = (REWRITE_KEYS * (REWRITE_VALUE_BYTES + 24)) as f64;
    let mut row = Row { target: "≤ 3× live data, not growing", ..Row::default() };
    row.what = format!(
        "disk ÷ live data ({:.0} MB) after {REWRITES} rounds of rewriting all and compacting (after {})",
        live / 1e6,
        REWRITES / 2
    );
    let mut of_etcd = None;
    for (is_ours, kind) in bench.kinds() {
        let (half, whole) = once(kind).await?;
        let text = format!("{:.2} ({:.2})", whole as f64 / live, half as f64 / live);
        if is_ours {
            row.ours = text;
            row.ratio = of_etcd.map(|etcd: u64| ratio(whole as f64, etcd as f64)).unwrap_or_default();
        } else {
            row.etcd = text;
            of_etcd = Some(whole);
        }
    }
    Ok(vec![row])
}

async fn once(kind: &ServerKind) -> anyhow::Result<(u64, u64)> {
    let server = Server::start(kind, Durability::Synced).await?;
    fill(server.address, "rewritten", REWRITE_KEYS, REWRITE_VALUE_BYTES).await?;
    let mut half = 0;
    for round in 1..=REWRITES {
        fill(server.address, "rewritten", REWRITE_KEYS, REWRITE_VALUE_BYTES).await?;
        let revision = Arc::new(AtomicI64::new(0));
        let newest = |_| Newest { is_sent: false, revision: revision.clone() };
        load::run(server.address, ClientCount::ONE, None, newest).await?;
        let compact = |_| Compact(Some(revision.load(Relaxed)));
        load::run(server.address, ClientCount::ONE, None, compact).await?;
        if round == REWRITES / 2 {
            tokio::time::sleep(TIDY).await;
            half = server.disk_bytes()?;
        }
    }
    tokio::time::sleep(TIDY).await;
    let whole = server.disk_bytes()?;
    server.kill().await?;
    Ok((half, whole))
}
