//! Tests of the KV service.

use super::*;
use crate::convert;
use crate::limits::{CHUNK_BYTES, KEYS_AT_ONCE};
use kstore_proto::etcd::etcdserverpb::response_op::Response;
use kstore_store::{Op, Txn};

#[tokio::test]
async fn a_put_reads_back_with_etcds_revisions_and_header() {
    let server = Server::start().await;
    assert_eq!(server.put("a", "1").await, 2);
    let request = pb::PutRequest { prev_kv: true, ..put("a", "2") };
    let prev = server.kv().put(request).await.unwrap().into_inner().prev_kv.unwrap();
    assert_eq!((prev.value.as_ref(), prev.mod_revision, prev.version), (&b"1"[..], 2, 1));

    let response = server.kv().range(range("a", "")).await.unwrap().into_inner();
    let kv = &response.kvs[0];
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version, kv.lease), (2, 3, 2, 0));
    assert_eq!((response.count, response.more), (1, false));
    let header = response.header.unwrap();
    assert_eq!((header.revision, header.raft_term), (3, 2));
    assert_eq!(header.cluster_id, server.store.identity());
    assert!(header.member_id != 0);

    let old = pb::RangeRequest { revision: 2, ..range("a", "") };
    let old = server.kv().range(old).await.unwrap().into_inner();
    assert_eq!((old.kvs[0].value.as_ref(), old.header.unwrap().revision), (&b"1"[..], 3));
}

#[tokio::test]
async fn ranges_limit_sort_count_and_omit_values() {
    let server = Server::start().await;
    for (key, value) in [("p/1", "c"), ("p/2", "a"), ("p/3", "b"), ("q", "z")] {
        server.put(key, value).await;
    }
    let all = || range("p/", "p0");
    let by_value = pb::range_request::SortTarget::Value.into();
    let descending = pb::range_request::SortOrder::Descend.into();
    for (request, keys, more, count) in [
        (all(), "123", false, 3),
        (pb::RangeRequest { limit: 2, ..all() }, "12", true, 3),
        (pb::RangeRequest { sort_target: by_value, ..all() }, "231", false, 3),
        (pb::RangeRequest { sort_order: descending, limit: 1, ..all() }, "3", true, 3),
        (pb::RangeRequest { count_only: true, limit: 1, ..all() }, "", false, 3),
        (pb::RangeRequest { min_mod_revision: 3, max_mod_revision: 3, ..all() }, "2", false, 3),
        (range("p0", "p/"), "", false, 0),
    ] {
        let response = server.kv().range(request.clone()).await.unwrap().into_inner();
        let found: String = response.kvs.iter().map(|kv| char::from(kv.key[2])).collect();
        assert_eq!((found.as_str(), response.more, response.count), (keys, more, count), "{request:?}");
    }
    let request = pb::RangeRequest { keys_only: true, ..range("\0", "\0") };
    let response = server.kv().range(request).await.unwrap().into_inner();
    assert!(response.kvs.len() == 4 && response.kvs.iter().all(|kv| kv.value.is_empty()));
}

#[tokio::test]
async fn headers_inside_a_transaction_have_only_the_revision() {
    let server = Server::start().await;
    server.put("a", "1").await;
    let inner = pb::TxnRequest {
        success: vec![put_op("m3", "x"), {
            op(Request::RequestRange(pb::RangeRequest { count_only: true, ..range("m", "n") }))
        }],
        ..Default::default()
    };
    let ops = vec![
        put_op("m1", "x"),
        range_op("m", "n"),
        delete_op("a", ""),
        range_op("a", ""),
        op(Request::RequestTxn(inner)),
    ];
    let response = server.txn(ops).await;
    assert!(response.succeeded);
    assert_eq!(response.header.unwrap().revision, 3);
    let revision = |header: &Option<pb::ResponseHeader>| {
        let header = header.unwrap();
        assert_eq!((header.cluster_id, header.member_id, header.raft_term), (0, 0, 0));
        header.revision
    };
    let seen: Vec<_> = response
        .responses
        .iter()
        .map(|op| match op.response.as_ref().unwrap() {
            Response::ResponsePut(put) => ("put", revision(&put.header), 0),
            Response::ResponseRange(range) => ("range", revision(&range.header), range.count),
            Response::ResponseDeleteRange(delete) => ("delete", revision(&delete.header), delete.deleted),
            Response::ResponseTxn(txn) => ("txn", revision(&txn.header), txn.responses.len() as i64),
        })
        .collect();
    assert_eq!(seen, [("put", 3, 0), ("range", 3, 1), ("delete", 3, 1), ("range", 3, 0), ("txn", 0, 2)]);
}

