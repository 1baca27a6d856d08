//! One connection: TLS handshake, HTTP/1.1 or HTTP/2, and its end. It ends when the client leaves or is idle
//! for too long, when another connection takes its slot, or when the server stops. The router handles
//! requests.

use super::activity::{Activity, InFlight};
use super::answer::AnswerBody;
use super::bridged::{EmbedderService, RequestReset, ResetAnswer};
use super::connections::ConnectionSlot;
use super::edge::EdgeActivity;
use super::stream_executor::{self, StreamExecutor};
use crate::access::{AccessRecord, RequestCaller};
use crate::anonymous_slots::AnonymousSlots;
use crate::grpc::authenticate::{CallAuthenticator, is_call};
use crate::memory_shares::MemoryBudget;
use crate::plain_http;
use crate::rest::respond::refusal;
use crate::unread_body::DiscardingBody;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt as _;
use http::header::HOST;
use http::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use kstore_access::authn::FrontProxies;
use kstore_access::peer::Peer;
use kstore_api::status::Status;
use kstore_nondet::Clock;
use kstore_storage::limits;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// State that all connections of a listener share. Cheap to clone.
#[derive(Clone)]
pub(super) struct ListenerState {
    pub(super) router: Router,
    /// To which all requests go instead of the router.
    pub(super) embedder: Option<EmbedderService>,
    /// Authenticates gRPC calls before their messages are read; without it gRPC calls are plain requests.
    pub(super) grpc: Option<CallAuthenticator>,
    /// Memory of answers that clients have not taken.
    pub(super) unsent: MemoryBudget,
    pub(super) stop: CancellationToken,
    /// Front proxies; if present, they decide which client certificates authenticate users.
    pub(super) front_proxies: Option<Arc<FrontProxies>>,
    pub(super) clock: Clock,
    /// Counts requests until the service of an embedder has them.
    pub(super) edge: Option<Arc<EdgeActivity>>,
    /// Whether a request is answered although its client has ended its own direction. Over a socket that means mostly that the client is
    /// gone.
    pub(super) answers_half_closed: bool,
}

/// Performs the TLS handshake; `None` if the client does not complete it in time, or sends plain HTTP.
pub(super) async fn handshake(
    acceptor: TlsAcceptor,
    mut socket: TcpStream,
    address: SocketAddr,
) -> Option<TlsStream<TcpStream>> {
    // Small answers must not wait to be combined with others.
    let _ = socket.set_nodelay(true);
    let accepting = async {
        match plain_http::refuses(&mut socket).await {
            true => None,
            false => Some(acceptor.accept(socket).await),
        }
    };
    in_time(accepting, address).await
}

/// The connection that a handshake makes; `None` if it fails, takes longer than [`limits::HANDSHAKE`], or if `accepting` is `None`: the
/// client speaks plain HTTP, and has its answer.
pub(super) async fn in_time<T>(
    accepting: impl Future<Output = Option<io::Result<TlsStream<T>>>>,
    address: SocketAddr,
) -> Option<TlsStream<T>> {
    match tokio::time::timeout(limits::HANDSHAKE, accepting).await {
        Ok(Some(Ok(tls))) => return Some(tls),
        Ok(None) => tracing::debug!(%address, "plain HTTP on a port with TLS"),
        Ok(Some(Err(error))) => tracing::debug!(%error, %address, "TLS handshake failed"),
        Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
    }
    None
}

/// Serves a connection after its handshake until it ends.
pub(super) async fn serve<T>(
    shared: ListenerState,
    tls: TlsStream<T>,
    address: SocketAddr,
    slot: ConnectionSlot,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let chain = tls.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = match &shared.front_proxies {
        Some(proxies) => proxies.peer(chain, address, shared.clock.now()),
        None => Peer::tls(chain.first().map(AsRef::as_ref), address),
    };
    if let Err(error) = serve_http(shared, peer, tls, slot).await {
        tracing::debug!(%error, %address, "the connection ended");
    }
}

