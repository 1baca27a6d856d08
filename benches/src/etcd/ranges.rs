//! Reads, each at the newest revision: one key with 200 clients; 1000 keys of 256 B at once with 16; and a page of 500 keys
//! out of 1000 and out of 100 000, which should cost the same.

use super::limits::{FEW_KEYS, KEYS, LIST_KEYS, MANY_KEYS, PAGE, VALUE_BYTES};
use super::load::{Ask, Crowd};
use super::measure::{self, Bench, Load};
use super::request::{RANGE, family, key};
use super::row::{Row, ratio};
use super::server::{Durability, Server};
use kstore_proto::etcd::etcdserverpb::RangeRequest;

/// Reads of single keys.
pub(super) struct Gets(usize);

impl Ask for Gets {
    type Request = RangeRequest;

    fn next(&mut self, _client: usize) -> Option<(&'static str, RangeRequest)> {
        self.0 = self.0.wrapping_add(7_919);
        Some((RANGE, RangeRequest { key: key("gets", self.0 % KEYS), ..RangeRequest::default() }))
    }
}

/// The same read again and again.
struct Again(RangeRequest);

impl Ask for Again {
    type Request = RangeRequest;

    fn next(&mut self, _client: usize) -> Option<(&'static str, RangeRequest)> {
        Some((RANGE, self.0.clone()))
    }
}

/// One key.
pub(super) async fn one(bench: Bench) -> anyhow::Result<Vec<Row>> {
    Ok(vec![bench.row(gets()).await?])
}

/// Reads of one key by 200 clients.
pub(super) fn gets() -> Load<fn(usize) -> Gets> {
    Load {
        what: "range of one key, 200 clients".to_owned(),
        target: "≥ 4×",
        crowd: Crowd::of(200),
        durability: Durability::Synced,
        fill: Some(("gets", KEYS, VALUE_BYTES)),
        ask: Gets,
    }
}

/// Many keys.
pub(super) async fn many(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let load = Load {
        what: format!("range of {LIST_KEYS} keys × {VALUE_BYTES} B, 16 clients"),
        target: "≥ 5×",
        crowd: Crowd::of(16),
        durability: Durability::Synced,
        fill: Some(("list", LIST_KEYS, VALUE_BYTES)),
        ask: |_| Again(family("list", 0)),
    };
    Ok(vec![bench.row(load).await?])
}

/// A page out of few keys and out of many. The columns of etcd and ours hold the rate out of many; the ratio is ours to
/// ours: out of many to out of few.
pub(super) async fn page(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let mut row = Row { target: "≈ 1 (ours, many to few)", ..Row::default() };
    row.what = format!("range with limit {PAGE} over {MANY_KEYS} keys (over {FEW_KEYS}), 16 clients");
    for (is_ours, kind) in bench.kinds() {
        let server = Server::start(kind, Durability::Synced).await?;
        measure::fill(server.address, "few", FEW_KEYS, VALUE_BYTES).await?;
        measure::fill(server.address, "many", MANY_KEYS, VALUE_BYTES).await?;
        let few = measure::sample(&server, Crowd::of(16), |_| Again(family("few", PAGE))).await?;
        let many = measure::sample(&server, Crowd::of(16), |_| Again(family("many", PAGE))).await?;
        server.kill().await?;
        let text = format!("{:.0}/s ({:.0}/s)", many.rate, few.rate);
        if is_ours {
            row.ours = text;
            row.ratio = ratio(many.rate, few.rate);
            row.processor.push_str(&format!("→ {:.0} µs ({:.0})", many.processor, few.processor));
        } else {
            row.etcd = text;
            row.processor = format!("{:.0} µs ({:.0}) ", many.processor, few.processor);
        }
    }
    Ok(vec![row])
}
