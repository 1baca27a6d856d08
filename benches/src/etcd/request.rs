//! The requests of the loads.

use super::limits::FILL_BYTES;
use super::load::RequestSource;
use bytes::Bytes;
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::{CompactionRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};

pub(crate) const PUT: &str = "/etcdserverpb.KV/Put";
pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";

/// The `n`th key of a family.
pub(crate) fn key(family: &str, n: usize) -> Bytes {
    format!("/registry/{family}/{n:07}").into()
}

/// First key and range end of a family.
pub(super) fn bounds(family: &str) -> (Bytes, Bytes) {
    (format!("/registry/{family}/").into(), format!("/registry/{family}0").into())
}

/// A constant value.
pub(crate) fn value(bytes: usize) -> Bytes {
    vec![b'v'; bytes].into()
}

/// A plain put.
pub(crate) fn put(key: Bytes, value: Bytes) -> PutRequest {
    PutRequest { key, value, ..PutRequest::default() }
}

/// A read of a family, of at most `limit` keys; 0 for all.
pub(super) fn family(family: &str, limit: i64) -> RangeRequest {
    let (key, range_end) = bounds(family);
    RangeRequest { key, range_end, limit, ..RangeRequest::default() }
}

/// One read of one key.
#[derive(Default)]
pub(super) struct Once(bool);

impl RequestSource for Once {
    type Request = RangeRequest;

    fn next(&mut self, _client: usize) -> Option<(&'static str, RangeRequest)> {
        let first = !std::mem::replace(&mut self.0, true);
        first.then(|| (RANGE, RangeRequest { key: "0".into(), ..RangeRequest::default() }))
    }
}

/// Writes all keys of a family once, many per transaction.
pub(super) struct Fill {
    family: &'static str,
    rest: std::ops::Range<usize>,
    value: Bytes,
}

impl Fill {
    /// Part `part` of `parts` of a family of `keys` keys.
    pub(super) fn part(family: &'static str, keys: usize, value: Bytes, part: usize, parts: usize) -> Self {
        Self { family, rest: keys * part / parts..keys * (part + 1) / parts, value }
    }
}

impl RequestSource for Fill {
    type Request = TxnRequest;

    fn next(&mut self, _client: usize) -> Option<(&'static str, TxnRequest)> {
        let ops = (FILL_BYTES / (self.value.len() + 64)).min(128);
        let put = |n| RequestOp {
            request: Some(Request::RequestPut(put(key(self.family, n), self.value.clone()))),
        };
        let success: Vec<_> = self.rest.by_ref().take(ops).map(put).collect();
        (!success.is_empty()).then(|| (TXN, TxnRequest { success, ..TxnRequest::default() }))
    }
}

/// One compaction, done when it is answered.
pub(super) struct Compact(pub(super) Option<i64>);

impl RequestSource for Compact {
    type Request = CompactionRequest;

    fn next(&mut self, _client: usize) -> Option<(&'static str, CompactionRequest)> {
        Some((COMPACT, CompactionRequest { revision: self.0.take()?, physical: true }))
    }
}
