//! Tests of one connection over an in-memory pipe whose client takes nothing of its answers, or sends odd heads.

use super::activity::Activity;
use super::connection::{ListenerState, serve_http};
use super::*;
use crate::answer_kind::AnswerKind;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kstore_access::peer::Peer;
use limits::STALLED_ANSWER;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

const LARGE: usize = 600 * 1024;
const SHARE: usize = 1024 * 1024;

/// The client's end of a connection, and the server's state of it.
struct Pipe {
    near: DuplexStream,
    activity: Arc<Activity>,
    unsent: MemoryBudget,
}

/// Answers `/large` with bytes in memory, `/list` with large pieces, `/log` with a stream that may pause, `/watch` with a
/// stream that never has anything, and everything else with a word.
fn router() -> Router {
    Router::new().fallback(|request: Request<Body>| async move {
        let pieces = || {
            let piece = || Ok::<_, Infallible>(Bytes::from(vec![b'x'; LARGE / 4]));
            Body::from_stream(futures::StreamExt::take(futures::stream::repeat_with(piece), 4))
        };
        let (body, kind) = match request.uri().path() {
            "/large" => (Body::from(vec![b'x'; LARGE]), None),
            "/list" => (pieces(), Some(AnswerKind::Streamed)),
            "/log" => (pieces(), Some(AnswerKind::Patient)),
            "/watch" => (Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>()), None),
            _ => (Body::from("ok"), None),
        };
        let mut response = Response::new(body);
        if let Some(kind) = kind {
            response.extensions_mut().insert(kind);
        }
        response
    })
}

async fn connect() -> Pipe {
    let unsent = MemoryBudget::new(2 * SHARE, SHARE, 0);
    let slot = Connections::new(1).slot([127, 0, 0, 1].into()).await;
    let shared = ListenerState {
        router: router(),
        embedder: None,
        grpc: None,
        unsent: unsent.clone(),
        stop: CancellationToken::new(),
        front_proxies: None,
        clock: kstore_nondet::Clock::real(),
        edge: None,
        answers_half_closed: false,
    };
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (peer, activity) = (Peer::InProcess(Arc::new(UserInfo::default())), slot.activity.clone());
    tokio::spawn(async move { serve_http(shared, peer, far, slot).await.map_err(|error| error.to_string()) });
    Pipe { near, activity, unsent }
}

/// An HTTP/2 client whose window for each answer is a few bytes.
async fn narrow(pipe: DuplexStream) -> SendRequest<Empty<Bytes>> {
    let mut builder = Builder::new(TokioExecutor::new());
    let (client, serving) =
        builder.initial_stream_window_size(1000).handshake(TokioIo::new(pipe)).await.unwrap();
    tokio::spawn(serving);
    client
}

async fn get(client: &mut SendRequest<Empty<Bytes>>, path: &str) -> Response<hyper::body::Incoming> {
    let request = Request::builder().uri(format!("http://server{path}")).body(Empty::new()).unwrap();
    client.send_request(request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn streams_whose_client_takes_nothing_are_reset_and_their_memory_is_free_again() {
    let Pipe { near, activity, unsent } = connect().await;
    let mut client = narrow(near).await;
    let watch = get(&mut client, "/watch").await;
    let stalled = [get(&mut client, "/large").await, get(&mut client, "/list").await];
    let log = get(&mut client, "/log").await;
    tokio::time::sleep(STALLED_ANSWER / 2).await;
    assert!(unsent.free() <= 2 * SHARE - LARGE - LARGE / 4);
    tokio::time::sleep(STALLED_ANSWER).await;
    assert_eq!(unsent.free(), 2 * SHARE);
    for answer in stalled {
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.into_body().collect().await.is_err(), "the stream was reset");
    }
    // The connection goes on, and so do the streams that have nothing to take or may pause.
    let whole = get(&mut client, "/small").await.into_body().collect().await.unwrap();
    assert_eq!(whole.to_bytes(), "ok");
    assert_eq!(log.into_body().collect().await.unwrap().to_bytes().len(), LARGE);
    assert_eq!(activity.stalled_since(), None);
    drop(watch);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_receives_a_large_answer_as_a_whole() {
    let Pipe { near, unsent, .. } = connect().await;
    let mut client = narrow(near).await;
    for path in ["/large", "/list"] {
        let mut body = get(&mut client, path).await.into_body();
        let mut received = 0;
        while let Some(frame) = body.frame().await {
            received += frame.unwrap().into_data().map_or(0, |data| data.len());
            // An answer takes ten minutes, and no byte of it half a minute.
            tokio::time::sleep(STALLED_ANSWER / 30).await;
        }
        assert_eq!(received, LARGE, "{path}");
    }
    assert_eq!(unsent.free(), 2 * SHARE);
}

#[tokio::test(start_paused = true)]
async fn a_user_with_too_many_unsent_bytes_is_refused_until_some_are_taken() {
    let Pipe { near, .. } = connect().await;
    let mut client = narrow(near).await;
    let first = get(&mut client, "/large").await;
    let refused = get(&mut client, "/large").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    refused.into_body().collect().await.unwrap();
    assert_eq!(first.into_body().collect().await.unwrap().to_bytes().len(), LARGE);
    let again = get(&mut client, "/large").await;
    assert_eq!(again.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn an_http1_connection_whose_client_takes_nothing_is_closed() {
    let Pipe { mut near, unsent, .. } = connect().await;
    near.write_all(b"GET /large HTTP/1.1\r\nHost: server\r\n\r\n").await.unwrap();
    tokio::time::sleep(2 * STALLED_ANSWER + STALLED_ANSWER / 2).await;
    let mut received = Vec::new();
    // The server may have closed the pipe in the middle of a piece.
    let _ = near.read_to_end(&mut received).await;
    assert!(received.len() < LARGE, "{}", received.len());
    assert_eq!(unsent.free(), 2 * SHARE);
}

/// Sends the head of an HTTP/1.1 request and returns the first bytes of the answer.
async fn ask(near: &mut DuplexStream, head: &str) -> String {
    near.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = near.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test(start_paused = true)]
async fn http1_connections_are_kept_for_the_documented_time() {
    let Pipe { mut near, .. } = connect().await;
    let head = "GET /small HTTP/1.1\r\nHost: server\r\n\r\n";
    for _ in 0..3 {
        assert!(ask(&mut near, head).await.starts_with("HTTP/1.1 200"));
        tokio::time::sleep(limits::IDLE_CONNECTION - Duration::from_secs(5)).await;
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(near.read(&mut [0; 10]).await.unwrap_or(0), 0, "closed");
}

#[tokio::test(start_paused = true)]
async fn http1_requests_name_their_host_once() {
    let table = [
        ("GET / HTTP/1.1\r\n\r\n", "400", "missing required Host header"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400", "too many Host headers"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200", "ok"),
        ("GET / HTTP/1.0\r\n\r\n", "200", "ok"),
    ];
    for (head, code, text) in table {
        let answer = ask(&mut connect().await.near, head).await;
        assert!(answer.contains(&format!(" {code} ")) && answer.ends_with(text), "{head}: {answer}");
    }
}
