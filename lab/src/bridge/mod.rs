//! The bridge between the listener of a cluster, in real time, and the cluster's own runtime: heads of requests and answers by a channel of
//! one, bodies by channels of [`limits::BODY_FRAMES`] frames. It carries out the order of [`crate::request::STAGES`].

mod here;
mod perturbed;
mod turn;

use crate::client::identity::short_agent;
use crate::client::view::{EventReader, revision_of};
use crate::client::{ActiveRequest, Arrival, Clients, FrameGuard};
use crate::host::{Placement, Running};
use crate::limits;
use crate::log::{LoggedRequest, RequestLog};
use crate::perturb::Perturbations;
use crate::programs::Programs;
use crate::request::{CutForm, LabEvent, RequestTarget, Verb};
use crate::settle::Settling;
use crate::shown::ShownRecord;
use crate::watch::WatchControl;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, HeaderName, HeaderValue, USER_AGENT};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kstore_access::peer::Peer;
use kstore_apiserver::rest::respond::refusal;
use kstore_apiserver::{EdgeWork, ResetAnswer};
use kstore_nondet::Clock;
use kstore_registry::user::ANONYMOUS;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// The header with the cluster's time, to the millisecond.
const LAB_TIME: HeaderName = HeaderName::from_static("lab-time");

/// Bytes at the beginning of a list in which its revision is.
const LIST_HEAD: usize = 512;

/// The way of requests from a listener into a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// The cluster.
    pub running: Arc<Running>,
    /// Its clients.
    pub clients: Arc<Clients>,
    /// Its request log.
    pub log: Arc<RequestLog>,
    /// What changes what its clients see.
    pub perturbations: Arc<Perturbations>,
    /// Its programs.
    pub programs: Arc<Programs>,
    /// What its clients were shown, if that is recorded.
    pub shown: Arc<ShownRecord>,
    /// The listener's runtime, whose time is real.
    pub real: Handle,
}

/// The answer's body on the listener's side.
struct BridgedBody {
    frames: mpsc::Receiver<Result<BridgedFrame, axum::Error>>,
    hint: SizeHint,
}

/// A frame on its way, with the guard that notes when the connection has taken it.
struct BridgedFrame {
    frame: Frame<Bytes>,
    guard: FrameGuard,
}

/// Bytes of a frame that note when the connection drops them.
struct GuardedBytes {
    bytes: Bytes,
    _guard: FrameGuard,
}

