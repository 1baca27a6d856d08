//! The link to the cluster's members, with one connection each: selects the member to call, fails over to the
//! next, and tracks whether the cluster can be reached. Independent of the requests themselves.
//!
//! All calls and watches use one member until it fails, then the next. A member's watches have everything
//! that its answers reflect, so that readers that wait for a revision depend on one member only.

use super::call_error::CallError;
use super::dial::{Dial, Url};
use crate::limits::{
    ETCD_CALL, ETCD_DOWN, ETCD_KEEP_ALIVE, ETCD_PATIENCE, ETCD_PAUSE, ETCD_PAUSE_MAX, ETCD_WINDOW,
};
use hyper_util::rt::TokioIo;
use kstore_nondet::{Backoff, Rng};
use kstore_proto::etcd::etcdserverpb::AuthenticateRequest;
use kstore_proto::etcd::etcdserverpb::auth_client::AuthClient;
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use kstore_proto::etcd::etcdserverpb::watch_client::WatchClient;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{AsciiMetadataValue, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

/// Credentials for an etcd with authentication.
#[derive(Clone)]
pub struct User {
    /// The user name.
    pub name: String,
    /// The password.
    pub password: String,
}

/// Calls members of the cluster, with authentication, retries and fail-over.
pub(super) struct Link {
    members: Vec<Channel>,
    user: Option<User>,
    rng: Rng,
    state: Mutex<LinkState>,
    /// The newest revision in any response.
    newest: AtomicI64,
    closed: CancellationToken,
}

#[derive(Default)]
struct LinkState {
    /// Index of the member that is called.
    current: usize,
    /// Failures since the last response.
    failures: u32,
    down_since: Option<Instant>,
    /// The authentication token; `Some(None)` if etcd needs none.
    token: Option<Option<AsciiMetadataValue>>,
}

/// The member to call next, with the token of this client.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) index: usize,
    channel: Channel,
    token: Option<AsciiMetadataValue>,
}

impl Member {
    pub(super) fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(super) fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel.clone())
    }

    pub(super) fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// Adds the token to a request, and requires that the member has a leader: a partitioned member would
    /// answer with stale data, or not at all.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

impl Link {
    /// A link that connects when it is first used.
    pub(super) fn new(members: &[Url], user: Option<User>, dial: Arc<dyn Dial>, rng: Rng) -> Self {
        Self {
            members: members.iter().map(|url| channel(url, &dial)).collect(),
            user,
            rng,
            state: Mutex::default(),
            newest: AtomicI64::new(0),
            closed: CancellationToken::new(),
        }
    }

    /// Calls until a member answers or further attempts are pointless. Only for requests that may be executed
    /// more than once.
    ///
    /// # Errors
    /// The last error; `Unavailable` only after the cluster has been unavailable for [`ETCD_PATIENCE`].
    pub(super) async fn call<T, F>(&self, ask: impl Fn(Member) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut began = None;
        loop {
            let error = match self.attempt(&ask).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let began = *began.get_or_insert_with(Instant::now);
            if !self.may_retry(&error, began) {
                return Err(error);
            }
            self.pause().await;
        }
    }

    /// Whether another attempt is allowed for a caller whose first attempt failed at `began`. If the cluster
    /// has been unavailable for long, new callers fail at once.
    pub(super) fn may_retry(&self, error: &CallError, began: Instant) -> bool {
        let began = self.state.lock().down_since.unwrap_or(began).min(began);
        match error {
            CallError::Refused(_) => false,
            CallError::Unavailable { .. } | CallError::InvalidToken => {
                began.elapsed() < ETCD_PATIENCE && !self.closed.is_cancelled()
            }
        }
    }

    /// Calls the current member once.
    pub(super) async fn attempt<T, F>(&self, ask: impl Fn(Member) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let member = self.member().await?;
        let index = member.index;
        let answer = tokio::select! {
            biased;
            () = self.closed.cancelled() => return Err(closed()),
            answer = tokio::time::timeout(ETCD_CALL, ask(member)) => answer,
        };
        let error = match answer {
            Ok(Ok(answer)) => {
                self.answered();
                return Ok(answer.into_inner());
            }
            Ok(Err(status)) => CallError::of(&status),
            Err(_) => CallError::late(),
        };
        self.failed(index, &error);
        Err(error)
    }

    /// The member to call now, with a token if etcd requires one.
    pub(super) async fn member(&self) -> Result<Member, CallError> {
        let (member, known) = {
            let state = self.state.lock();
            let channel = self.members[state.current].clone();
            let known = self.user.is_none() || state.token.is_some();
            (Member { index: state.current, channel, token: state.token.clone().flatten() }, known)
        };
        if known { Ok(member) } else { self.authenticate(member).await }
    }

