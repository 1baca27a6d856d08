//! [`Edge`]: carries faults out, around the API server of one cluster. What happens to which request is decided by `Faults`.

use super::request::{self, Verb};
use super::{Cut, Fate, FaultCounts, Faults, Refusal};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Uri};
use kstore_apiserver::authn::Peer;
use kstore_apiserver::error::to_grpc;
use kstore_nondet::HashMap;
use kstore_store::Store;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::limits::COUNTED_REQUESTS;

/// Users whose requests meet faults only if they are named: the parts of the cluster itself, and the client of the test.
const OWN_USERS: [&str; 3] =
    ["system:kube-controller-manager", "system:kube-scheduler", "system:kstore:kubelet-sim"];
/// Prefix of the names of further such users: the controllers have accounts of their own there.
const OWN_ACCOUNTS: &str = "system:serviceaccount:kube-system:";

/// The program name of [`crate::Cluster::client`].
pub(crate) const OWN_AGENT: &str = "kstore-testing";

/// The edge of one cluster. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Edge {
    plan: Arc<Mutex<Plan>>,
    store: Store,
}

/// The faults in force and the requests that they have met.
#[derive(Default)]
struct Plan {
    faults: Option<Arc<Faults>>,
    /// How many requests there were, by client, verb and path.
    requests: HashMap<String, u64>,
    counts: FaultCounts,
}

/// A request as the plan knows it.
struct Subject<'r> {
    user: &'r str,
    /// The user agent up to the first slash.
    agent: &'r str,
    verb: Verb,
    path: &'r str,
}

impl Edge {
    pub(crate) fn new(store: Store, faults: Option<Faults>) -> Self {
        let edge = Self { plan: Arc::default(), store };
        edge.set(faults);
        edge
    }

    /// Replaces the faults in force; they begin with the first request of each client.
    pub(crate) fn set(&self, faults: Option<Faults>) {
        *self.plan.lock() = Plan { faults: faults.map(Arc::new), ..Plan::default() };
    }

    pub(crate) fn faults(&self) -> Option<Faults> {
        self.plan.lock().faults.as_deref().cloned()
    }

    pub(crate) fn counts(&self) -> FaultCounts {
        self.plan.lock().counts
    }

    /// The API of a server behind this edge.
    pub(crate) fn layer(&self, router: Router) -> Router {
        let edge = self.clone();
        router.layer(from_fn(move |request: Request, next: Next| {
            let edge = edge.clone();
            async move { edge.serve(request, next).await }
        }))
    }

    /// The fate of a request; `None` if there are no faults for it.
    fn fate(&self, subject: &Subject<'_>) -> Option<Fate> {
        let mut plan = self.plan.lock();
        let faults = plan.faults.clone()?;
        let Subject { user, agent, verb, path } = *subject;
        let is_own = OWN_USERS.contains(&user) || user.starts_with(OWN_ACCOUNTS) || agent == OWN_AGENT;
        let is_named = |client: &String| client == user || client == agent;
        if !(faults.clients.iter().any(is_named) || faults.clients.is_empty() && !is_own) {
            return None;
        }
        let client = if agent.is_empty() { user } else { agent };
        if plan.requests.len() >= COUNTED_REQUESTS {
            plan.requests.clear();
        }
        let count = plan.requests.entry(format!("{client} {verb:?} {path}")).or_default();
        let nth = *count;
        *count += 1;
        let fate = faults.decide(client, verb, path, nth);
        plan.counts.add(&fate);
        Some(fate)
    }

    async fn serve(&self, mut request: Request, next: Next) -> Response {
        let Some(verb) = Verb::of(request.method(), request.uri()) else { return next.run(request).await };
        let user = request.extensions().get::<Peer>().map(user_of).unwrap_or_default();
        let agent = agent_of(request.headers());
        let subject = Subject { user: &user, agent: &agent, verb, path: request.uri().path() };
        let Some(fate) = self.fate(&subject) else { return next.run(request).await };
        let is_call = request::is_call(request.uri());
        if !fate.delay.is_zero() {
            tokio::time::sleep(fate.delay).await;
        }
        if let Some(refusal) = fate.refusal {
            return refused(refusal, is_call);
        }
        if let Some(stale) = fate.stale_by.and_then(|by| self.stale(request.uri(), by)) {
            *request.uri_mut() = stale;
        }
        let answer = next.run(request).await;
        if fate.loses_answer && answer.status().is_success() {
            return refused(Refusal::Timeout, is_call);
        }
        match fate.cut {
            None => answer,
            Some(cut) => answer.map(|body| Body::from_stream(until_cut(body.into_data_stream(), cut))),
        }
    }

    /// The list of some revisions ago, if it is there and the client accepts it.
    fn stale(&self, uri: &Uri, by: u64) -> Option<Uri> {
        let by = i64::try_from(by).unwrap_or(i64::MAX);
        let revision = (self.store.revision().0 - by).max(self.store.compacted().0.max(1));
        request::at_revision(uri, revision)
    }

    /// A watch that does not pass the router, of a client whose name is not in its metadata.
    pub(crate) async fn watch<T, S>(
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
        let subject = Subject { user, agent: &agent, verb: Verb::Watch, path: "/kstore.v1.Kstore/Watch" };
        let fate = self.fate(&subject).unwrap_or_default();
        if !fate.delay.is_zero() {
            tokio::time::sleep(fate.delay).await;
        }
        if let Some(refusal) = fate.refusal {
            return Err(call_status(refusal));
        }
        let batches = opening.await?;
        let Some(cut) = fate.cut else { return Ok(batches.boxed()) };
        let end = futures::stream::iter(cut.breaks.then(|| Err(tonic::Status::unavailable(BROKEN))));
        Ok(batches.take_until(tokio::time::sleep(cut.after)).chain(end).boxed())
    }
}

/// What a client reads of a broken connection.
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
    /// The Status object that kube-apiserver would answer with.
    fn status(self) -> Value {
        let (code, reason, message) = match self {
            Self::Conflict => (
                409,
                "Conflict",
                "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
            ),
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

/// The refusal as an answer by HTTP, or by gRPC.
fn refused(refusal: Refusal, is_call: bool) -> Response {
    if is_call {
        return call_status(refusal).into_http();
    }
    let status = refusal.status();
    if refusal == Refusal::Expired {
        // kube-apiserver accepts such a watch and says so in its first event.
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
    fn add(&mut self, fate: &Fate) {
        let refused = |refusal| u64::from(fate.refusal == Some(refusal));
        let is_served = fate.refusal.is_none();
        self.conflicts += refused(Refusal::Conflict);
        self.too_many_requests += refused(Refusal::TooManyRequests);
        self.server_errors += refused(Refusal::InternalError);
        self.expired_watches += refused(Refusal::Expired);
        self.lost_answers += u64::from(is_served && fate.loses_answer);
        self.stale_lists += u64::from(is_served && fate.stale_by.is_some());
        self.cut_watches += u64::from(is_served && fate.cut.is_some());
        self.delayed += u64::from(!fate.delay.is_zero());
    }
}
