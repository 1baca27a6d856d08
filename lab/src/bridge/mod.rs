//! The bridge between the listener of a cluster, in real time, and the cluster's own runtime: heads of requests and answers by a channel of
//! one, bodies by channels of [`limits::BODY_FRAMES`] frames. It carries out the order of [`crate::request::STAGES`].

mod here;
mod perturbed;
mod reader;
mod times;
mod turn;

use crate::client::{ActiveRequest, Arrival, Clients, FrameGuard};
use crate::host::{Placement, Running};
use crate::limits;
use crate::log::{LogRecord, LoggedWrite, RequestLog};
use crate::perturb::Perturbations;
use crate::programs::Programs;
use crate::request::{CutForm, LabEvent, RequestTarget, Verb};
use crate::settle::Settling;
use crate::shown::ShownRecord;
use crate::watch::WatchControl;
use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::USER_AGENT;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kstore_access::peer::Peer;
use kstore_apiserver::rest::respond::refusal;
use kstore_apiserver::{EdgeWork, EmbedderService, ResetAnswer};
use kstore_nondet::Clock;
use kstore_registry::user::{ANONYMOUS, UserInfo};
use reader::BodyReader;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

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
    pub fn service<F>(self, prefixes: [&'static str; 2], front: F) -> EmbedderService
    where
        F: Fn(Request<Body>) -> BoxFuture<'static, Response<Body>> + Send + Sync + 'static,
    {
        let bridge = Arc::new(self);
        Arc::new(move |mut request: Request<Body>| {
            // None: nothing counts what the listener does.
            let read = request.extensions_mut().remove::<EdgeWork>();
            let path = request.uri().path();
            match prefixes.iter().any(|prefix| is_below(path, prefix)) {
                true => {
                    drop(read);
                    front(request)
                }
                false if bridge.running.placement == Placement::Process => {
                    bridge.clone().serve_here(request).boxed()
                }
                false => bridge.clone().pass(request, read).boxed(),
            }
        })
    }

    /// Brings a request to the cluster and its answer back. If the client leaves, the request is dropped there, too.
    async fn pass(self: Arc<Self>, request: Request<Body>, read: Option<EdgeWork>) -> Response<Body> {
        let (send, answer) = oneshot::channel();
        let waiting = self.clients.unidentified();
        // From here on the request is counted here.
        drop(read);
        let running = self.running.clone();
        let program = self.program(&request);
        let served = running.spawn(async move {
            let (parts, body) = request.into_parts();
            let user = self.user(&parts).await;
            let stage = self.arrive(&parts, user.as_deref(), program.as_deref());
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

    /// The program whose process sent a request.
    fn program(&self, request: &Request<Body>) -> Option<String> {
        self.programs.of_peer(address(request.extensions())?, self.clients.port())
    }

    /// The user of a request, authenticated by its token unless its connection has a certificate; `None`: no user is known.
    async fn user(&self, parts: &Parts) -> Option<Arc<UserInfo>> {
        match certified(&parts.extensions) {
            Some(user) => Some(user.clone()),
            None => self.running.api().identify(parts).await.ok(),
        }
    }

    /// Finds the client, and notes the request.
    fn arrive(self: Arc<Self>, parts: &Parts, user: Option<&UserInfo>, program: Option<&str>) -> Stage {
        let user = user.map_or("", |user| &user.username);
        let target = RequestTarget::of(&parts.method, &parts.uri).map(Arc::new);
        let agent = parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let path = parts.uri.path();
        let is_long = target.as_ref().is_some_and(|target| target.is_long(&parts.uri));
        let peer = address(&parts.extensions);
        let arrival = Arrival { user, agent, peer, target: target.as_ref(), path, is_long, program };
        let active = Arc::new(self.clients.arrive(&arrival));
        if active.is_counted() {
            self.running.driver.note_traffic();
        }
        let mut record = record(&arrival, &active, self.time(active.arrived()));
        if target.as_ref().is_some_and(|target| target.verb.is_write()) {
            let basis = self.clients.delivered(active.client()).into();
            let previous = self.log.last_write(active.client());
            let since = self.running.store().revision().0;
            record.write = Some(Box::new(LoggedWrite { since, basis, previous }));
        }
        let (number, unlogged) = match self.is_ordered(&active) {
            // Its position in the log is that of its turn.
            true => (0, Some(Box::new(record))),
            false => {
                let number = self.log.append(record);
                self.shown.began(number, parts, target.as_deref(), self.running.store().revision().0);
                (number, None)
            }
        };
        self.perturbations.note_traffic();
        // What has no valid credentials is refused or public: nothing is read of it, or holds it, beyond what the API server allows.
        let is_known = !user.is_empty() && user != ANONYMOUS;
        // A request that nothing perturbs does not pay for a copy of its agent.
        let is_perturbed = is_known && self.perturbations.concerns(target.as_deref());
        let agent = if is_perturbed { agent.to_owned() } else { String::new() };
        let is_of_program = program.is_some_and(|program| program == active.client());
        Stage { bridge: self, active, target, number, unlogged, agent, is_perturbed, is_of_program }
    }

    /// The time of the cluster at a real time that has just been read.
    fn time(&self, real: Timestamp) -> Timestamp {
        let clock = self.running.plane.nondet().clock;
        if clock.is_simulated() { clock.now() } else { real }
    }
}

/// The user of a connection with a client certificate.
fn certified(extensions: &http::Extensions) -> Option<&Arc<UserInfo>> {
    match extensions.get() {
        Some(Peer::Tls { certificate: Some(certificate), .. }) => Some(&certificate.user),
        _ => None,
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
    bridge: Arc<Bridge>,
    active: Arc<ActiveRequest>,
    target: Option<Arc<RequestTarget>>,
    /// Position in the request log; 0 before its turn in the serial order.
    number: u64,
    /// The entry for the log of a request that waits for its turn.
    unlogged: Option<Box<LogRecord>>,
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

    /// Whether the request is performed at once: it has no turn to wait for, and nothing perturbs it.
    fn is_at_once(&self) -> bool {
        self.unlogged.is_none() && !self.is_perturbed
    }

    /// Performs the request and notes the answer. The control is that of a watch.
    async fn answer(
        &mut self,
        request: Request<Body>,
    ) -> (Response<Body>, BodyReader, Option<Arc<WatchControl>>) {
        // Boxed, as the stages below, because few requests need it: otherwise the future of every request would be larger.
        let admitted = match self.unlogged.is_some() {
            true => Box::pin(self.admitted(request)).await,
            false => Ok(request),
        };
        let request = match admitted {
            Ok(request) => request,
            Err(status) => return (refusal(&status), BodyReader::NONE, None),
        };
        let running = &self.bridge.running;
        let request = self.bridge.shown.copied(self.number, self.target.as_deref(), request);
        let (mut response, control) = match self.is_perturbed {
            true => Box::pin(self.perturbed(request)).await,
            false => (running.api().answer(request).await, None),
        };
        // A request whose connection a fault resets has no answer; its client may repeat it, as after 503.
        let is_reset = response.extensions().get::<ResetAnswer>().is_some();
        let code = if is_reset { 0 } else { response.status().as_u16() };
        let (revision, real) = (running.store().revision().0, Clock::real().now());
        let took = real.duration_since(self.active.arrived()).as_millis();
        self.bridge.log.change(self.number, |entry| {
            (entry.code, entry.revision) = (code, revision);
            entry.took = u64::try_from(took).unwrap_or(0);
        });
        self.active.answered(if is_reset { 503 } else { code });
        times::add(&mut response, &running.plane.nondet().clock, self.bridge.time(real));
        let reader = BodyReader::of(&response, self.target.as_deref());
        self.bridge.shown.answered(self.number, code, reader.is_plain());
        self.note_traffic();
        (response, reader, control)
    }

    /// Notes the end of the answer's body.
    fn ended(&self, reader: BodyReader) {
        if let Some(version) = reader.finish(&self.active) {
            self.bridge.log.change(self.number, |entry| entry.object_version = Some(version));
        }
        if self.active.is_long() {
            self.bridge.log.change(self.number, |entry| {
                entry.watch.iter_mut().for_each(|watch| watch.has_ended = true);
            });
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
            let watch = entry.watch.get_or_insert_default();
            watch.delivered += events.len() as u64;
            watch.last = Some(last.revision.max(watch.last.unwrap_or(0)));
        });
    }

    fn note_traffic(&self) {
        if self.active.is_counted() {
            self.bridge.running.driver.note_traffic();
        }
    }
}

/// Whether a path is `prefix` or below it.
fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn record(arrival: &Arrival<'_>, active: &ActiveRequest, time: Timestamp) -> LogRecord {
    let is_watch = arrival.target.is_some_and(|target| target.verb == Verb::Watch);
    LogRecord {
        n: 0,
        time,
        real: active.arrived(),
        sender: active.sender().clone(),
        incarnation: active.incarnation(),
        target: arrival.target.cloned(),
        path: if arrival.target.is_none() { arrival.path.into() } else { Box::default() },
        code: 0,
        revision: 0,
        took: 0,
        peer: arrival.peer,
        object_version: None,
        watch: is_watch.then(Box::default),
        write: None,
        perturbed: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
