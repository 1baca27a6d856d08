//! Tests of one connection over an in-memory pipe, with a router that refuses requests before it reads their
//! bodies.

use super::connection::{ListenerState, serve_http};
use super::*;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use kstore_access::peer::Peer;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tower::ServiceExt as _;

/// A client endpoint, a function that dials, and the server's ends of the dialled connections.
fn pipes() -> (Endpoint, impl Fn() -> DuplexStream + Send + Clone, mpsc::UnboundedReceiver<DuplexStream>) {
    let (send, receive) = mpsc::unbounded_channel();
    let dial = move || {
        let (near, far) = tokio::io::duplex(64 * 1024);
        send.send(far).unwrap();
        near
    };
    (Endpoint::from_static("http://server"), dial, receive)
}

/// Answers `/watch` with a stream of all `ticks`, and everything else with 404 before the body is read.
fn refusing_router(ticks: tokio::sync::broadcast::Sender<Bytes>) -> Router {
    Router::new().fallback(move |request: Request<Body>| {
        let ticks = ticks.subscribe();
        async move {
            if request.uri().path() != "/watch" {
                return Response::builder().status(StatusCode::NOT_FOUND).body(Body::from("no")).unwrap();
            }
            let events = futures::stream::unfold(ticks, async |mut ticks| {
                Some((Ok::<_, Infallible>(ticks.recv().await.ok()?), ticks))
            });
            Response::new(Body::from_stream(events))
        }
    })
}

async fn post(channel: &Channel, body: Bytes) -> StatusCode {
    let request = Request::builder().method(Method::POST).uri("http://server/nothing");
    let request =
        request.body(tonic::body::Body::new(Full::new(body).map_err(|never| match never {}))).unwrap();
    let response = channel.clone().oneshot(request).await.unwrap();
    let code = response.status();
    response.into_body().collect().await.unwrap();
    code
}

#[tokio::test]
async fn watches_survive_thousands_of_requests_refused_before_their_bodies_were_read() {
    let (endpoint, dial, mut accepted) = pipes();
    let (ticks, _) = tokio::sync::broadcast::channel(16);
    let router = refusing_router(ticks.clone());
    let stop = CancellationToken::new();
    let peer = Peer::InProcess(Arc::new(UserInfo::default()));
    let connect = tower::service_fn(move |_: http::Uri| {
        let near = dial();
        async move { Ok::<_, Infallible>(TokioIo::new(near)) }
    });
    let channel = endpoint.connect_with_connector_lazy(connect);
    let slot = Connections::new(1).slot([127, 0, 0, 1].into()).await;
    let serving = {
        let shared = ListenerState {
            router,
            embedder: None,
            grpc: None,
            unsent: MemoryBudget::new(limits::UNSENT_BYTES, limits::UNSENT_BYTES_OF_USER, 0),
            stop: stop.clone(),
            front_proxies: None,
            clock: kstore_nondet::Clock::real(),
            edge: None,
            answers_half_closed: false,
        };
        tokio::spawn(async move {
            let far = accepted.recv().await.unwrap();
            let ended = serve_http(shared, peer, far, slot).await;
            (ended.map_err(|error| error.to_string()), accepted.try_recv().is_ok())
        })
    };
    let request = Request::builder().uri("http://server/watch").body(tonic::body::Body::empty()).unwrap();
    let mut watch = channel.clone().oneshot(request).await.unwrap().into_body().into_data_stream();
    let body = Bytes::from(vec![b'x'; 40_000]);
    for _ in 0..50 {
        let batch = std::iter::repeat_with(|| post(&channel, body.clone())).take(50);
        let codes = futures::future::join_all(batch).await;
        assert!(codes.iter().all(|code| *code == StatusCode::NOT_FOUND), "{codes:?}");
    }
    ticks.send(Bytes::from_static(b"event")).unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap(), "event", "the watch is still open");
    drop((watch, channel));
    stop.cancel();
    let (ended, connected_again) = serving.await.unwrap();
    assert_eq!((ended, connected_again), (Ok(()), false), "all of it went over one connection");
}