/// Serves HTTP/1.1 or HTTP/2 on one connection until its client or the server ends it.
pub(super) async fn serve_http<T>(
    shared: ListenerState,
    peer: Peer,
    socket: T,
    slot: ConnectionSlot,
) -> Result<(), axum::BoxError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = slot.activity.clone();
    let ListenerState { router, embedder, grpc, unsent, stop, edge, answers_half_closed, .. } = shared;
    let (served, stopped) = (activity.clone(), stop.clone());
    let slots = AnonymousSlots::of(&peer);
    let service = tower::service_fn(move |mut request: Request<hyper::body::Incoming>| {
        let in_flight = served.begin(request.version() < Version::HTTP_2);
        let record = AccessRecord::begin(&peer, &mut request);
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(peer.clone());
        let caller = RequestCaller { of_connection: served.user.clone(), ..RequestCaller::default() };
        parts.extensions.insert(caller.clone());
        EdgeActivity::count(edge.as_ref(), &mut parts.extensions);
        if let Some(slots) = &slots {
            parts.extensions.insert(slots.clone());
        }
        let body = DiscardingBody::new(&parts.headers, body, stopped.clone());
        let bad_host = host_problem(&parts);
        // Boxed, because they are rare: otherwise the future of every request would be larger.
        let gate =
            served.is_kept.then(|| Box::new(KeptSlotGate { grpc: grpc.clone(), parts: parts.clone() }));
        let request = Request::from_parts(parts, body);
        let (activity, unsent, router) = (served.clone(), unsent.clone(), router.clone());
        let embedder = embedder.clone();
        let grpc = grpc.clone().filter(|_| is_call(&request));
        async move {
            let refused = match gate {
                Some(gate) => Box::pin(gate.refusal()).await,
                None => None,
            };
            let response = match refused.or(bad_host) {
                Some(refused) => refused,
                None => pass(request, embedder, grpc, router).await,
            };
            if response.extensions().get::<ResetAnswer>().is_some() {
                return Err(RequestReset);
            }
            Ok(observe_end(response, &caller, record, in_flight, &activity, &unsent))
        }
    });
    let http = http_builder(answers_half_closed);
    let socket = SocketWithSlot { socket, _slot: slot };
    let serving =
        http.serve_connection_with_upgrades(TokioIo::new(socket), TowerToHyperService::new(service));
    let mut serving = std::pin::pin!(serving);
    let graceful = tokio::select! {
        biased;
        ended = serving.as_mut() => return ended,
        () = stop.cancelled() => true,
        () = activity.evicted.cancelled() => false,
        () = activity.stalled_for_too_long() => false,
        // A first request may arrive just as the time passes, so shutdown is graceful; later requests open a
        // new connection.
        () = activity.idle_for_too_long() => true,
    };
    if !graceful {
        return Ok(());
    }
    serving.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        // An idle client may not answer the shutdown. When the server stops, the listener closes the
        // remaining connections.
        () = drained(&activity), if !stop.is_cancelled() => Ok(()),
        () = activity.evicted.cancelled() => Ok(()),
    }
}

/// HTTP of all connections. With `answers_half_closed` a request over HTTP/1.1 is answered although its client sends no more.
fn http_builder(answers_half_closed: bool) -> auto::Builder<StreamExecutor> {
    let mut http = auto::Builder::new(StreamExecutor);
    http.http2()
        .max_concurrent_streams(limits::STREAMS)
        .max_pending_accept_reset_streams(Some(limits::PENDING_RESETS))
        .keep_alive_interval(Some(limits::PING_INTERVAL))
        .keep_alive_timeout(limits::PING_TIMEOUT)
        .timer(TokioTimer::new());
    // This time also runs while a connection waits for its next request, so it is that of an idle connection; the first
    // request has its own, see `idle_for_too_long`.
    http.http1()
        .header_read_timeout(limits::IDLE_CONNECTION)
        .timer(TokioTimer::new())
        .half_close(answers_half_closed);
    http
}

/// Passes a request to an embedder if there is one, and answers it here otherwise.
fn pass<B>(
    request: Request<B>,
    embedder: Option<EmbedderService>,
    grpc: Option<CallAuthenticator>,
    router: Router,
) -> impl Future<Output = Response<Body>> + Send
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    match embedder {
        Some(embedder) => embedder(request.map(Body::new)).left_future(),
        None => answer(request, grpc, router).right_future(),
    }
}