#[tokio::test]
async fn headers_inside_a_transaction_have_its_revision_after_the_first_change() {
    let server = Server::start().await;
    let ops = vec![range_op("no", ""), delete_op("no", ""), put_op("o", "1"), range_op("no", "")];
    let responses = server.txn(ops).await.responses;
    let revisions: Vec<_> = responses
        .iter()
        .map(|op| match op.response.as_ref().unwrap() {
            Response::ResponsePut(put) => put.header.unwrap().revision,
            Response::ResponseRange(range) => range.header.unwrap().revision,
            Response::ResponseDeleteRange(delete) => delete.header.unwrap().revision,
            Response::ResponseTxn(_) => 0,
        })
        .collect();
    assert_eq!(revisions, [1, 1, 2, 2]);
}

#[tokio::test]
async fn compares_behave_as_in_etcd() {
    use pb::compare::TargetUnion::{ModRevision, Value, Version};
    let server = Server::start().await;
    server.put("k", "v").await;
    let (version, modified, value) = (0, 2, 3);
    let (equal, greater, less, not_equal) = (0, 1, 2, 3);
    for (key, target, result, union, holds) in [
        ("k", version, equal, Some(Version(1)), true),
        ("k", version, greater, Some(Version(1)), false),
        ("k", modified, less, Some(ModRevision(3)), true),
        ("k", value, equal, Some(Value("v".into())), true),
        ("k", value, equal, None, false),
        ("none", version, equal, None, true),
        ("none", modified, equal, Some(ModRevision(0)), true),
        ("none", value, not_equal, Some(Value("v".into())), false),
        // A value for another field counts as missing.
        ("k", modified, equal, Some(Version(2)), false),
        // Unknown relations hold; unknown fields are equal to anything.
        ("k", version, 9, Some(Version(7)), true),
        ("k", 9, equal, Some(Version(7)), true),
        ("k", 9, not_equal, Some(Version(7)), false),
    ] {
        let compare =
            pb::Compare { result, target, key: key.into(), range_end: "".into(), target_union: union };
        let request = pb::TxnRequest { compare: vec![compare.clone()], ..Default::default() };
        let response = server.kv().txn(request).await.unwrap().into_inner();
        assert_eq!(response.succeeded, holds, "{compare:?}");
    }
}

#[tokio::test]
async fn errors_have_etcds_codes_and_texts() {
    use Code::{InvalidArgument, NotFound, OutOfRange};
    let server = Server::start().await;
    server.put("a", "1").await;
    server.put("a", "2").await;
    let compact = |revision| pb::CompactionRequest { revision, physical: false };
    let header = server.kv().compact(compact(3)).await.unwrap().into_inner().header.unwrap();
    assert_eq!(header.revision, 3);
    let txn = |success| pb::TxnRequest { success, ..Default::default() };
    let kv = || server.kv();
    let compacted = "mvcc: required revision has been compacted";
    let future = "mvcc: required revision is a future revision";
    let put = |request| async { seen(kv().put(request).await) };
    let cases = [
        (seen(kv().range(range("", "z")).await), InvalidArgument, "key is not provided"),
        (seen(kv().delete_range(delete("", "")).await), InvalidArgument, "key is not provided"),
        (put(super::put("", "v")).await, InvalidArgument, "key is not provided"),
        (
            put(pb::PutRequest { ignore_value: true, ..super::put("no", "") }).await,
            InvalidArgument,
            "key not found",
        ),
        (
            put(pb::PutRequest { ignore_value: true, ..super::put("a", "x") }).await,
            InvalidArgument,
            "value is provided",
        ),
        (
            put(pb::PutRequest { ignore_lease: true, lease: 4, ..super::put("a", "") }).await,
            InvalidArgument,
            "lease is provided",
        ),
        (
            put(pb::PutRequest { lease: 4, ..super::put("a", "") }).await,
            NotFound,
            "requested lease not found",
        ),
        (
            seen(kv().range(pb::RangeRequest { sort_order: 7, ..range("a", "") }).await),
            InvalidArgument,
            "invalid sort option",
        ),
        (seen(kv().range(pb::RangeRequest { revision: 2, ..range("a", "") }).await), OutOfRange, compacted),
        (seen(kv().range(pb::RangeRequest { revision: 9, ..range("a", "") }).await), OutOfRange, future),
        (seen(kv().compact(compact(3)).await), OutOfRange, compacted),
        (seen(kv().compact(compact(4)).await), OutOfRange, future),
        (seen(kv().txn(txn(vec![RequestOp::default()])).await), InvalidArgument, "key not found"),
        (
            seen(kv().txn(txn(vec![put_op("d", ""), put_op("d", "")])).await),
            InvalidArgument,
            "duplicate key given in txn request",
        ),
        (
            seen(kv().txn(txn(vec![range_op("a", ""); 129])).await),
            InvalidArgument,
            "too many operations in txn request",
        ),
    ];
    for (seen, code, text) in cases {
        assert_eq!(seen, (code, format!("etcdserver: {text}")));
    }
}

