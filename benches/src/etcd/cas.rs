//! Compare-and-swap as Kubernetes does it: put if the key's mod revision is the last seen one, otherwise read
//! it; 200 clients.

use super::limits::{GUARDED_KEYS, VALUE_BYTES};
use super::load::{ClientCount, RequestSource};
use super::measure::{Bench, Load};
use super::request::{TXN, key, put, value};
use super::row::Row;
use super::server::Durability;
use bytes::Bytes;
use kstore_proto::etcd::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::response_op::Response;
use kstore_proto::etcd::etcdserverpb::{Compare, RangeRequest, RequestOp, TxnRequest, TxnResponse};
use prost::Message;
use std::collections::BTreeMap;

const CLIENTS: usize = 200;

struct Swaps {
    value: Bytes,
    n: usize,
    /// The key of each client's pending request.
    pending: BTreeMap<usize, usize>,
    /// The last seen revision of each key.
    seen: Vec<i64>,
}

impl Swaps {
    fn of(connection: usize) -> Self {
        let seen = vec![0; GUARDED_KEYS];
        Self { value: value(VALUE_BYTES), n: connection * 1_000_003, pending: BTreeMap::new(), seen }
    }
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

impl RequestSource for Swaps {
    type Request = TxnRequest;
    const READS: bool = true;

    fn next(&mut self, client: usize) -> Option<(&'static str, TxnRequest)> {
        self.n = self.n.wrapping_add(7_919);
        let n = self.n % GUARDED_KEYS;
        self.pending.insert(client, n);
        let key = key("swaps", n);
        let unchanged = Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Mod.into(),
            key: key.clone(),
            target_union: Some(TargetUnion::ModRevision(self.seen[n])),
            ..Compare::default()
        };
        let read = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let txn = TxnRequest {
            compare: vec![unchanged],
            success: vec![op(Request::RequestPut(put(key, self.value.clone())))],
            failure: vec![op(Request::RequestRange(read))],
        };
        Some((TXN, txn))
    }

    fn answered(&mut self, client: usize, message: &[u8]) {
        let (Some(n), Ok(answer)) = (self.pending.get(&client), TxnResponse::decode(message)) else { return };
        let revision = answer.header.map_or(0, |header| header.revision);
        let read = match answer.responses.into_iter().next().and_then(|op| op.response) {
            Some(Response::ResponseRange(range)) => range.kvs.first().map(|kv| kv.mod_revision),
            _ => None,
        };
        self.seen[*n] = read.unwrap_or(revision);
    }
}

/// Rate and latency of guarded writes, whether or not the guard held.
pub(super) async fn measure(bench: Bench) -> anyhow::Result<Vec<Row>> {
    let load = Load {
        what: format!("compare-and-swap as Kubernetes does it, {CLIENTS} clients"),
        target: "≥ 4×",
        crowd: ClientCount::of(CLIENTS),
        durability: Durability::Synced,
        fill: None,
        ask: Swaps::of,
    };
    Ok(vec![bench.row(load).await?])
}
