//! The members of the cluster, one connection each: which one is asked, what happens when it does not answer, and whether the
//! cluster can be reached at all. Knows nothing of what is asked.
//!
//! All calls and watches go to one member until it fails, then to the next: what a member has answered it also has on its
//! watches, so that readers who wait for a revision wait for one member's work only.

use super::dial::{Dial, Url};
use super::trouble::Trouble;
use crate::limits::{
    ETCD_CALL, ETCD_DOWN, ETCD_KEEP_ALIVE, ETCD_PATIENCE, ETCD_PAUSE, ETCD_PAUSE_MAX, ETCD_WINDOW,
};
use hyper_util::rt::TokioIo;
use kstore_nondet::Rng;
use kstore_proto::etcd::etcdserverpb::{
    AuthenticateRequest, auth_client::AuthClient, kv_client::KvClient, lease_client::LeaseClient,
    watch_client::WatchClient,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{AsciiMetadataValue, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

/// As whom etcd knows us, where it asks for a password.
#[derive(Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

/// The way to the cluster.
pub(super) struct Link {
    members: Vec<Channel>,
    user: Option<User>,
    rng: Rng,
    state: Mutex<State>,
    /// The newest revision that any answer named.
    newest: AtomicI64,
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    /// Who is asked.
    current: usize,
    /// Failures since the last answer, and when the first of them was.
    failures: u32,
    down_since: Option<Instant>,
    /// What we show; `Some(None)` when nothing has to be shown.
    token: Option<Option<AsciiMetadataValue>>,
}

/// A member that is about to be asked.
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

    /// With our token, and for members that have a leader only: one that is cut off would answer with what is old, or not at
    /// all.
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
    /// Connects when first asked.
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

    /// Asks until there is an answer or none is to be expected; for what may be carried out more than once.
    ///
    /// # Errors
    /// The last trouble, `Away` only after the cluster has been so for [`ETCD_PATIENCE`].
    pub(super) async fn call<T, F>(&self, ask: impl Fn(Member) -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut began = None;
        loop {
            let trouble = match self.attempt(&ask).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            let began = *began.get_or_insert_with(Instant::now);
            if !self.may_retry(&trouble, began) {
                return Err(trouble);
            }
            self.pause().await;
        }
    }

    /// Whether another attempt is worth while for somebody whose first failed at `began`: who comes when the cluster has been
    /// away for long hears so at once.
    pub(super) fn may_retry(&self, trouble: &Trouble, began: Instant) -> bool {
        let began = self.state.lock().down_since.unwrap_or(began).min(began);
        match trouble {
            Trouble::Refused(_) => false,
            Trouble::Away { .. } | Trouble::Stranger => {
                began.elapsed() < ETCD_PATIENCE && !self.closed.is_cancelled()
            }
        }
    }

    /// Asks once.
    pub(super) async fn attempt<T, F>(&self, ask: impl Fn(Member) -> F) -> Result<T, Trouble>
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
        let trouble = match answer {
            Ok(Ok(answer)) => {
                self.answered();
                return Ok(answer.into_inner());
            }
            Ok(Err(status)) => Trouble::of(&status),
            Err(_) => Trouble::late(),
        };
        self.failed(index, &trouble);
        Err(trouble)
    }

    /// Who is to be asked now, with a token if etcd wants one.
    pub(super) async fn member(&self) -> Result<Member, Trouble> {
        let (member, known) = {
            let state = self.state.lock();
            let channel = self.members[state.current].clone();
            let known = self.user.is_none() || state.token.is_some();
            (Member { index: state.current, channel, token: state.token.clone().flatten() }, known)
        };
        if known { Ok(member) } else { self.authenticate(member).await }
    }

    async fn authenticate(&self, mut member: Member) -> Result<Member, Trouble> {
        let Some(user) = self.user.clone() else { return Ok(member) };
        let request = AuthenticateRequest { name: user.name, password: user.password };
        let mut auth = AuthClient::new(member.channel.clone());
        let answer = tokio::time::timeout(ETCD_CALL, auth.authenticate(request)).await;
        let token = match answer {
            Ok(Ok(answer)) => Some(answer.into_inner().token),
            Ok(Err(status)) if status.message().contains("authentication is not enabled") => None,
            // Whatever was asked has not been sent.
            Ok(Err(status)) => return Err(self.not_sent(member.index, Trouble::of(&status))),
            Err(_) => return Err(self.not_sent(member.index, Trouble::late())),
        };
        let token = token.map(|token| token.parse()).transpose().map_err(|_| Trouble::Stranger)?;
        self.state.lock().token = Some(token.clone());
        member.token = token;
        Ok(member)
    }

    fn not_sent(&self, member: usize, trouble: Trouble) -> Trouble {
        self.failed(member, &trouble);
        match trouble {
            Trouble::Away { why, .. } => Trouble::Away { sent: false, why },
            other @ (Trouble::Stranger | Trouble::Refused(_)) => other,
        }
    }

    /// A member has answered.
    pub(super) fn answered(&self) {
        let mut state = self.state.lock();
        if state.down_since.take().is_some() {
            tracing::info!("etcd answers");
        }
        state.failures = 0;
    }

    /// A watch of this member broke, or an attempt failed: somebody else is asked next.
    pub(super) fn failed(&self, member: usize, trouble: &Trouble) {
        let mut state = self.state.lock();
        let why = match trouble {
            Trouble::Refused(_) => return,
            Trouble::Stranger => {
                state.token = None;
                state.failures += 1;
                return;
            }
            Trouble::Away { why, .. } => why,
        };
        if state.down_since.is_none() {
            tracing::warn!(%why, "etcd does not answer");
            state.down_since = Some(Instant::now());
        }
        state.failures += 1;
        if state.current == member {
            state.current = (member + 1) % self.members.len();
        }
    }

    /// Waits a little longer after each round of failures; not at all while there are members that were not asked.
    pub(super) async fn pause(&self) {
        let failures = self.state.lock().failures;
        let rounds = failures / u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        if rounds == 0 {
            return;
        }
        let pause = ETCD_PAUSE.saturating_mul(1 << rounds.min(8)).min(ETCD_PAUSE_MAX);
        self.or_closed(tokio::time::sleep(pause.mul_f64(0.5 + self.rng.unit() / 2.0))).await;
    }

    /// Whether the cluster answered when it was last asked, or failed only a moment ago: a fail-over is no illness.
    pub(super) fn is_healthy(&self) -> bool {
        self.state.lock().down_since.is_none_or(|since| since.elapsed() < ETCD_DOWN)
    }

    /// Resolves when the cluster should be asked for nothing but to see whether it is back.
    pub(super) async fn due(&self) {
        if self.state.lock().down_since.is_none() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(ETCD_PAUSE_MAX).await;
    }

    /// An answer named this revision.
    pub(super) fn heard(&self, revision: i64) {
        self.newest.fetch_max(revision, Ordering::AcqRel);
    }

    /// The newest revision that was heard of.
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

fn closed() -> Trouble {
    Trouble::Away { sent: true, why: "the storage is closed".into() }
}

fn channel(url: &Url, dial: &Arc<dyn Dial>) -> Channel {
    // What is dialled over a socket file is spoken to as this machine.
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