#[tokio::test]
async fn oversized_requests_get_etcds_errors_below_and_above_the_transport_limit() {
    let server = Server::start().await;
    let request =
        |bytes: usize| pb::PutRequest { key: "a".into(), value: vec![7; bytes].into(), ..Default::default() };
    let over = seen(server.kv().put(request(1_600_000)).await);
    assert_eq!(over, (Code::InvalidArgument, "etcdserver: request is too large".to_owned()));
    let (code, text) = seen(server.kv().put(request(3 << 20)).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(text, "grpc: received message larger than max (3145736 vs. 2097152)");
}

/// The parts of a streamed range.
async fn parts(server: &Server, request: pb::RangeRequest) -> Vec<pb::RangeResponse> {
    let mut stream = server.kv().range_stream(request).await.unwrap().into_inner();
    let mut parts = Vec::new();
    while let Some(part) = stream.message().await.unwrap() {
        parts.push(part.range_response.unwrap());
    }
    parts
}

#[tokio::test]
async fn a_streamed_range_equals_a_plain_one_in_parts() {
    let server = Server::start().await;
    for number in 0..300 {
        let request = pb::PutRequest { key: format!("k{number:03}").into(), ..put("", "v") };
        server.kv().put(request).await.unwrap();
    }
    for request in [
        range("k", "l"),
        range("k", "\0"),
        range("k007", ""),
        range("x", "z"),
        pb::RangeRequest { limit: 25, ..range("k", "l") },
        pb::RangeRequest { limit: 10, keys_only: true, ..range("k", "l") },
        pb::RangeRequest { revision: 100, ..range("k", "l") },
        pb::RangeRequest { count_only: true, ..range("k", "l") },
        pb::RangeRequest { limit: 300, ..range("k", "l") },
    ] {
        let whole = server.kv().range(request.clone()).await.unwrap().into_inner();
        let parts = parts(&server, request.clone()).await;
        let (last, others) = parts.split_last().unwrap();
        assert!(others.iter().all(|part| part.header.is_none() && part.count == 0 && !part.more));
        assert!(others.iter().all(|part| !part.kvs.is_empty()));
        assert_eq!(
            (last.header, last.count, last.more),
            (whole.header, whole.count, whole.more),
            "{request:?}"
        );
        let kvs: Vec<_> = parts.iter().flat_map(|part| part.kvs.clone()).collect();
        assert_eq!(kvs, whole.kvs, "{request:?}");
    }
    assert!(parts(&server, range("k", "l")).await.len() > 3);
}

#[tokio::test]
async fn parts_of_a_streamed_range_of_large_values_are_no_larger_than_their_budget() {
    let server = Server::start().await;
    let values = [700 << 10, 700 << 10, 600 << 10, 500 << 10, 1, 900 << 10, 1];
    for (number, bytes) in values.into_iter().enumerate() {
        let (key, value) = (format!("k{number}").into(), vec![7; bytes].into());
        server.kv().put(pb::PutRequest { key, value, ..put("", "") }).await.unwrap();
    }
    for limit in [0, 4, 7] {
        let request = pb::RangeRequest { limit, ..range("k", "l") };
        let whole = server.kv().range(request.clone()).await.unwrap().into_inner();
        let parts = parts(&server, request).await;
        let bytes = |part: &pb::RangeResponse| part.kvs.iter().map(|kv| kv.value.len()).sum::<usize>();
        assert!(parts.iter().all(|part| bytes(part) <= CHUNK_BYTES));
        let kvs: Vec<_> = parts.iter().flat_map(|part| part.kvs.clone()).collect();
        let last = parts.last().unwrap();
        assert_eq!((kvs, last.more, last.count), (whole.kvs, whole.more, whole.count), "{limit}");
    }
}

/// A server with more keys than are read on a connection's task, and a revision at which some of them had large values.
async fn server_of_many_keys() -> (Server, i64) {
    let server = Server::start().await;
    let write = async |keys: std::ops::Range<usize>, bytes: usize| {
        let puts: Vec<Op> = keys.map(|number| Op::put(format!("k{number:05}"), vec![b'v'; bytes])).collect();
        let mut revision = 0;
        for puts in puts.chunks(128.min(1 + (1 << 20) / bytes)) {
            revision = server.store.txn(Txn::of(puts.to_vec())).await.unwrap().revision.0;
        }
        revision
    };
    write(0..KEYS_AT_ONCE + 500, 3).await;
    let large = write(100..120, 100 << 10).await;
    write(110..115, 5).await;
    (server, large)
}

#[tokio::test]
async fn ranges_of_many_keys_and_of_large_old_values_equal_those_of_the_store() {
    let (server, large) = server_of_many_keys().await;
    for request in [
        range("k", "l"),
        pb::RangeRequest { keys_only: true, ..range("k", "l") },
        pb::RangeRequest { limit: 10_100, ..range("k", "l") },
        pb::RangeRequest { sort_target: 1, sort_order: 2, limit: 3, ..range("k", "l") },
        pb::RangeRequest { revision: large, ..range("k", "l") },
        pb::RangeRequest { revision: large, ..range("k001", "k002") },
        pb::RangeRequest { revision: large, limit: 130, ..range("k", "l") },
        pb::RangeRequest { revision: large, limit: 10_200, keys_only: true, ..range("k", "l") },
        pb::RangeRequest { revision: large, min_mod_revision: large, ..range("k", "l") },
        pb::RangeRequest { revision: large, ..range("x", "z") },
    ] {
        let found = server.store.range(&convert::range(request.clone()).unwrap()).unwrap();
        let (kvs, more, count) = {
            let expected = convert::range_response(&found, None);
            (expected.kvs, expected.more, expected.count)
        };
        let answered = server.kv().range(request.clone()).await.unwrap().into_inner();
        assert_eq!(answered.header.unwrap().revision, found.revision.0, "{request:?}");
        assert_eq!((answered.more, answered.count), (more, count), "{request:?}");
        assert!(answered.kvs == kvs, "{request:?}: {} of {}", answered.kvs.len(), kvs.len());
    }
    let future = pb::RangeRequest { revision: large + 1_000_000, ..range("k", "l") };
    assert_eq!(seen(server.kv().range(future).await).0, Code::OutOfRange);
}

#[tokio::test]
async fn a_streamed_range_supports_neither_sorting_nor_filters() {
    let server = Server::start().await;
    for (request, text) in [
        (pb::RangeRequest { sort_order: 2, ..range("k", "l") }, "sort orders"),
        (pb::RangeRequest { sort_target: 2, ..range("k", "l") }, "sort orders"),
        (pb::RangeRequest { min_mod_revision: 2, ..range("k", "l") }, "revision filters"),
    ] {
        let (code, said) = seen(server.kv().range_stream(request).await);
        assert!(code == Code::Unimplemented && said.ends_with(text), "{code:?} {said}");
    }
    let future = pb::RangeRequest { revision: 9, ..range("k", "l") };
    let mut stream = server.kv().range_stream(future).await.unwrap().into_inner();
    let refused = seen(stream.message().await);
    assert_eq!(
        refused,
        (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision".to_owned())
    );
}
