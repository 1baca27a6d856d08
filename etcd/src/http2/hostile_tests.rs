//! Tests with hostile clients, and bounds on the resources that they can use. `tests` has ordinary protocol errors.

use super::*;
use crate::budget::{Budget, ConnectionBudget};
use crate::calls::Calls;
use crate::http2::frame::WINDOW_MAX;
use crate::node::{Member, Node};
use axum::Router;
use kstore_nondet::Nondet;
use kstore_proto::etcd::etcdserverpb::{RangeRequest, RequestOp, TxnRequest, request_op};
use kstore_store::{Config, Op, Store, Txn};
use proptest::prelude::*;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// Whether a client reads the responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientReads {
    All,
    Nothing,
}

async fn service() -> Service {
    let store = Store::open(Config::memory(), Nondet::real()).await.unwrap();
    let node = Node::new(store, Member { name: "here", url: "http://here" }, CancellationToken::new());
    Service {
        node,
        router: Router::new(),
        pages: Router::new(),
        calls: Calls::default(),
        budget: Budget::default(),
        activity: Arc::default(),
    }
}

async fn act(mut io: DuplexStream, sent: &[u8], reads: ClientReads) {
    let (mut read, mut write) = tokio::io::split(&mut io);
    let say = async {
        // The server may have closed the connection.
        if write.write_all(sent).await.is_ok() && reads == ClientReads::All {
            let _ = write.shutdown().await;
        }
    };
    let hear = async {
        if reads == ClientReads::All {
            let _ = read.read_to_end(&mut Vec::new()).await;
        }
    };
    tokio::join!(say, hear);
    std::future::pending::<()>().await;
}

/// Serves a client that sends `sent` after its preface, until the connection ends. Asserts that the resources held then
/// are bounded.
async fn serve(sent: &[u8], reads: ClientReads) -> Connection<DuplexStream> {
    let (io, end) = duplex(1 << 16);
    let mut connection = Connection::new(end, BytesMut::new(), service().await, CancellationToken::new());
    let served = async {
        tokio::select! {
            biased;
            served = poll_fn(|cx| {
                let polled = connection.poll(cx);
                check(&connection);
                polled
            }) => served,
            () = act(io, sent, reads) => unreachable!("the client waits for the end"),
        }
    };
    let ended = tokio::time::timeout(limits::PING_AFTER * 2, served).await;
    let _: io::Result<()> = ended.expect("a connection ends");
    connection
}

fn check<T>(connection: &Connection<T>) {
    assert!(connection.outbox.bytes.len() <= 2 * limits::OUTBOX_BYTES + 2 * PAYLOAD_BYTES);
    assert!(connection.inbox.len() <= limits::READ_BYTES * 4);
    assert!(connection.streams.len() <= limits::STREAMS);
    assert!(connection.writes.len() <= limits::WRITES);
    assert!(connection.blocked.len() <= 2 * limits::STREAMS + 1);
    assert!(connection.block.as_ref().is_none_or(|block| block.bytes.len() <= limits::HEADER_BYTES));
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// The header block of a request.
fn block(path: &str) -> Vec<u8> {
    let path = [&[0x83, 0x86, 0x04, path.len() as u8][..], path.as_bytes()].concat();
    [&path[..], &[0x0f, 0x10, 16], b"application/grpc"].concat()
}

const PUT: &str = "/etcdserverpb.KV/Put";
const WATCH: &str = "/etcdserverpb.Watch/Watch";

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop_oneof![Just(PUT), Just(WATCH), Just("/etcdserverpb.KV/Range"), Just("/x")].prop_map(block),
        2 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => any::<[u8; 4]>().prop_map(|bytes| bytes.to_vec()),
        1 => (0u8..8, any::<u32>()).prop_map(|(id, value)| [&[0, id][..], &value.to_be_bytes()].concat()),
        1 => Just(vec![0, 0, 0, 0, 3, 10, 1, b'k']),
        1 => Just(vec![0; 8]),
        1 => Just(Vec::new()),
    ]
}

