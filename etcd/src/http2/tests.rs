//! Tests of the connection on the level of frames, with clients that break rules. The crate's other tests use ordinary
//! clients.

use super::frame::{self, HEAD, Head, Kind, PREFACE, Setting};
use super::{DetectedProtocol, detect_protocol};
use crate::budget::Budget;
use crate::calls::Calls;
use crate::node::{Member, Node};
use crate::service::Service;
use axum::Router;
use kstore_nondet::Nondet;
use kstore_proto::etcd::etcdserverpb::{self as pb, RangeResponse};
use kstore_store::{Config, Store};
use prost::Message;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_util::sync::CancellationToken;

/// A client that writes raw frames.
struct Client {
    io: DuplexStream,
    out: Vec<u8>,
    read: Vec<u8>,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<()>,
}

/// A received frame.
#[derive(Debug)]
struct ReceivedFrame {
    kind: Kind,
    stream: u32,
    ends: bool,
    payload: Vec<u8>,
}

impl Client {
    async fn open(settings: &[(Setting, u32)]) -> Self {
        let store = Store::open(Config::memory(), Nondet::real()).await.unwrap();
        let stop = CancellationToken::new();
        let node = Node::new(store, Member { name: "here", url: "http://here" }, stop.clone());
        let service = Service {
            node,
            router: Router::new(),
            pages: Router::new(),
            calls: Calls::default(),
            budget: Budget::default(),
            activity: Arc::default(),
        };
        let (io, end) = duplex(1 << 20);
        let server = {
            let stop = stop.clone();
            tokio::spawn(async move {
                let Ok(DetectedProtocol::Http2(http2)) = detect_protocol(end).await else {
                    panic!("the preface was sent")
                };
                http2.serve(service, stop).await.unwrap();
            })
        };
        let mut out = PREFACE.to_vec();
        frame::settings(&mut out, settings);
        Self { io, out, read: Vec::new(), stop, server }
    }

    /// Calls a method with a body in pieces; the last one ends it.
    fn call(&mut self, stream: u32, method: &str, pieces: &[&[u8]]) {
        frame::headers(&mut self.out, stream, false, |block| {
            block.extend_from_slice(&[0x83, 0x86, 0x04, method.len() as u8 + 17]);
            block.extend_from_slice(b"/etcdserverpb.KV/");
            block.extend_from_slice(method.as_bytes());
            block.extend_from_slice(&[0x0f, 0x10, 16]);
            block.extend_from_slice(b"application/grpc");
        });
        for piece in pieces {
            frame::data(&mut self.out, stream, piece.len());
            self.out.extend_from_slice(piece);
        }
        frame::end(&mut self.out, stream);
    }

    fn put(&mut self, stream: u32, key: &'static str, bytes: usize) {
        let put = pb::PutRequest { key: key.into(), value: vec![7; bytes].into(), ..Default::default() };
        let body = message(&put);
        self.call(stream, "Put", &body.chunks(10_000).collect::<Vec<_>>());
    }

    async fn send(&mut self) {
        self.io.write_all(&std::mem::take(&mut self.out)).await.unwrap();
    }

