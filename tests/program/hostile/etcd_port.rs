//! Limits of the etcd API against the program, by frames that no client library writes: answers that the
//! client does not read, and requests that never end. `etcd/src/http2/hostile_tests.rs` tests the same limits
//! and more without a process.

use super::frames::{PREFACE, frame};
use crate::SERVER;
use hyper_util::rt::TokioIo;
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_proto::etcd::etcdserverpb::{PutRequest, RangeRequest};
use kstore_tests::wait::PATIENCE;
use kstore_tests::{Launch, Server};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};
use tonic::transport::{Channel, Endpoint};

const RANGE: &str = "/etcdserverpb.KV/Range";
const PUT: &str = "/etcdserverpb.KV/Put";

const VALUES: usize = 4;
const VALUE_BYTES: usize = 1 << 20;

/// Upper bound of the answers that the server holds for one connection.
const UNREAD_BYTES: usize = 256 << 20;

/// Number of reads with answers of one and a half times the bound.
const READS: usize = UNREAD_BYTES / (VALUES * VALUE_BYTES) * 3 / 2;

/// Shortest time after which a partial request or an unread answer is ended. The server checks once a minute;
/// `hostile_tests.rs` has the upper bound, in virtual time.
const SECONDS: u64 = 30;

/// Longest wait for that end: far above the server's own limits.
const LONGEST: Duration = Duration::from_secs(2 * PATIENCE.as_secs());

/// Starts a store alone, with its etcd API on a socket.
fn start(dir: &Path) -> (Server, PathBuf) {
    let socket = dir.join("etcd.sock");
    let url = format!("unix://{}", socket.display());
    let args = ["--components", "store", "--in-memory", "--etcd-listen", &url];
    (Launch::new(SERVER, dir).args(&args).start_silent(), socket)
}

async fn connect(socket: &Path) -> UnixStream {
    let connected = async {
        loop {
            match UnixStream::connect(socket).await {
                Ok(stream) => return stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    timeout(PATIENCE, connected).await.expect("the program listens")
}

pub(super) async fn client(socket: &Path) -> KvClient<Channel> {
    connect(socket).await;
    let socket = socket.to_owned();
    let connect = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://localhost").connect_with_connector(connect).await.unwrap();
    KvClient::new(channel).max_decoding_message_size(2 * VALUES * VALUE_BYTES)
}

/// The headers of a call, without the end of its stream.
fn headers(stream: u32, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    let path = [&[0x83, 0x86, 0x04, length][..], path.as_bytes()].concat();
    frame(1, 4, stream, &[&path[..], &[0x0f, 0x10, 16], b"application/grpc"].concat())
}

/// A request for all keys.
fn read_all(stream: u32) -> Vec<u8> {
    // A message of two fields, each the byte 0: key and range_end.
    let message = [0x0a, 1, 0, 0x12, 1, 0];
    let body = [&[0, 0, 0, 0, 6][..], &message].concat();
    [headers(stream, RANGE), frame(0, 1, stream, &body)].concat()
}

/// Settings with the largest windows that HTTP/2 allows.
fn widest_windows() -> Vec<u8> {
    let settings = [&[0, 4][..], &0x7fff_ffff_u32.to_be_bytes()].concat();
    [frame(4, 0, 0, &settings), frame(8, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes())].concat()
}

/// The next frame: kind, flags, stream, payload.
async fn next(stream: &mut UnixStream) -> std::io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).await?;
    let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Ok((head[3], head[4], number, payload))
}

async fn fill(client: &mut KvClient<Channel>) {
    for n in 0..VALUES {
        let key = vec![b'k', u8::try_from(n).unwrap()].into();
        client
            .put(PutRequest { key, value: vec![7; VALUE_BYTES].into(), ..PutRequest::default() })
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_reads_hold_bounded_memory_and_do_not_delay_other_clients() {
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = start(dir.path());
    let mut others = client(&socket).await;
    fill(&mut others).await;
    let mut greedy = connect(&socket).await;
    let streams = (0..u32::try_from(READS).unwrap()).map(|n| 2 * n + 1);
    let reads: Vec<u8> = streams.flat_map(read_all).collect();
    greedy.write_all(&[PREFACE, &widest_windows(), &reads].concat()).await.unwrap();
    let all = || RangeRequest { key: vec![0].into(), range_end: vec![0].into(), ..RangeRequest::default() };
    for _ in 0..3 {
        let answer = timeout(PATIENCE, others.range(all())).await.expect("others are served");
        assert_eq!(answer.unwrap().into_inner().kvs.len(), VALUES);
    }
    // Bytes of data per stream until its end.
    let (mut answers, mut ended) = (BTreeMap::<u32, usize>::new(), 0);
    let taken = async {
        while ended < READS {
            let (kind, flags, stream, payload) = next(&mut greedy).await.expect("the connection stays");
            if kind == 0 {
                *answers.entry(stream).or_default() += payload.len();
            }
            // Headers that end a stream are its trailers or its refusal.
            ended += usize::from(kind == 1 && flags & 1 == 1);
        }
    };
    timeout(LONGEST, taken).await.expect("each call is answered or refused");
    assert!(answers.values().all(|bytes| *bytes > VALUES * VALUE_BYTES), "no answer is cut");
    let bytes: usize = answers.values().sum();
    println!("{} of {READS} reads were answered, {bytes} bytes", answers.len());
    assert!(answers.len() < READS && bytes >= VALUES * VALUE_BYTES, "{} reads were answered", answers.len());
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partial_requests_and_connections_with_unread_answers_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (server, socket) = start(dir.path());
    let mut others = client(&socket).await;
    fill(&mut others).await;
    let began = Instant::now();
    let mut half = connect(&socket).await;
    let call = [headers(1, PUT), frame(0, 0, 1, &[0, 0, 0])].concat();
    half.write_all(&[PREFACE, &widest_windows(), &call].concat()).await.unwrap();
    let mut silent = connect(&socket).await;
    silent.write_all(&[PREFACE, &widest_windows(), &read_all(1)].concat()).await.unwrap();
    let refused = async {
        loop {
            let (kind, flags, stream, payload) = next(&mut half).await.expect("the connection itself stays");
            if kind == 6 && flags & 1 == 0 {
                half.write_all(&frame(6, 1, 0, &payload)).await.unwrap();
            }
            // Headers that end the stream, or a reset.
            if stream == 1 && (kind == 3 || kind == 1 && flags & 1 == 1) {
                return began.elapsed().as_secs();
            }
        }
    };
    let seconds = timeout(LONGEST, refused).await.expect("half a request ends");
    assert!(seconds >= SECONDS, "{seconds} s");
    // Only the part of the answer that fits into the socket was read; the rest follows once the server has ended
    // the connection, and is incomplete.
    let ended = async {
        while !silent.ready(Interest::READABLE).await.unwrap().is_read_closed() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LONGEST, ended).await.expect("the connection is ended");
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, silent.read_to_end(&mut rest)).await.expect("it was ended");
    assert!(rest.len() < VALUES * VALUE_BYTES, "{} bytes", rest.len());
    assert!(server.terminate().success());
}
