//! [`FaultInjector`]: injects faults into requests to the API server of one cluster. `Faults` decides which request gets which fault.

use super::request::{self, Verb};
use super::touch;
use super::{Cut, FaultCounts, Faults, Refusal, RequestFaults};
use crate::limits::COUNTED_REQUESTS;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Uri};
use kstore_access::peer::Peer;
use kstore_client::Client;
use kstore_cluster::{ClientParts, Middleware};
use kstore_nondet::HashMap;
use kstore_registry::error::to_grpc;
use kstore_store::Store;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

/// Users of the cluster's own components, whose requests get faults only if `Faults::client` names them.
const OWN_USERS: [&str; 3] =
    ["system:kube-controller-manager", "system:kube-scheduler", "system:kstore:kubelet-sim"];
/// Prefix of the user names of controllers, which also get faults only if they are named.
const OWN_ACCOUNTS: &str = "system:serviceaccount:kube-system:";

/// User agent of [`crate::Cluster::client`].
pub(crate) const OWN_AGENT: &str = "kstore-testing";

/// Fault injector of one cluster. Clones share the faults in force.
#[derive(Clone)]
pub(crate) struct FaultInjector {
    state: Arc<Mutex<FaultState>>,
    /// The store of the cluster, once that starts.
    store: Arc<OnceLock<Store>>,
}

/// The faults in force, and counts of the requests since they were set.
#[derive(Default)]
struct FaultState {
    faults: Option<Arc<Faults>>,
    /// Number of requests by client, verb and path.
    requests: HashMap<String, u64>,
    counts: FaultCounts,
}

/// The properties of a request that decide about its faults.
struct RequestKey<'r> {
    user: &'r str,
    /// The user agent up to the first slash.
    agent: &'r str,
    verb: Verb,
    path: &'r str,
}

impl FaultInjector {
    pub(crate) fn new(faults: Option<Faults>) -> Self {
        let injector = Self { state: Arc::default(), store: Arc::default() };
        injector.set(faults);
        injector
    }

    /// Replaces the faults in force and resets all counts.
    pub(crate) fn set(&self, faults: Option<Faults>) {
        *self.state.lock() = FaultState { faults: faults.map(Arc::new), ..FaultState::default() };
    }

    pub(crate) fn faults(&self) -> Option<Faults> {
        self.state.lock().faults.as_deref().cloned()
    }

    pub(crate) fn counts(&self) -> FaultCounts {
        self.state.lock().counts
    }

    /// Decides and counts the faults of a request; `None` if no faults are in force for its client.
    fn decide(&self, request: &RequestKey<'_>) -> Option<RequestFaults> {
        let mut state = self.state.lock();
        let faults = state.faults.clone()?;
        let RequestKey { user, agent, verb, path } = *request;
        let is_own = OWN_USERS.contains(&user) || user.starts_with(OWN_ACCOUNTS) || agent == OWN_AGENT;
        let is_named = |client: &String| client == user || client == agent;
        if !(faults.clients.iter().any(is_named) || faults.clients.is_empty() && !is_own) {
            return None;
        }
        let client = if agent.is_empty() { user } else { agent };
        if state.requests.len() >= COUNTED_REQUESTS {
            state.requests.clear();
        }
        let count = state.requests.entry(format!("{client} {verb:?} {path}")).or_default();
        let nth = *count;
        *count += 1;
        let injected = faults.decide(client, verb, path, nth);
        state.counts.add(&injected);
        Some(injected)
    }

    async fn serve(&self, mut request: Request, next: Next) -> Response {
        let Some(verb) = Verb::of(request.method(), request.uri()) else { return next.run(request).await };
        let user = request.extensions().get::<Peer>().map(user_of).unwrap_or_default();
        let agent = agent_of(request.headers());
        let key = RequestKey { user: &user, agent: &agent, verb, path: request.uri().path() };
        let Some(injected) = self.decide(&key) else { return next.run(request).await };
        let is_call = request::is_call(request.uri());
        if !injected.delay.is_zero() {
            tokio::time::sleep(injected.delay).await;
        }
        if let Some(refusal) = injected.refusal {
            return refused(refusal, is_call);
        }
        if injected.touches {
            let value = self.state.lock().counts.conflicts;
            let (same, is_touched) = Box::pin(touch::touch(request, next.clone(), value)).await;
            request = same;
            self.state.lock().counts.conflicts += u64::from(is_touched);
        }
        if let Some(stale) = injected.stale_by.and_then(|by| self.stale(request.uri(), by)) {
            *request.uri_mut() = stale;
        }
        let answer = next.run(request).await;
        if injected.loses_answer && answer.status().is_success() {
            return refused(Refusal::Timeout, is_call);
        }
        match injected.cut {
            None => answer,
            Some(cut) => answer.map(|body| Body::from_stream(until_cut(body.into_data_stream(), cut))),
        }
    }

    /// The URI of the same list `by` revisions ago, but not before the oldest stored revision; `None` if the client does not accept that.
    fn stale(&self, uri: &Uri, by: u64) -> Option<Uri> {
        let by = i64::try_from(by).unwrap_or(i64::MAX);
        let store = self.store.get()?;
        let revision = (store.revision().0 - by).max(store.compacted().0.max(1));
        request::at_revision(uri, revision)
    }