impl AsRef<[u8]> for GuardedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for BridgedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.frames.poll_recv(context).map(|received| {
            Some(received?.map(|BridgedFrame { frame, guard }| {
                frame.map_data(|bytes| {
                    if let Some(exact) = self.hint.exact() {
                        self.hint = SizeHint::with_exact(exact.saturating_sub(bytes.len() as u64));
                    }
                    Bytes::from_owner(GuardedBytes { bytes, _guard: guard })
                })
            }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.hint.exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

impl Bridge {
    /// What `settled` and `quiet` wait for.
    pub fn settling(&self) -> Settling<'_> {
        Settling { running: &self.running, clients: &self.clients, plans: Some(&self.perturbations.plans) }
    }

    /// The service of a listener: all requests but the lab's own, which `front` answers.
    pub fn router<F, A>(self, prefixes: [&'static str; 2], front: F) -> Router
    where
        F: Fn(Request<Body>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<Body>> + Send,
    {
        Router::new().fallback(move |mut request: Request<Body>| {
            let (bridge, front) = (self.clone(), front.clone());
            async move {
                let read = request.extensions_mut().remove::<EdgeWork>();
                let path = request.uri().path();
                match prefixes.iter().any(|prefix| is_below(path, prefix)) {
                    true => {
                        drop(read);
                        Box::pin(front(request)).await
                    }
                    false => Box::pin(bridge.pass(request, read)).await,
                }
            }
        })
    }

    /// Brings a request to the cluster and its answer back. If the client leaves, the request is dropped there, too.
    async fn pass(self, request: Request<Body>, read: Option<EdgeWork>) -> Response<Body> {
        if self.running.placement == Placement::Process {
            return self.serve_here(request).await;
        }
        let (send, answer) = oneshot::channel();
        let waiting = self.clients.unidentified();
        // From here on the request is counted here.
        drop(read);
        let running = self.running.clone();
        let program = address(request.extensions())
            .and_then(|address| self.programs.of_peer(address, self.clients.port()));
        let served = running.spawn(async move {
            let (parts, body) = request.into_parts();
            let stage = self.arrive(&parts, program.as_deref()).await;
            drop(waiting);
            stage.perform(Request::from_parts(parts, body), send).await;
        });
        match answer.await {
            Ok((response, pump, _taken)) => {
                // The body goes on after the head, and ends when the listener drops its end of the channel.
                drop(served.detach());
                response.map(|hint| Body::new(BridgedBody { frames: pump.frames, hint }))
            }
            Err(_) => refusal(&crate::error::ended()),
        }
    }

    /// Finds the client, and notes the request.
    async fn arrive(self, parts: &Parts, program: Option<&str>) -> Stage {
        let certificate = match parts.extensions.get() {
            Some(Peer::Tls { certificate, .. }) => certificate.as_ref(),
            _ => None,
        };
        let user = match certificate {
            Some(certificate) => certificate.user.username.clone(),
            None => {
                self.running.api().identify(parts).await.map_or(String::new(), |user| user.username.clone())
            }
        };
        let target = RequestTarget::of(&parts.method, &parts.uri);
        let agent = parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let path = parts.uri.path();
        let is_long = target.as_ref().is_some_and(|target| target.is_long(&parts.uri));
        let peer = address(&parts.extensions);
        let arrival = Arrival { user: &user, agent, peer, target: target.as_ref(), path, is_long, program };
        let active = Arc::new(self.clients.arrive(&arrival));
        if active.is_counted() {
            self.running.driver.note_traffic();
        }
        let real = Clock::real().now();
        let mut entry = entry(&arrival, active.client(), self.running.plane.nondet().clock.now(), real);
        if target.as_ref().is_some_and(|target| target.verb.is_write()) {
            entry.basis = Some(self.clients.delivered(active.client()).into());
            entry.previous_write = self.log.last_write(active.client());
        }
        entry.incarnation = active.incarnation();
        let (number, unlogged) = match self.is_ordered(&active) {
            // Its position in the log is that of its turn.
            true => (0, Some(Box::new(entry))),
            false => {
                let number = self.log.append(entry);
                self.shown.began(number, parts, target.as_ref(), self.running.store().revision().0);
                (number, None)
            }
        };
        self.perturbations.note_traffic();
        // What has no valid credentials is refused or public: nothing is read of it, or holds it, beyond what the API server allows.
        let is_known = !user.is_empty() && user != ANONYMOUS;
        // A request that nothing perturbs does not pay for a copy of its agent.
        let is_perturbed = is_known && self.perturbations.concerns(target.as_ref());
        let agent = if is_perturbed { agent.to_owned() } else { String::new() };
        let is_of_program = program.is_some_and(|program| program == active.client());
        Stage {
            bridge: self,
            active,
            target,
            number,
            unlogged,
            real,
            user,
            agent,
            is_perturbed,
            is_of_program,
        }
    }
}

/// The address of a client over the network.
fn address(extensions: &http::Extensions) -> Option<SocketAddr> {
    match extensions.get() {
        Some(Peer::Tls { address, .. }) => Some(*address),
        _ => None,
    }
}

/// The end of an answer's body that the listener gets.
struct Pump {
    frames: mpsc::Receiver<Result<BridgedFrame, axum::Error>>,
}

/// The head of an answer, its body, and the request, which is in flight until the listener has both.
type Answered = (Response<SizeHint>, Pump, Arc<ActiveRequest>);

/// A request in the cluster, from its arrival to the end of its answer.
struct Stage {
    bridge: Bridge,
    active: Arc<ActiveRequest>,
    target: Option<RequestTarget>,
    /// Position in the request log; 0 before its turn in the serial order.
    number: u64,
    /// The entry for the log of a request that waits for its turn.
    unlogged: Option<Box<LoggedRequest>>,
    real: Timestamp,
    user: String,
    /// Whole user agent; empty if nothing perturbs the request.
    agent: String,
    /// Whether rules, caches or plans may change the request, as of its arrival.
    is_perturbed: bool,
    /// Whether a process of the client's program sent the request.
    is_of_program: bool,
}

impl Stage {
    /// Performs the request, sends the head of the answer, and then its body as the listener takes it.
    async fn perform(mut self, request: Request<Body>, send: oneshot::Sender<Answered>) {
        let (response, reader, control) = self.answer(request).await;
        let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let (parts, body) = response.into_parts();
        let (frames, pump) = mpsc::channel(limits::BODY_FRAMES);
        let head = Response::from_parts(parts, body.size_hint());
        if send.send((head, Pump { frames: pump }, self.active.clone())).is_err() || is_upgrade {
            return;
        }
        self.pump(body, frames, reader, control.as_deref()).await;
    }

    /// Performs the request and notes the answer. The control is that of a watch.
    async fn answer(
        &mut self,
        request: Request<Body>,
    ) -> (Response<Body>, BodyReader, Option<Arc<WatchControl>>) {
        let request = match self.admitted(request).await {
            Ok(request) => request,
            Err(status) => return (refusal(&status), BodyReader::None, None),
        };
        let running = &self.bridge.running;
        let request = self.bridge.shown.copied(self.number, self.target.as_ref(), request);
        // Boxed because few requests are perturbed: otherwise the future of every request would be larger.
        let (mut response, control) = match self.is_perturbed {
            true => Box::pin(self.perturbed(request)).await,
            false => (running.api().answer(request).await, None),
        };
        // A request whose connection a fault resets has no answer; its client may repeat it, as after 503.
        let is_reset = response.extensions().get::<ResetAnswer>().is_some();
        let code = if is_reset { 0 } else { response.status().as_u16() };
        let (revision, now) = (running.store().revision().0, running.plane.nondet().clock.now());
        let took = Clock::real().now().duration_since(self.real).as_millis();
        self.bridge.log.change(self.number, |entry| {
            (entry.code, entry.revision) = (code, revision);
            entry.took = u64::try_from(took).unwrap_or(0);
        });
        self.active.answered(if is_reset { 503 } else { code });
        add_times(&mut response, now);
        let reader = BodyReader::of(&response, self.target.as_ref());
        self.bridge.shown.answered(
            self.number,
            code,
            !matches!(reader, BodyReader::None | BodyReader::Unreadable),
        );
        self.note_traffic();
        (response, reader, control)
    }

    /// Notes the end of the answer's body.
    fn ended(&self, reader: BodyReader) {
        if let Some(version) = reader.finish(&self.active) {
            self.bridge.log.change(self.number, |entry| entry.object_version = Some(version));
        }
        if self.active.is_long() {
            self.bridge.log.change(self.number, |entry| entry.ended = entry.ended.map(|_| true));
        }
        self.bridge.shown.ended(self.number, self.bridge.running.store().revision().0);
        self.note_traffic();
    }

    /// Sends the body frame by frame. Each frame is noted before it is sent, so that the clock stops at the time of the event.
    async fn pump(
        &self,
        mut body: Body,
        frames: mpsc::Sender<Result<BridgedFrame, axum::Error>>,
        mut reader: BodyReader,
        control: Option<&WatchControl>,
    ) {
        loop {
            let next = tokio::select! {
                biased;
                () = frames.closed() => break,
                next = body.frame() => next,
            };
            let cut = control.and_then(WatchControl::cut);
            let frame = match perturbed::cut(next, cut) {
                None => break,
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    let _ = frames.send(Err(error)).await;
                    break;
                }
            };
            let events = self.read(&frame, &mut reader);
            self.bridge.perturbations.note_traffic();
            let guard = self.active.frame(events);
            self.note_traffic();
            if frames.send(Ok(BridgedFrame { frame, guard })).await.is_err() {
                break;
            }
            if cut == Some(CutForm::Frame) {
                let _ = frames.send(Err(perturbed::broken())).await;
                break;
            }
        }
        self.ended(reader);
    }

    /// Reads a frame of the answer's body before its connection gets it. Returns the events of a watch that end in it.
    fn read(&self, frame: &Frame<Bytes>, reader: &mut BodyReader) -> Vec<LabEvent> {
        let Some(bytes) = frame.data_ref() else { return Vec::new() };
        self.bridge.shown.read(self.number, bytes);
        let events = reader.read(bytes, &self.active);
        self.log_events(&events);
        events
    }

    fn log_events(&self, events: &[LabEvent]) {
        let Some(last) = events.last() else { return };
        self.bridge.log.change(self.number, |entry| {
            entry.delivered = entry.delivered.map(|count| count + events.len() as u64);
            entry.last = Some(last.revision.max(entry.last.unwrap_or(0)));
        });
    }

    fn note_traffic(&self) {
        if self.active.is_counted() {
            self.bridge.running.driver.note_traffic();
        }
    }
}

/// Reads what an answer shows its client.
enum BodyReader {
    /// Nothing: the request shows no revision.
    None,
    /// The events of a watch.
    Watch(EventReader),
    /// The beginning of a list.
    List(bool),
    /// A single object.
    Object(Vec<u8>),
    /// A form that the lab does not read.
    Unreadable,
}

impl BodyReader {
    fn of(response: &Response<Body>, target: Option<&RequestTarget>) -> Self {
        let Some(target) = target.filter(|_| response.status().is_success()) else { return Self::None };
        let header = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
        let is_json = header(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
        match target.verb {
            _ if !target.subresource.is_empty() && target.subresource != "status" => Self::None,
            Verb::Call | Verb::DeleteCollection => Self::None,
            _ if !is_json || header(CONTENT_ENCODING).is_some() => Self::Unreadable,
            Verb::Watch => Self::Watch(EventReader::default()),
            Verb::List => Self::List(false),
            _ => Self::Object(Vec::new()),
        }
    }

    /// Reads a part of the body. Returns the events of a watch that end in it.
    fn read(&mut self, bytes: &[u8], active: &ActiveRequest) -> Vec<LabEvent> {
        match self {
            Self::None => {}
            Self::Unreadable => {
                active.showed(None);
                *self = Self::None;
            }
            Self::Watch(events) => match events.read(bytes) {
                Some(events) => return events,
                None => *self = Self::Unreadable,
            },
            Self::List(is_read) => {
                if !std::mem::replace(is_read, true) {
                    active.showed(list_revision(&bytes[..bytes.len().min(LIST_HEAD)]));
                }
            }
            Self::Object(read) => match read.len() + bytes.len() <= limits::EVENT_BYTES {
                true => read.extend_from_slice(bytes),
                false => *self = Self::Unreadable,
            },
        }
        Vec::new()
    }

    /// Returns the revision of a single object.
    fn finish(self, active: &ActiveRequest) -> Option<i64> {
        let version = match self {
            Self::Object(read) => revision_of(&read),
            Self::Unreadable => None,
            Self::None | Self::Watch(_) | Self::List(_) => return None,
        };
        active.showed(version);
        version
    }
}

/// The revision of a list, whose metadata come before its items.
fn list_revision(head: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(head)
        .unwrap_or_else(|error| std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default());
    let (before, after) = text.split_once("\"resourceVersion\":\"")?;
    let is_own = !before.contains("\"items\"");
    after.split_once('"').filter(|_| is_own)?.0.parse().ok()
}

/// Whether a path is `prefix` or below it.
fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Adds the cluster's time to an answer: `Date` has seconds, as HTTP wants it.
fn add_times(response: &mut Response<Body>, now: Timestamp) {
    let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let precise = format!("{now:.3}");
    for (name, text) in [(DATE, date), (LAB_TIME, precise)] {
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(name, value);
        }
    }
}

fn entry(arrival: &Arrival<'_>, client: &str, time: Timestamp, real: Timestamp) -> LoggedRequest {
    let target = arrival.target;
    let text =
        |of: fn(&RequestTarget) -> &String| target.map(|target| of(target).clone()).unwrap_or_default();
    let is_watch = target.is_some_and(|target| target.verb == Verb::Watch);
    LoggedRequest {
        n: 0,
        time,
        real,
        client: client.to_owned(),
        incarnation: 0,
        user: arrival.user.to_owned(),
        agent: short_agent(arrival.agent).to_owned(),
        verb: target.map(|target| target.verb),
        resource: text(|target| &target.resource),
        subresource: text(|target| &target.subresource),
        namespace: text(|target| &target.namespace),
        name: target.map_or_else(|| arrival.path.to_owned(), |target| target.name.clone()),
        version: target.map(|target| target.version).unwrap_or_default(),
        code: 0,
        revision: 0,
        took: 0,
        connection: arrival.peer.map(|peer| peer.to_string()).unwrap_or_default(),
        delivered: is_watch.then_some(0),
        last: None,
        ended: is_watch.then_some(false),
        object_version: None,
        basis: None,
        previous_write: 0,
        cache: String::new(),
        fault: String::new(),
        plan: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_of_a_list_is_read_from_its_beginning() {
        let head = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42"},"items":["#;
        assert_eq!(list_revision(head), Some(42));
        assert_eq!(list_revision(br#"{"items":[{"metadata":{"resourceVersion":"1"}}]}"#), None);
    }

    #[test]
    fn paths_of_the_lab_are_told_apart() {
        assert!(
            is_below("/kstore/lab/v1", "/kstore/lab/v1") && is_below("/kstore/lab/v1/x", "/kstore/lab/v1")
        );
        assert!(
            !is_below("/kstore/lab/v10", "/kstore/lab/v1") && !is_below("/kstore/v1/trace", "/kstore/lab/v1")
        );
    }
}