/// A frame that is usually valid and sometimes not.
fn odd() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![4 => Just(4u8), 3 => Just(5), 3 => Just(0), 1 => Just(1), 1 => any::<u8>()];
    let kind = prop_oneof![4 => Just(1u8), 3 => Just(0), 1 => Just(9), 4 => 0u8..11];
    (kind, flags, 0u32..12, payload()).prop_map(|(kind, flags, stream, payload)| {
        // Mostly on streams that the client has opened.
        let stream = if matches!(kind, 4 | 6 | 7) { stream / 11 } else { stream | u32::from(stream > 1) };
        raw(kind, flags, stream, &payload)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_bytes_are_handled_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        run(serve(&bytes, ClientReads::All));
    }

    #[test]
    fn any_frames_are_handled_without_panic(frames in proptest::collection::vec(odd(), 0..60), taken in any::<bool>()) {
        run(serve(&frames.concat(), if taken { ClientReads::All } else { ClientReads::Nothing }));
    }
}

#[tokio::test(start_paused = true)]
async fn flooding_clients_that_do_not_read_use_bounded_memory() {
    let ping = raw(6, 0, 0, &[0; 8]).repeat(200_000);
    serve(&ping, ClientReads::Nothing).await;
}

#[tokio::test(start_paused = true)]
async fn endless_empty_continuation_frames_end_the_connection() {
    let mut sent = raw(1, 0, 1, &block(PUT));
    sent.extend(raw(9, 0, 1, &[]).repeat(limits::HEADER_FRAMES - 1));
    let connection = serve(&sent, ClientReads::All).await;
    assert!(connection.block.is_some(), "so many are borne");
    sent.extend(raw(9, 0, 1, &[]));
    sent.extend(raw(9, 4, 1, &[]));
    let connection = serve(&sent, ClientReads::All).await;
    assert_eq!(connection.last, 0, "the stream was never opened");
}