    /// Injects faults into a watch that bypasses the router; `user` is passed separately, because the request's metadata does not have it.
    async fn watch<T, S>(
        &self,
        user: &str,
        headers: HeaderMap,
        opening: impl Future<Output = Result<S, tonic::Status>> + Send,
    ) -> Result<BoxStream<'static, Result<T, tonic::Status>>, tonic::Status>
    where
        S: Stream<Item = Result<T, tonic::Status>> + Send + 'static,
        T: Send + 'static,
    {
        let agent = agent_of(&headers);
        let key = RequestKey { user, agent: &agent, verb: Verb::Watch, path: "/kstore.v1.Kstore/Watch" };
        let injected = self.decide(&key).unwrap_or_default();
        if !injected.delay.is_zero() {
            tokio::time::sleep(injected.delay).await;
        }
        if let Some(refusal) = injected.refusal {
            return Err(call_status(refusal));
        }
        let batches = opening.await?;
        let Some(cut) = injected.cut else { return Ok(batches.boxed()) };
        let end = futures::stream::iter(cut.breaks.then(|| Err(tonic::Status::unavailable(BROKEN))));
        Ok(batches.take_until(tokio::time::sleep(cut.after)).chain(end).boxed())
    }
}

impl Middleware for FaultInjector {
    /// Wraps the API server's router in the fault injector.
    fn layer(&self, router: Router, store: Option<&Store>) -> Router {
        if let Some(store) = store {
            // Each cluster has an injector of its own, so nothing was set before.
            let _ = self.store.set(store.clone());
        }
        let injector = self.clone();
        router.layer(from_fn(move |request: Request, next: Next| {
            let injector = injector.clone();
            async move { injector.serve(request, next).await }
        }))
    }

    /// A client whose watches, which bypass the router, get faults, too.
    fn client(&self, parts: ClientParts<'_>) -> Client {
        let ClientParts { service, user, agent, schedule } = parts;
        let (feed, injector, user) = (service.clone(), self.clone(), user.to_owned());
        let transport = match schedule.is_fifo() {
            true => Client::over(service, agent),
            false => Client::over(schedule.service(service), agent),
        };
        let schedule = schedule.clone();
        transport.with_feed(move |request| {
            let (injector, user, headers) =
                (injector.clone(), user.clone(), request.metadata().clone().into_headers());
            let (opening, schedule) = (feed.watch(request), schedule.clone());
            async move { Ok(schedule.stream(injector.watch(&user, headers, opening).await?)) }
        })
    }
}

/// Error text of a connection that a fault breaks.
const BROKEN: &str = "the connection was cut by a fault of the test";

fn until_cut(
    body: axum::body::BodyDataStream,
    cut: Cut,
) -> impl Stream<Item = Result<axum::body::Bytes, axum::Error>> {
    let broken = || Err(axum::Error::new(std::io::Error::new(std::io::ErrorKind::ConnectionReset, BROKEN)));
    body.take_until(tokio::time::sleep(cut.after)).chain(futures::stream::iter(cut.breaks.then(broken)))
}

fn user_of(peer: &Peer) -> String {
    match peer {
        Peer::InProcess(user) => user.username.clone(),
        Peer::Tls { certificate, .. } => {
            certificate.as_ref().map(|certificate| certificate.user.username.clone()).unwrap_or_default()
        }
    }
}

fn agent_of(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    agent.split('/').next().unwrap_or_default().to_owned()
}

impl Refusal {
    /// The Status object of the response that kube-apiserver would send.
    fn status(self) -> Value {
        let (code, reason, message) = match self {
            Self::TooManyRequests => (
                429,
                "TooManyRequests",
                "the server has received too many requests and has asked us to try again later",
            ),
            Self::InternalError => (500, "InternalError", "Internal error occurred: a fault of the test"),
            Self::Expired => (410, "Expired", "too old resource version: a fault of the test"),
            Self::Timeout => {
                (504, "Timeout", "Timeout: request did not complete within the allotted timeout")
            }
        };
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        if self == Self::TooManyRequests {
            status["details"] = json!({"retryAfterSeconds": 1});
        }
        status
    }
}

fn call_status(refusal: Refusal) -> tonic::Status {
    to_grpc(&serde_json::from_value(refusal.status()).expect("the text is a Status"))
}

/// The HTTP or gRPC response of a refusal.
fn refused(refusal: Refusal, is_call: bool) -> Response {
    if is_call {
        return call_status(refusal).into_http();
    }
    let status = refusal.status();
    if refusal == Refusal::Expired {
        // kube-apiserver responds to such a watch with 200 and an ERROR event.
        let event = format!("{}\n", json!({"type": "ERROR", "object": status}));
        return ([(CONTENT_TYPE, "application/json")], event).into_response();
    }
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = code.and_then(|code| http::StatusCode::from_u16(code).ok()).expect("the code is of HTTP");
    let mut answer = (code, [(CONTENT_TYPE, "application/json")], status.to_string()).into_response();
    if refusal == Refusal::TooManyRequests {
        answer.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    answer
}

impl FaultCounts {
    fn add(&mut self, injected: &RequestFaults) {
        let refused = |refusal| u64::from(injected.refusal == Some(refusal));
        let is_served = injected.refusal.is_none();
        self.too_many_requests += refused(Refusal::TooManyRequests);
        self.server_errors += refused(Refusal::InternalError);
        self.expired_watches += refused(Refusal::Expired);
        self.lost_answers += u64::from(is_served && injected.loses_answer);
        self.stale_lists += u64::from(is_served && injected.stale_by.is_some());
        self.cut_watches += u64::from(is_served && injected.cut.is_some());
        self.delayed += u64::from(!injected.delay.is_zero());
    }
}