/// Answers a request. The state of its way through the server, tens of KiB, is made only when the stream's task begins, and freed
/// with the answer: many streams that arrive at once hold none while they wait for their turn, and a long answer holds none either.
pub(super) fn answer<B>(
    request: Request<B>,
    grpc: Option<CallAuthenticator>,
    router: Router,
) -> impl Future<Output = Response<Body>> + Send
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    // Lazy, so that the box is made by the first poll.
    futures::future::lazy(move |_| match grpc {
        Some(grpc) => grpc.serve(request, router).boxed(),
        None => router.oneshot(request).boxed(),
    })
    .flatten()
    .map(|answered| answered.unwrap_or_else(|never| match never {}))
}

/// Waits until [`limits::CONNECTION_FAREWELL`] after the last request was answered.
async fn drained(activity: &Activity) {
    loop {
        tokio::time::sleep(limits::CONNECTION_FAREWELL).await;
        if activity.idle_since().is_some_and(|(_, since)| since.elapsed() >= limits::CONNECTION_FAREWELL) {
            return;
        }
    }
}

/// Decides whether a connection in a kept slot serves a request.
struct KeptSlotGate {
    grpc: Option<CallAuthenticator>,
    parts: http::request::Parts,
}

impl KeptSlotGate {
    /// The refusal of a request that is neither a health check nor an administrator's.
    async fn refusal(self) -> Option<Response<Body>> {
        let is_administrator = match &self.grpc {
            _ if is_health_check(self.parts.uri.path()) => true,
            Some(grpc) => grpc.is_administrator(&self.parts).await,
            None => false,
        };
        let text = "the server has no connections left: close some, or try again later";
        (!is_administrator).then(|| refusal(&Status::too_many_requests(text, 1)))
    }
}

/// Whether a path is one that supervisors ask.
fn is_health_check(path: &str) -> bool {
    ["/livez", "/readyz", "/healthz"].contains(&path) || path == "/grpc.health.v1.Health/Check"
}

/// The refusal of an HTTP/1.1 request that does not say once for which host it is, in the words of Go's server.
fn host_problem(parts: &http::request::Parts) -> Option<Response<Body>> {
    let problem = match (parts.version, parts.headers.get_all(HOST).iter().count()) {
        (Version::HTTP_11, 0) => "missing required Host header",
        (Version::HTTP_11 | Version::HTTP_10, 2..) => "too many Host headers",
        _ => return None,
    };
    let body = Body::from(format!("400 Bad Request: {problem}"));
    let response = Response::builder().status(StatusCode::BAD_REQUEST);
    let response = response.header(http::header::CONTENT_TYPE, "text/plain; charset=utf-8").body(body);
    // The parts of the response are constants.
    response.ok()
}

/// The answer, wrapped so that its end is recorded: the request leaves flight, and its line is written to the
/// access log.
fn observe_end(
    mut response: Response<Body>,
    caller: &RequestCaller,
    record: Option<AccessRecord>,
    in_flight: InFlight,
    activity: &Activity,
    unsent: &MemoryBudget,
) -> Response<AnswerBody> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        activity.upgraded();
    }
    if let Some(record) = record {
        response = record.answered(response);
    }
    let share = unsent.share(caller.of_request.get().map_or("", |user| &user.username));
    // The request is in flight until its answer was sent.
    let wrapped = AnswerBody::wrap(response, share.clone(), in_flight).or_else(|(busy, in_flight)| {
        let refused = refusal(&Status::too_many_requests(busy.to_string(), 1));
        AnswerBody::wrap(refused, share, in_flight)
    });
    let (response, progress) = wrapped.unwrap_or_else(|_| unreachable!("a refusal is small"));
    stream_executor::answers_with(progress);
    response
}

/// A socket that owns the slot of its connection, also after an upgrade has taken it away from HTTP.
struct SocketWithSlot<T> {
    socket: T,
    _slot: ConnectionSlot,
}

impl<T: AsyncRead + Unpin> AsyncRead for SocketWithSlot<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for SocketWithSlot<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_holds_little_memory_before_its_turn() {
        let router = Router::new().fallback(async || {
            let large = [1; 64 * 1024];
            tokio::task::yield_now().await;
            format!("{}", large.len())
        });
        let waiting = answer(Request::new(Body::empty()), None, router);
        assert!(size_of_val(&waiting) <= 1024, "{}", size_of_val(&waiting));
        assert_eq!(waiting.await.status(), StatusCode::OK);
    }
}