/// Opens and resets this number of streams.
fn given_up(streams: u32) -> Vec<u8> {
    let block = block(PUT);
    (0..streams)
        .flat_map(|n| [raw(1, 4, 2 * n + 1, &block), raw(3, 0, 2 * n + 1, &[0, 0, 0, 8])].concat())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_cancelled_calls_is_accepted_and_an_endless_one_ends_the_connection() {
    let all = serve(&given_up(limits::ABUSE_TOKENS), ClientReads::All).await;
    assert_eq!(all.last, 2 * limits::ABUSE_TOKENS - 1);
    let cut = serve(&given_up(limits::ABUSE_TOKENS + 100), ClientReads::All).await;
    assert_eq!(cut.last, 2 * limits::ABUSE_TOKENS + 1);
    assert!(cut.streams.is_empty());
}

#[tokio::test(start_paused = true)]
async fn streams_that_never_send_their_bodies_are_bounded() {
    let block = block(PUT);
    let sent: Vec<u8> = (0..limits::STREAMS as u32 + 5).flat_map(|n| raw(1, 4, 2 * n + 1, &block)).collect();
    assert_eq!(serve(&sent, ClientReads::All).await.streams.len(), limits::STREAMS);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_never_end_are_bounded() {
    let (block, mut sent) = (block(PUT), Vec::new());
    let announced = [&[0][..], &(limits::MESSAGE_BYTES as u32).to_be_bytes()].concat();
    let piece = vec![0; PAYLOAD_BYTES];
    for n in 0..(limits::BODY_BYTES / limits::MESSAGE_BYTES) as u32 + 2 {
        sent.extend(raw(1, 4, 2 * n + 1, &block));
        sent.extend(raw(0, 0, 2 * n + 1, &announced));
        for _ in 0..limits::MESSAGE_BYTES / PAYLOAD_BYTES {
            sent.extend(raw(0, 0, 2 * n + 1, &piece));
        }
    }
    let connection = serve(&sent, ClientReads::All).await;
    assert!(connection.streams.len() <= limits::BODY_BYTES / limits::MESSAGE_BYTES);
    drop(connection.streams);
    assert_eq!(
        connection.outbox.share.free_body_bytes(),
        limits::BODY_BYTES,
        "what is given up is free again"
    );
}

#[tokio::test(start_paused = true)]
async fn padding_is_returned_to_the_window() {
    let mut sent = raw(1, 4, 1, &block(PUT));
    sent.extend(raw(0, 8, 1, &[3, 0, 0, 0, 0]));
    let (io, end) = duplex(1 << 16);
    let mut connection =
        Connection::new(end, BytesMut::from(&sent[..]), service().await, CancellationToken::new());
    connection.take_frames().unwrap();
    let mut granted = Vec::new();
    frame::window_update(&mut granted, 1, 4);
    assert!(connection.outbox.bytes.ends_with(&granted));
    drop(io);
}

/// A put on each of this number of streams, each in one frame.
fn puts(streams: u32) -> Vec<u8> {
    let (block, body) = (block(PUT), [0, 0, 0, 0, 3, 10, 1, b'k']);
    (0..streams).flat_map(|n| [raw(1, 4, 2 * n + 1, &block), raw(0, 1, 2 * n + 1, &body)].concat()).collect()
}

#[tokio::test(start_paused = true)]
async fn pending_writes_are_bounded_and_all_complete() {
    let all = limits::WRITES as u32 + 1_000;
    let (io, end) = duplex(1 << 20);
    let mut connection =
        Connection::new(end, BytesMut::from(&puts(all)[..]), service().await, CancellationToken::new());
    connection.take_frames().unwrap();
    assert_eq!(connection.writes.len(), limits::WRITES);
    let client = act(io, &[], ClientReads::All);
    let served = poll_fn(|cx| {
        if connection.last == 2 * all - 1 && connection.streams.is_empty() {
            return Poll::Ready(Ok(()));
        }
        connection.poll(cx)
    });
    tokio::select! {
        biased;
        served = served => served.unwrap(),
        () = client => unreachable!("the client waits for the end"),
    }
    assert_eq!(connection.last, 2 * all - 1, "what was put off is done later");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_responses_gets_no_further_ones() {
    let (_io, end) = duplex(1 << 20);
    let mut connection =
        Connection::new(end, BytesMut::from(&puts(1)[..]), service().await, CancellationToken::new());
    let all = connection.outbox.share.acquire(usize::MAX).unwrap();
    connection.take_frames().unwrap();
    assert!(connection.writes.is_empty() && connection.streams.is_empty(), "refused at once");
    drop(all);
    assert!(!connection.outbox.share.is_exhausted());
}

/// Number of values that [`large_service`] stores, and the bytes of each.
const VALUES: usize = 12;
const VALUE_BYTES: usize = 1 << 20;

/// A service over a store of several MiB.
async fn large_service() -> Service {
    let service = service().await;
    for n in 0..VALUES {
        let put = Op::put(vec![b'k', n as u8], vec![7; VALUE_BYTES]);
        service.node.store.txn(Txn::of(vec![put])).await.unwrap();
    }
    service
}

/// A call whose request is in one frame.
fn call_of(stream: u32, path: &str, message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let body = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
    [raw(1, 4, stream, &block(path)), raw(0, 1, stream, &body)].concat()
}

fn all_keys() -> RangeRequest {
    RangeRequest { key: vec![0].into(), range_end: vec![0].into(), ..RangeRequest::default() }
}

const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";

/// Opens the largest windows that the protocol permits.
fn widest_windows() -> Vec<u8> {
    let settings = [&[0, 4][..], &(WINDOW_MAX as u32).to_be_bytes()].concat();
    let more = (WINDOW_MAX - WINDOW) as u32;
    [raw(4, 0, 0, &settings), raw(8, 0, 0, &more.to_be_bytes())].concat()
}

#[tokio::test(start_paused = true)]
async fn large_responses_are_framed_on_demand_with_any_window() {
    let mut sent = widest_windows();
    for n in 0..4 {
        sent.extend(call_of(2 * n + 1, RANGE, &all_keys()));
    }
    let (mut io, end) = duplex(1 << 16);
    let mut connection =
        Connection::new(end, BytesMut::from(&sent[..]), large_service().await, CancellationToken::new());
    let (all, mut sink) = (4 * VALUES * VALUE_BYTES, tokio::io::sink());
    let served = poll_fn(|cx| {
        let polled = connection.poll(cx);
        check(&connection);
        if connection.outbox.framed as usize >= all { Poll::Ready(Ok(())) } else { polled }
    });
    tokio::select! {
        biased;
        served = served => served.unwrap(),
        _ = tokio::io::copy(&mut io, &mut sink) => unreachable!("the connection does not end before"),
    }
    assert!(connection.outbox.framed as usize >= all);
}

#[tokio::test(start_paused = true)]
async fn reads_without_budget_are_refused() {
    let sent: Vec<u8> = (0..10).flat_map(|n| call_of(2 * n + 1, RANGE, &all_keys())).collect();
    let (_io, end) = duplex(1 << 16);
    let mut connection =
        Connection::new(end, BytesMut::from(&sent[..]), large_service().await, CancellationToken::new());
    let room = 2 * VALUES * VALUE_BYTES + VALUE_BYTES;
    let held = connection.outbox.share.acquire(limits::UNTAKEN_BYTES_PER_CONNECTION - room);
    connection.take_frames().unwrap();
    assert_eq!(
        (held.is_some(), connection.streams.len()),
        (true, 2),
        "the others have heard that there is no room"
    );
    let waits = |part: &ResponsePart| if let ResponsePart::Data(bytes, _) = part { bytes.len() } else { 0 };
    let waiting: usize =
        connection.streams.values().flat_map(|stream| stream.waiting.iter().map(waits)).sum();
    assert!(waiting <= room);
}

fn txn_of(reads: usize) -> TxnRequest {
    let read = RequestOp { request: Some(request_op::Request::RequestRange(all_keys())) };
    TxnRequest { success: vec![read; reads], ..TxnRequest::default() }
}

/// Lets the connection and the store work until they are idle.
async fn settle(connection: &mut Connection<DuplexStream>) {
    for _ in 0..50 {
        poll_fn(|cx| {
            let _ = connection.poll(cx);
            Poll::Ready(())
        })
        .await;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn transactions_with_unbounded_reads_are_bounded_and_their_results_wait() {
    let sent: Vec<u8> = (0..1_000).flat_map(|n| call_of(2 * n + 1, TXN, &txn_of(2))).collect();
    let (io, end) = duplex(1 << 20);
    let mut connection =
        Connection::new(end, BytesMut::from(&sent[..]), large_service().await, CancellationToken::new());
    connection.take_frames().unwrap();
    let begun = limits::TXN_OPS / 2;
    assert_eq!(
        (connection.writes.len(), connection.streams.len()),
        (begun, begun),
        "the others were refused"
    );
    let all = connection.outbox.share.acquire(usize::MAX);
    assert!(all.is_some());
    settle(&mut connection).await;
    assert_eq!((connection.writes.len(), connection.outbox.framed), (begun, 0), "no result was written out");
    drop(all);
    settle(&mut connection).await;
    let written = begun - connection.writes.len();
    let most = limits::UNTAKEN_BYTES_PER_CONNECTION / (2 * VALUES * VALUE_BYTES) + 1;
    assert!((1..=most).contains(&written), "{written} of at most {most}");
    drop(io);
}

#[tokio::test(start_paused = true)]
async fn ranges_of_many_keys_wait_for_each_other_and_are_refused_without_budget() {
    let service = service().await;
    for first in (0..limits::KEYS_AT_ONCE as u32 + 100).step_by(100) {
        let puts = (first..first + 100).map(|n: u32| Op::put(n.to_be_bytes().to_vec(), "v"));
        service.node.store.txn(Txn::of(puts.collect())).await.unwrap();
    }
    let sent: Vec<u8> = (0..10).flat_map(|n| call_of(2 * n + 1, RANGE, &all_keys())).collect();
    let (_io, end) = duplex(1 << 20);
    let turns = service.budget.clone();
    let mut connection = Connection::new(end, BytesMut::from(&sent[..]), service, CancellationToken::new());
    let [_, turns] = ConnectionBudget::of(turns).large_reads();
    let others = turns.acquire_many(limits::LARGE_READS as u32).await.unwrap();
    connection.take_frames().unwrap();
    settle(&mut connection).await;
    assert_eq!(connection.writes.len(), 10, "they wait for the reads of other connections");
    assert!(!connection.outbox.share.is_used());
    let held = connection.outbox.share.acquire(limits::UNTAKEN_BYTES_PER_CONNECTION - 1);
    drop(others);
    for _ in 0..100 {
        settle(&mut connection).await;
    }
    assert!(held.is_some() && connection.writes.is_empty() && connection.streams.is_empty());
    assert_eq!((connection.outbox.framed, turns.available_permits()), (0, limits::LARGE_READS));
}

#[tokio::test(start_paused = true)]
async fn lists_of_leases_have_their_budget_before_they_are_made() {
    const LEASES: &str = "/etcdserverpb.Lease/LeaseLeases";
    let (made, mut service) = (Arc::new(AtomicUsize::new(0)), service().await);
    let counter = made.clone();
    let make = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        async { vec![7_u8; 100] }
    };
    service.router = Router::new().route(LEASES, axum::routing::post(make));
    let sent: Vec<u8> = (0..3).flat_map(|n| call_of(2 * n + 1, LEASES, &TxnRequest::default())).collect();
    let (_io, end) = duplex(1 << 16);
    let mut connection = Connection::new(end, BytesMut::from(&sent[..]), service, CancellationToken::new());
    let free = limits::LEASE_LIST_BYTES - 1;
    let held = connection.outbox.share.acquire(limits::UNTAKEN_BYTES_PER_CONNECTION - free);
    settle(&mut connection).await;
    assert_eq!((held.is_some(), made.load(Ordering::Relaxed)), (true, 0));
    drop(held);
    settle(&mut connection).await;
    assert_eq!(made.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_with_an_incomplete_request_times_out() {
    let sent = [raw(1, 4, 1, &block(PUT)), raw(0, 0, 1, &[0, 0, 0])].concat();
    let (_io, end) = duplex(1 << 16);
    let mut connection =
        Connection::new(end, BytesMut::from(&sent[..]), service().await, CancellationToken::new());
    let mut after = async |time| {
        let _ = tokio::time::timeout(time, poll_fn(|cx| connection.poll(cx))).await;
        (connection.streams.len(), connection.incomplete.len(), connection.outbox.share.free_body_bytes())
    };
    assert_eq!(after(limits::REQUEST_TIME / 2).await, (1, 1, limits::BODY_BYTES - 3));
    assert_eq!(after(limits::REQUEST_TIME).await, (0, 0, limits::BODY_BYTES));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_only_answers_pings_is_disconnected() {
    let (mut io, end) = duplex(1 << 16);
    let sent = call_of(1, RANGE, &all_keys());
    let mut connection =
        Connection::new(end, BytesMut::from(&sent[..]), large_service().await, CancellationToken::new());
    let client = async {
        let (mut read, mut write) = tokio::io::split(&mut io);
        let answers = async {
            while write.write_all(&raw(6, 1, 0, &[0; 8])).await.is_ok() {
                tokio::time::sleep(std::time::Duration::from_secs(20)).await;
            }
        };
        let mut sink = tokio::io::sink();
        let _ = tokio::join!(answers, tokio::io::copy(&mut read, &mut sink));
        std::future::pending::<()>().await;
    };
    let served = tokio::time::timeout(3 * limits::STALLED_AFTER, poll_fn(|cx| connection.poll(cx)));
    tokio::select! {
        biased;
        served = served => assert!(served.is_ok(), "the connection ends"),
        () = client => unreachable!("the client waits for the end"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_is_not_disconnected() {
    let (mut io, end) = duplex(1 << 12);
    let sent = [widest_windows(), call_of(1, RANGE, &all_keys())].concat();
    let mut connection =
        Connection::new(end, BytesMut::from(&sent[..]), large_service().await, CancellationToken::new());
    let client = async {
        let (mut read, mut write) = tokio::io::split(&mut io);
        let mut piece = [0; 1 << 10];
        // A hundred bytes a second, and only answers to pings besides.
        while read.read_exact(&mut piece).await.is_ok()
            && write.write_all(&raw(6, 1, 0, &[0; 8])).await.is_ok()
        {
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        }
    };
    tokio::select! {
        biased;
        _ = poll_fn(|cx| connection.poll(cx)) => panic!("the connection was cut"),
        () = client => panic!("the connection was cut"),
        () = tokio::time::sleep(10 * limits::STALLED_AFTER) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_vanished_client_is_detected_within_minutes() {
    let (_io, end) = duplex(1 << 16);
    let mut connection = Connection::new(end, BytesMut::new(), service().await, CancellationToken::new());
    let most = limits::PING_AFTER + limits::PING_TIMEOUT + std::time::Duration::from_secs(1);
    assert!(most < std::time::Duration::from_secs(120));
    assert!(tokio::time::timeout(most, poll_fn(|cx| connection.poll(cx))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_window_is_never_opened_is_reset_on_a_connection_that_is_alive() {
    let (mut io, end) = duplex(1 << 16);
    // The large response waits for its stream's window, which is used up; the connection's window is wide.
    let wide = raw(8, 0, 0, &1_000_000_u32.to_be_bytes());
    let sent = [wide, call_of(1, RANGE, &all_keys())].concat();
    let mut connection =
        Connection::new(end, BytesMut::from(&sent[..]), large_service().await, CancellationToken::new());
    let client = async {
        let (mut read, mut write) = tokio::io::split(&mut io);
        let calls = async {
            for stream in (3..).step_by(2) {
                write
                    .write_all(&call_of(
                        stream,
                        RANGE,
                        &RangeRequest { limit: 1, count_only: true, ..all_keys() },
                    ))
                    .await
                    .unwrap();
                tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            }
        };
        let mut sink = tokio::io::sink();
        let _ = tokio::join!(calls, tokio::io::copy(&mut read, &mut sink));
    };
    let served = poll_fn(|cx| {
        let polled = connection.poll(cx);
        let is_waiting = connection.streams.contains_key(&1);
        if is_waiting || connection.last == 0 { polled.map(|_| "ended") } else { Poll::Ready("reset") }
    });
    let began = Instant::now();
    tokio::select! {
        biased;
        served = served => assert_eq!(served, "reset"),
        () = client => unreachable!("the client goes on"),
    }
    let took = began.elapsed();
    assert!(took >= limits::STALLED_AFTER && took <= 3 * limits::STALLED_AFTER, "{took:?}");
    assert!(!connection.outbox.share.is_used());
}

#[tokio::test(start_paused = true)]
async fn reads_of_many_keys_let_other_tasks_run() {
    let service = service().await;
    for first in (0..1_000).step_by(100) {
        let puts = (first..first + 100).map(|n: u32| Op::put(n.to_be_bytes().to_vec(), "v"));
        service.node.store.txn(Txn::of(puts.collect())).await.unwrap();
    }
    let count = RangeRequest { count_only: true, ..all_keys() };
    let sent: Vec<u8> = (0..100).flat_map(|n| call_of(2 * n + 1, RANGE, &count)).collect();
    let (_io, end) = duplex(1 << 20);
    let mut connection = Connection::new(end, BytesMut::from(&sent[..]), service, CancellationToken::new());
    let mut polls = 0;
    while connection.last < 199 {
        let polled = poll_fn(|cx| Poll::Ready(connection.poll(cx))).await;
        assert!(polled.is_pending());
        polls += 1;
        assert!(connection.last <= 2 * polls * (limits::KEYS_AT_ONCE as u32 / 1_000 + 1), "{polls}");
        tokio::task::yield_now().await;
    }
    assert!((5..=15).contains(&polls), "{polls}");
}
