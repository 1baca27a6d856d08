//! Connections to clients that send what no client should, and what it may cost. What ordinary breaches of the protocol are
//! answered with is in `tests`.

use axum::Router;
use kstore_nondet::Nondet;
use kstore_store::{Config, Store};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::calls::Calls;
use crate::node::Node;

/// What a client does about answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    All,
    Nothing,
}

async fn service() -> Service {
    let store = Store::open(Config::memory(), Nondet::real()).await.unwrap();
    let node = Node::new(store, "http://here", CancellationToken::new());
    Service { node, router: Router::new(), calls: Calls::default() }
}

async fn act(mut io: DuplexStream, sent: &[u8], reads: Reads) {
    let (mut read, mut write) = tokio::io::split(&mut io);
    let say = async {
        // The server may have had enough.
        if write.write_all(sent).await.is_ok() && reads == Reads::All {
            let _ = write.shutdown().await;
        }
    };
    let hear = async {
        if reads == Reads::All {
            let _ = read.read_to_end(&mut Vec::new()).await;
        }
    };
    tokio::join!(say, hear);
    std::future::pending::<()>().await;
}

/// Serves a client that sends this behind its preface, until the connection ends; what is held then must be bounded.
async fn serve(sent: &[u8], reads: Reads) -> Connection<DuplexStream> {
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

/// A request's headers.
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

/// A frame as it might be, and now and then as it must not be.
fn odd() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![4 => Just(4u8), 3 => Just(5), 3 => Just(0), 1 => Just(1), 1 => any::<u8>()];
    let kind = prop_oneof![4 => Just(1u8), 3 => Just(0), 1 => Just(9), 4 => 0u8..11];
    (kind, flags, 0u32..12, payload()).prop_map(|(kind, flags, stream, payload)| {
        // Mostly on streams that a client has.
        let stream = if matches!(kind, 4 | 6 | 7) { stream / 11 } else { stream | u32::from(stream > 1) };
        raw(kind, flags, stream, &payload)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_bytes_are_borne(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        run(serve(&bytes, Reads::All));
    }

    #[test]
    fn any_frames_are_borne(frames in proptest::collection::vec(odd(), 0..60), taken in any::<bool>()) {
        run(serve(&frames.concat(), if taken { Reads::All } else { Reads::Nothing }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_that_is_answered_but_not_read_holds_little_and_ends() {
    let ping = raw(6, 0, 0, &[0; 8]).repeat(200_000);
    serve(&ping, Reads::Nothing).await;
}

#[tokio::test(start_paused = true)]
async fn who_sends_a_block_in_endless_empty_frames_is_cut() {
    let mut sent = raw(1, 0, 1, &block(PUT));
    sent.extend(raw(9, 0, 1, &[]).repeat(limits::HEADER_FRAMES - 1));
    let connection = serve(&sent, Reads::All).await;
    assert!(connection.block.is_some(), "so many are borne");
    sent.extend(raw(9, 0, 1, &[]));
    sent.extend(raw(9, 4, 1, &[]));
    let connection = serve(&sent, Reads::All).await;
    assert_eq!(connection.last, 0, "the stream was never opened");
}

/// Opens and gives up this many streams.
fn given_up(streams: u32) -> Vec<u8> {
    let block = block(PUT);
    (0..streams)
        .flat_map(|n| [raw(1, 4, 2 * n + 1, &block), raw(3, 0, 2 * n + 1, &[0, 0, 0, 8])].concat())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_calls_given_up_is_borne_and_an_endless_one_is_cut() {
    let all = serve(&given_up(limits::BOTHERS), Reads::All).await;
    assert_eq!(all.last, 2 * limits::BOTHERS - 1);
    let cut = serve(&given_up(limits::BOTHERS + 100), Reads::All).await;
    assert_eq!(cut.last, 2 * limits::BOTHERS + 1);
    assert!(cut.streams.is_empty());
}

#[tokio::test(start_paused = true)]
async fn streams_that_never_send_their_bodies_are_bounded() {
    let block = block(PUT);
    let sent: Vec<u8> = (0..limits::STREAMS as u32 + 5).flat_map(|n| raw(1, 4, 2 * n + 1, &block)).collect();
    assert_eq!(serve(&sent, Reads::All).await.streams.len(), limits::STREAMS);
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
    let connection = serve(&sent, Reads::All).await;
    assert!(connection.streams.len() <= limits::BODY_BYTES / limits::MESSAGE_BYTES);
    drop(connection.streams);
    assert_eq!(connection.bodies.available_permits(), limits::BODY_BYTES, "what is given up is free again");
}

#[tokio::test(start_paused = true)]
async fn padding_is_given_back() {
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

/// Puts, each in one piece, on this many streams from the first.
fn puts(streams: u32) -> Vec<u8> {
    let (block, body) = (block(PUT), [0, 0, 0, 0, 3, 10, 1, b'k']);
    (0..streams).flat_map(|n| [raw(1, 4, 2 * n + 1, &block), raw(0, 1, 2 * n + 1, &body)].concat()).collect()
}

#[tokio::test(start_paused = true)]
async fn writes_under_way_are_bounded_and_all_get_done() {
    let all = limits::WRITES as u32 + 1_000;
    let (io, end) = duplex(1 << 20);
    let mut connection =
        Connection::new(end, BytesMut::from(&puts(all)[..]), service().await, CancellationToken::new());
    connection.take_frames().unwrap();
    assert_eq!(connection.writes.len(), limits::WRITES);
    let client = act(io, &[], Reads::All);
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
async fn who_takes_no_answers_gets_no_further_ones() {
    let (_io, end) = duplex(1 << 20);
    let mut connection =
        Connection::new(end, BytesMut::from(&puts(1)[..]), service().await, CancellationToken::new());
    let all = connection.outbox.untaken.clone().try_acquire_many_owned(limits::UNTAKEN_BYTES as u32).unwrap();
    connection.take_frames().unwrap();
    assert!(connection.writes.is_empty() && connection.streams.is_empty(), "refused at once");
    drop(all);
    assert!(!connection.outbox.is_overdrawn());
}