    async fn authenticate(&self, mut member: Member) -> Result<Member, CallError> {
        let Some(user) = self.user.clone() else { return Ok(member) };
        let request = AuthenticateRequest { name: user.name, password: user.password };
        let mut auth = AuthClient::new(member.channel.clone());
        let answer = tokio::time::timeout(ETCD_CALL, auth.authenticate(request)).await;
        let token = match answer {
            Ok(Ok(answer)) => Some(answer.into_inner().token),
            Ok(Err(status)) if status.message().contains("authentication is not enabled") => None,
            // The caller's own request has not been sent.
            Ok(Err(status)) => return Err(self.not_sent(member.index, CallError::of(&status))),
            Err(_) => return Err(self.not_sent(member.index, CallError::late())),
        };
        let token = token.map(|token| token.parse()).transpose().map_err(|_| CallError::InvalidToken)?;
        self.state.lock().token = Some(token.clone());
        member.token = token;
        Ok(member)
    }

    fn not_sent(&self, member: usize, error: CallError) -> CallError {
        self.failed(member, &error);
        match error {
            CallError::Unavailable { why, .. } => CallError::Unavailable { sent: false, why },
            other @ (CallError::InvalidToken | CallError::Refused(_)) => other,
        }
    }

    /// Records that a member answered.
    pub(super) fn answered(&self) {
        let mut state = self.state.lock();
        if state.down_since.take().is_some() {
            tracing::info!("etcd is available again");
        }
        state.failures = 0;
    }

    /// Records that an attempt or a watch failed, and switches to the next member if the failed one is
    /// current.
    pub(super) fn failed(&self, member: usize, error: &CallError) {
        let mut state = self.state.lock();
        let why = match error {
            CallError::Refused(_) => return,
            CallError::InvalidToken => {
                state.token = None;
                state.failures += 1;
                return;
            }
            CallError::Unavailable { why, .. } => why,
        };
        if state.down_since.is_none() {
            tracing::warn!(%why, "etcd is unavailable");
            state.down_since = Some(Instant::now());
        }
        state.failures += 1;
        if state.current == member {
            state.current = (member + 1) % self.members.len();
        }
    }

    /// Waits, longer after each round of failures; returns at once while there are members that have not been
    /// tried.
    pub(super) async fn pause(&self) {
        let failures = self.state.lock().failures;
        let rounds = failures / u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        if rounds == 0 {
            return;
        }
        let pause = Backoff::doubling(ETCD_PAUSE, ETCD_PAUSE_MAX).wait(rounds);
        self.or_closed(tokio::time::sleep(self.rng.scaled(pause, 0.5..1.0))).await;
    }

    /// Whether the cluster answered last time or failed only a moment ago: a fail-over does not make it
    /// unhealthy.
    pub(super) fn is_healthy(&self) -> bool {
        self.state.lock().down_since.is_none_or(|since| since.elapsed() < ETCD_DOWN)
    }

    /// Resolves when an unavailable cluster should be probed; never resolves while it is available.
    pub(super) async fn probe_due(&self) {
        if self.state.lock().down_since.is_none() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(ETCD_PAUSE_MAX).await;
    }

    /// Records the revision of a response.
    pub(super) fn saw_revision(&self, revision: i64) {
        self.newest.fetch_max(revision, Ordering::AcqRel);
    }

    /// The newest revision in any response.
    pub(super) fn newest(&self) -> i64 {
        self.newest.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// The future's output; `None` as soon as the link is closed.
    pub(super) async fn or_closed<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.closed.cancelled() => None,
            output = future => Some(output),
        }
    }
}

fn closed() -> CallError {
    CallError::Unavailable { sent: true, why: "the storage is closed".into() }
}

fn channel(url: &Url, dial: &Arc<dyn Dial>) -> Channel {
    // A server behind a Unix socket expects the authority `localhost`.
    let named = if url.socket.is_some() { "http://localhost".to_owned() } else { url.to_string() };
    let endpoint = Endpoint::try_from(named).expect("a checked URL is a URL");
    let (url, dial) = (url.clone(), dial.clone());
    let connect = tower::service_fn(move |_: http::Uri| {
        let (url, dial) = (url.clone(), dial.clone());
        async move { dial.dial(&url).await.map(TokioIo::new) }
    });
    endpoint
        .http2_keep_alive_interval(ETCD_KEEP_ALIVE)
        .keep_alive_timeout(ETCD_KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(ETCD_WINDOW)
        .initial_connection_window_size(i32::MAX.unsigned_abs())
        .connect_with_connector_lazy(connect)
}