    /// The next frame; none if the server closed the connection.
    async fn next(&mut self) -> Option<ReceivedFrame> {
        self.send().await;
        loop {
            if let Some(head) = Head::read(&self.read)
                && self.read.len() >= HEAD + head.len
            {
                let payload = self.read[HEAD..HEAD + head.len].to_vec();
                self.read.drain(..HEAD + head.len);
                let ends = matches!(head.kind, Kind::Data | Kind::Headers) && head.ends_stream();
                return Some(ReceivedFrame { kind: head.kind, stream: head.stream, ends, payload });
            }
            if self.io.read_buf(&mut self.read).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// The data of a stream until its end; grants `grant` bytes after each frame.
    async fn answer(&mut self, stream: u32, grant: u32) -> Vec<u8> {
        let mut data = Vec::new();
        loop {
            let came = self.next().await.expect("the server answers");
            if came.stream != stream {
                continue;
            }
            if came.kind == Kind::Data {
                data.extend_from_slice(&came.payload);
                if grant > 0 {
                    frame::window_update(&mut self.out, stream, grant);
                    frame::window_update(&mut self.out, 0, grant);
                }
            }
            if came.ends {
                return data;
            }
        }
    }

    /// The error code with which the server ends the connection.
    async fn refusal(mut self) -> u32 {
        let mut reason = None;
        while let Some(came) = self.next().await {
            if came.kind == Kind::GoAway {
                reason = came.payload[4..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            }
        }
        reason.expect("the server says why")
    }
}

fn message(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    [&[0][..], &(body.len() as u32).to_be_bytes(), &body].concat()
}

fn range(key: &'static str) -> Vec<u8> {
    message(&pb::RangeRequest { key: key.into(), ..Default::default() })
}

#[tokio::test]
async fn calls_are_answered_however_their_bodies_are_split() {
    let mut client = Client::open(&[]).await;
    client.put(1, "k", 50_000);
    assert!(!client.answer(1, 0).await.is_empty());
    let body = range("k");
    client.call(3, "Range", &body.chunks(1).collect::<Vec<_>>());
    let answer = client.answer(3, 100_000).await;
    assert_eq!(RangeResponse::decode(&answer[5..]).unwrap().kvs[0].value.len(), 50_000);
}

#[tokio::test]
async fn a_response_is_sent_as_fast_as_the_windows_permit() {
    let mut client = Client::open(&[(Setting::InitialWindow, 0)]).await;
    client.put(1, "k", 30_000);
    // Nothing may be sent before the window is opened.
    frame::window_update(&mut client.out, 1, 100);
    client.answer(1, 0).await;
    client.call(3, "Range", &[&range("k")]);
    frame::window_update(&mut client.out, 3, 1_000);
    let answer = client.answer(3, 1_000).await;
    assert_eq!(RangeResponse::decode(&answer[5..]).unwrap().kvs[0].value.len(), 30_000);
    // The setting applies to open streams too.
    client.call(5, "Range", &[&range("k")]);
    frame::settings(&mut client.out, &[(Setting::InitialWindow, 60_000)]);
    assert_eq!(client.answer(5, 0).await.len(), answer.len());
}

#[tokio::test]
async fn a_cancelled_call_is_not_answered_and_affects_no_other() {
    let mut client = Client::open(&[]).await;
    for stream in (1..2_001).step_by(2) {
        frame::headers(&mut client.out, stream, false, |block| {
            block.extend_from_slice(&[0x83, 0x86, 0x04, 20]);
            block.extend_from_slice(b"/etcdserverpb.KV/Put");
        });
        frame::reset(&mut client.out, stream, frame::Reason::NoError);
    }
    client.put(2_001, "k", 10);
    assert!(!client.answer(2_001, 0).await.is_empty());
}

#[tokio::test]
async fn pings_are_answered_and_a_stop_ends_the_connection() {
    let mut client = Client::open(&[]).await;
    frame::ping(&mut client.out, b"12345678", false);
    let pong = loop {
        let came = client.next().await.unwrap();
        if came.kind == Kind::Ping {
            break came.payload;
        }
    };
    assert_eq!(pong, b"12345678");
    client.stop.cancel();
    while client.next().await.is_some() {}
    client.server.await.unwrap();
}

#[tokio::test]
async fn protocol_errors_are_reported_with_their_code() {
    type Break = fn(&mut Vec<u8>);
    let breaks: [(Break, u32); 27] = [
        (|out| frame::data(out, 1, 0), 1),
        (|out| frame::headers(out, 2, true, |block| block.push(0x83)), 1),
        (|out| frame::headers(out, 1, true, |block| block.push(0x80)), 9),
        (|out| frame::data(out, 1, 16_385), 6),
        (|out| out.extend_from_slice(&[0, 0, 1, 9, 4, 0, 0, 0, 1, 0]), 1),
        (|out| out.extend_from_slice(&[0, 0, 0, 5, 4, 0, 0, 0, 1]), 1),
        (|out| frame::window_update(out, 0, 0x7fff_ffff), 3),
        (|out| frame::window_update(out, 0, 0), 1),
        (|out| frame::window_update(out, 1, 1), 1),
        (|out| out.extend_from_slice(&[0, 0, 5, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]), 6),
        (|out| frame::headers(out, 0, true, |block| block.push(0x83)), 1),
        (|out| frame::reset(out, 0, frame::Reason::NoError), 1),
        (|out| frame::reset(out, 1, frame::Reason::NoError), 1),
        (|out| out.extend_from_slice(&[0, 0, 3, 3, 0, 0, 0, 0, 1, 0, 0, 0]), 6),
        (|out| frame::settings(out, &[(Setting::InitialWindow, 1 << 31)]), 3),
        (|out| frame::settings(out, &[(Setting::MaxFrame, 16_383)]), 1),
        (|out| frame::settings(out, &[(Setting::MaxFrame, 1 << 24)]), 1),
        (|out| frame::settings(out, &[(Setting::Push, 2)]), 1),
        (|out| out.extend_from_slice(&[0, 0, 1, 4, 0, 0, 0, 0, 0, 0]), 6),
        (|out| out.extend_from_slice(&[0, 0, 6, 4, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]), 6),
        (|out| out.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 1]), 1),
        (|out| out.extend_from_slice(&[0, 0, 7, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 6),
        (|out| out.extend_from_slice(&[0, 0, 8, 6, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), 1),
        (|out| out.extend_from_slice(&[0, 0, 4, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0]), 6),
        (|out| out.extend_from_slice(&[0, 0, 1, 1, 12, 0, 0, 0, 1, 1]), 1),
        (
            |out| {
                frame::headers(out, 3, false, |block| block.push(0x83));
                frame::data(out, 2, 0);
            },
            1,
        ),
        (
            |out| {
                frame::headers(out, 3, false, |block| block.push(0x83));
                frame::headers(out, 1, false, |block| block.push(0x83));
            },
            1,
        ),
    ];
    for (n, (act, reason)) in breaks.into_iter().enumerate() {
        let mut client = Client::open(&[]).await;
        act(&mut client.out);
        assert_eq!(client.refusal().await, reason, "{n}");
    }
}

#[tokio::test]
async fn an_http1_connection_keeps_the_bytes_that_detection_read() {
    let (mut io, end) = duplex(1_000);
    io.write_all(b"PRIME / HTTP/1.1\r\n").await.unwrap();
    let Ok(DetectedProtocol::Other(mut rewound)) = detect_protocol(end).await else {
        panic!("that is no HTTP/2")
    };
    let mut read = [0; 18];
    rewound.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"PRIME / HTTP/1.1\r\n");
}
