//! Linearizable reads: one key with 200 clients; 1000 keys of 256 B at once with 16; and a page of 500 keys
//! out of 1000 and out of 100 000, which should cost the same.

use super::limits::{FEW_KEYS, KEYS, LIST_KEYS, MANY_KEYS, PAGE, VALUE_BYTES};
use super::load::{ClientCount, RequestSource};
use super::measure::{self, Bench, Load};
use super::request::{RANGE, family, key};
use super::row::{Row, ratio};
use super::server::{Durability, Server};
use kstore_proto::etcd::etcdserverpb::RangeRequest;

/// Reads of single keys.
pub(super) struct Gets(usize);

impl RequestSource for Gets {
    type Request = RangeRequest;

    fn next(&mut self, _client: usize) -> Option<(&'static str, RangeRequest)> {
        self.0 = self.0.wrapping_add(7_919);
        Some((RANGE, RangeRequest { key: key("gets", self.0 % KEYS), ..RangeRequest::default() }))
    }
}

/// One request, repeated.
struct Repeated(RangeRequest);

impl RequestSource for Repeated {
    type Request = RangeRequest;

    fn next(&mut self, _client: usize) -> Option<(&'static str, RangeRequest)> {
        Some((RANGE, self.0.clone()))
    }
}

/// Measures reads of one key.
pub(super) async fn one(bench: Bench) -> anyhow::Result<Vec<Row>> {
    Ok(vec![bench.row(gets()).await?])
}

/// The load of reads of one key by 200 clients.
pub(super) fn gets() -> Load<fn(usize) -> Gets> {
    Load {
        what: "range of one key, 200 clients".to_owned(),
        target: "≥ 4×",
        crowd: ClientCount::of(200),
        durability: Durability::Synced,
        fill: Some(("gets", KEYS, VALUE_BYTES)),
        ask: Gets,
    }
}

/// Measures reads of many keys.
pub(super) async fn many(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let load = Load {
        what: format!("range of {LIST_KEYS} keys × {VALUE_BYTES} B, 16 clients"),
        target: "≥ 5×",
        crowd: ClientCount::of(16),
        durability: Durability::Synced,
        fill: Some(("list", LIST_KEYS, VALUE_BYTES)),
        ask: |_| Repeated(family("list", 0)),
    };
    Ok(vec![bench.row(load).await?])
}

/// Measures a page out of few keys and out of many. The columns of etcd and kstore are the rates out of many
/// keys; the ratio is kstore's rate out of many to its rate out of few.
pub(super) async fn page(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let mut row = Row { target: "≈ 1 (ours, many to few)", ..Row::default() };
    row.what = format!("range with limit {PAGE} over {MANY_KEYS} keys (over {FEW_KEYS}), 16 clients");
    for (is_ours, kind) in bench.kinds() {
        let server = Server::start(kind, Durability::Synced).await?;
        measure::fill(server.address, "few", FEW_KEYS, VALUE_BYTES).await?;
        measure::fill(server.address, "many", MANY_KEYS, VALUE_BYTES).await?;
        let few = measure::sample(&server, ClientCount::of(16), |_| Repeated(family("few", PAGE))).await?;
        let many = measure::sample(&server, ClientCount::of(16), |_| Repeated(family("many", PAGE))).await?;
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
