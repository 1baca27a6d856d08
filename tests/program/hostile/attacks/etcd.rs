//! The etcd API beside an API server: responses that are never taken.

use super::target::{Target, Writer};
use super::{Attack, Scale};
use crate::hostile::etcd_port::client;
use crate::hostile::frames::{self, DATA, END_STREAM};
use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join_all};
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::{PutRequest, RangeRequest, RequestOp, TxnRequest};
use prost::Message as _;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

/// Streamed reads of megabytes whose parts are never taken. They are bounded by the budget of one connection.
pub(super) const STALLED_PARTS: Attack = Attack::new("etcd: stalled parts", 384, stalled_parts).with_etcd();

fn stalled_parts(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    const VALUES: u8 = 8;
    const STREAMS: u32 = 1_000;
    async move {
        let mut admin = client(&target.etcd()).await;
        for number in 0..VALUES {
            let (key, value) = (vec![b'k', number].into(), vec![7; 1 << 20].into());
            admin.put(PutRequest { key, value, ..PutRequest::default() }).await.unwrap();
        }
        target.begin(Writer::Tenant).await;
        let mut greedy = UnixStream::connect(target.etcd()).await.unwrap();
        let mut bytes = [frames::PREFACE, &frames::initial_window(0)].concat();
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/etcdserverpb.KV/RangeStream"),
            ("content-type", "application/grpc"),
        ];
        // A message of two fields: the key "k" and the range end "l".
        let message = [0, 0, 0, 0, 6, 0x0a, 1, b'k', 0x12, 1, b'l'];
        for number in 0..STREAMS {
            bytes.extend(frames::head(2 * number + 1, 0, &fields));
            bytes.extend(frames::frame(DATA, END_STREAM, 2 * number + 1, &message));
        }
        greedy.write_all(&bytes).await.unwrap();
        sleep(scale.time()).await;
        bytes.len()
    }
    .boxed_local()
}

/// Reads of very many keys: alone, in transactions, of keys only, sorted, and of old versions. The responses are never taken. They are
/// bounded by the budgets of the connections, and by that of reads in transactions.
pub(super) const LARGE_RANGES: Attack =
    Attack::new("etcd: ranges of many keys", 672, large_ranges).with_etcd();

fn large_ranges(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    const CONNECTIONS: usize = 2;
    async move {
        let old = fill(target, scale).await;
        target.begin(Writer::Tenant).await;
        let range = |key: &'static str, end: &'static str| RangeRequest {
            key: key.into(),
            range_end: end.into(),
            ..RangeRequest::default()
        };
        let reads = [
            range("k", "l"),
            RangeRequest { keys_only: true, ..range("k", "l") },
            RangeRequest { sort_order: 2, sort_target: 3, ..range("k", "l") },
            RangeRequest { revision: old, ..range("l", "m") },
            RangeRequest { revision: old, sort_order: 2, ..range("k", "m") },
        ];
        let mut calls: Vec<(&str, Vec<u8>)> = Vec::new();
        for read in reads {
            calls.push(("/etcdserverpb.KV/Range", read.encode_to_vec()));
            let op = RequestOp { request: Some(Request::RequestRange(read)) };
            let txn = TxnRequest { success: vec![op; 100], ..TxnRequest::default() };
            calls.push(("/etcdserverpb.KV/Txn", txn.encode_to_vec()));
        }
        let stalled = (0..CONNECTIONS).map(|_| stall(target, &calls, scale.number(20, 40)));
        let held = join_all(stalled).await;
        sleep(scale.time()).await;
        held.iter().map(|(_, sent)| sent).sum()
    }
    .boxed_local()
}

/// Stores many small keys, and large values in two versions. Returns a revision of the former ones.
async fn fill(target: &Target, scale: Scale) -> i64 {
    let (keys, values) = scale.number((40_000, 40), (200_000, 100));
    let mut admin = client(&target.etcd()).await;
    let put = |key: String, bytes: usize| {
        let put = PutRequest { key: key.into(), value: vec![7; bytes].into(), ..PutRequest::default() };
        RequestOp { request: Some(Request::RequestPut(put)) }
    };
    for first in (0..keys).step_by(100) {
        let success = (first..first + 100).map(|key| put(format!("k{key:08}"), 10)).collect();
        admin.txn(TxnRequest { success, ..TxnRequest::default() }).await.unwrap();
    }
    let mut revisions = [0; 2];
    for revision in &mut revisions {
        for key in 0..values {
            let success = vec![put(format!("large{key:04}"), 1 << 20)];
            let answered = admin.txn(TxnRequest { success, ..TxnRequest::default() }).await.unwrap();
            *revision = answered.into_inner().header.unwrap().revision;
        }
    }
    revisions[0]
}

/// Sends each call several times over one connection, and takes no response. Returns the connection and the bytes sent.
async fn stall(target: &Target, calls: &[(&str, Vec<u8>)], times: u32) -> (UnixStream, usize) {
    let mut greedy = UnixStream::connect(target.etcd()).await.unwrap();
    let mut bytes = [frames::PREFACE, &frames::initial_window(0)].concat();
    let mut stream = 1;
    for _ in 0..times {
        for (path, message) in calls {
            let fields = [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", *path),
                ("content-type", "application/grpc"),
            ];
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            bytes.extend(frames::head(stream, 0, &fields));
            bytes.extend(frames::frame(DATA, END_STREAM, stream, &[&[0], &length[..], message].concat()));
            stream += 2;
        }
    }
    // The server may stop reading from a client that takes nothing.
    if let Ok(written) = timeout(Duration::from_secs(2), greedy.write_all(&bytes)).await {
        written.unwrap();
    }
    (greedy, bytes.len())
}
