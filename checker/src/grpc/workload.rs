//! [`Workload`]: all concurrent activity against an endpoint, from a known start to a known end.

use super::clock::Clock;
use super::link::Link;
use super::{Plan, client, compactor, watcher};
use crate::history::{
    Call, History, InitialState, Keys, Operation, Outcome, Range, RangeReply, Refusal, Reply, Watch,
};
use kstore_nondet::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Most keys that an endpoint may hold before the workload: they become part of the history.
const KEYS_BEFORE: i64 = 10_000;

/// Time for the watch on everything to catch up at the end.
const CATCH_UP: Duration = Duration::from_secs(120);

/// Time for the endpoint to answer before the workload starts, and again at its end.
const PATIENCE: Duration = Duration::from_secs(180);

/// State shared by all clients of a workload.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) clock: Clock,
    /// The newest revision that any client has observed.
    pub(super) revision: AtomicI64,
    /// The last revision of the workload once it is known; before, the largest possible one.
    last: AtomicI64,
    /// Number of calls so far.
    calls: AtomicU64,
    /// Notified at each call.
    called: Notify,
    /// Cancelled when no further calls may start.
    pub(super) stop: CancellationToken,
    /// Cancelled when nothing waits any more.
    pub(super) done: CancellationToken,
}

impl Shared {
    pub(super) fn saw(&self, revision: i64) {
        self.revision.fetch_max(revision, Ordering::Relaxed);
    }

    pub(super) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.called.notify_waiters();
    }

    fn url(&self) -> String {
        self.plan.endpoints.first().cloned().unwrap_or_default()
    }

    fn no_answer(&self, detail: &str) -> StartError {
        StartError::NoAnswer { url: self.url(), detail: detail.to_owned() }
    }

    /// Whether no event follows after this revision.
    pub(super) fn is_complete(&self, revision: i64) -> bool {
        revision >= self.last.load(Ordering::Relaxed)
    }
}

/// Why a workload could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The URL is invalid.
    #[error("{url}: {source}")]
    Url {
        /// The given URL.
        url: String,
        /// The parse error.
        source: tonic::transport::Error,
    },
    /// No endpoint was given.
    #[error("there is no endpoint")]
    NoEndpoint,
    /// The endpoint does not answer.
    #[error("{url} does not answer like an etcd: {detail}")]
    NoAnswer {
        /// The endpoint's URL.
        url: String,
        /// The response or error.
        detail: String,
    },
    /// The endpoint holds too many keys.
    #[error(
        "{url} holds {count} keys; use one that is empty or nearly so, and that no other client writes to"
    )]
    Full {
        /// The endpoint's URL.
        url: String,
        /// Number of keys.
        count: i64,
    },
}

/// A recorded workload.
#[derive(Clone, Debug)]
pub struct Recording {
    /// All calls and watches of the clients.
    pub history: History,
    /// Whether the watch on everything caught up. If not, the watch stalls or loses events at its end.
    pub complete: bool,
}

/// A running workload of clients, a compactor and watchers.
#[derive(Debug)]
pub struct Workload {
    shared: Arc<Shared>,
    start: InitialState,
    calls: JoinSet<Vec<Call>>,
    watches: JoinSet<Vec<Watch>>,
    primary: JoinSet<Vec<Watch>>,
    last: Link,
}

impl Workload {
    /// Reads what the endpoint holds, compacts it so that the oldest readable revision is known, and starts the
    /// clients.
    ///
    /// # Errors
    /// If the endpoint does not answer, or holds too much.
    pub async fn start(plan: Plan) -> Result<Self, StartError> {
        if plan.endpoints.is_empty() {
            return Err(StartError::NoEndpoint);
        }
        let shared = Arc::new(Shared {
            plan,
            clock: Clock::start(),
            revision: AtomicI64::new(1),
            last: AtomicI64::new(i64::MAX),
            calls: AtomicU64::new(0),
            called: Notify::new(),
            stop: CancellationToken::new(),
            done: CancellationToken::new(),
        });
        let mut last = link(&shared, 0)?;
        let start = survey(&shared, &mut last).await?;
        shared.saw(start.revision);
        let (calls, watches, primary) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        let mut workload = Self { shared, start, calls, watches, primary, last };
        workload.spawn()?;
        Ok(workload)
    }

    fn spawn(&mut self) -> Result<(), StartError> {
        let (shared, rng) = (&self.shared, Rng::seeded(self.shared.plan.seed));
        let Plan { clients, watchers, .. } = shared.plan;
        for id in 1..=clients {
            self.calls.spawn(client::run(shared.clone(), id, link(shared, id)?, rng.fork("client")));
        }
        let id = clients + 1;
        self.calls.spawn(compactor::run(shared.clone(), id, link(shared, id)?, rng.fork("compactor")));
        for id in clients + 2..clients + 2 + watchers {
            self.watches.spawn(watcher::roaming(shared.clone(), id, link(shared, id)?, rng.fork("watcher")));
        }
        let (id, first) = (clients + 2 + watchers, self.start.revision + 1);
        self.primary.spawn(watcher::everything(shared.clone(), id, link(shared, id)?, first));
        Ok(())
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Waits until at least this number of calls was made.
    pub async fn reached(&self, calls: u64) {
        loop {
            let called = self.shared.called.notified();
            if self.calls() >= calls {
                return;
            }
            called.await;
        }
    }

    /// Lets calls in progress finish, reads everything once more, waits until the watch on everything has caught up,
    /// and returns the recording. The endpoint must answer by then.
    ///
    /// # Errors
    /// If it does not answer within three minutes.
    pub async fn finish(mut self) -> Result<Recording, StartError> {
        self.shared.stop.cancel();
        let calls = std::mem::take(&mut self.calls).join_all().await;
        let mut calls: Vec<_> = calls.into_iter().flatten().collect();
        let everything = Range { keys: Keys::all(), ..Range::default() };
        let (found, read_calls) = read(&self.shared, &mut self.last, everything).await?;
        calls.extend(read_calls);
        self.shared.last.store(found.revision, Ordering::Relaxed);
        let mut primary = std::mem::take(&mut self.primary);
        let complete = tokio::time::timeout(CATCH_UP, primary.join_next()).await;
        self.shared.done.cancel();
        let mut watches: Vec<_> = primary.join_all().await.into_iter().flatten().collect();
        let is_complete = complete.is_ok();
        watches.extend(complete.into_iter().flatten().flat_map(|joined| joined.unwrap_or_default()));
        watches.extend(std::mem::take(&mut self.watches).join_all().await.into_iter().flatten());
        Ok(Recording { history: History { start: self.start, calls, watches }, complete: is_complete })
    }
}

fn link(shared: &Shared, id: u32) -> Result<Link, StartError> {
    let endpoints = &shared.plan.endpoints;
    let url = &endpoints[id as usize % endpoints.len()];
    Link::new(url).map_err(|source| StartError::Url { url: url.clone(), source })
}

/// Repeats a call until it is answered or refused, because a reply is needed. Returns all attempts, the answered one
/// last.
async fn ask(shared: &Shared, link: &mut Link, operation: Operation) -> Result<Vec<Call>, StartError> {
    // The workload's own token may be cancelled by now.
    let never = CancellationToken::new();
    let mut calls: Vec<Call> = Vec::new();
    let asking = async {
        while calls.last().is_none_or(|call| call.outcome == Outcome::Unknown) {
            calls.extend(client::call(shared, 0, link, &never, operation.clone()).await);
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(()) => Ok(calls),
        Err(_) => Err(shared.no_answer("no answer")),
    }
}

/// Reads a range, which must not be refused.
async fn read(shared: &Shared, link: &mut Link, range: Range) -> Result<(RangeReply, Vec<Call>), StartError> {
    let calls = ask(shared, link, Operation::Range(range)).await?;
    match calls.last().map(|call| call.outcome.clone()) {
        Some(Outcome::Ok(Reply::Range(reply))) => Ok((reply, calls)),
        other => Err(shared.no_answer(&format!("a read was answered with {other:?}"))),
    }
}

/// Reads what the endpoint holds, after a compaction at its current revision.
async fn survey(shared: &Shared, link: &mut Link) -> Result<InitialState, StartError> {
    let everything = Range { keys: Keys::all(), ..Range::default() };
    let (found, _) = read(shared, link, Range { count_only: true, ..everything.clone() }).await?;
    if found.count > KEYS_BEFORE {
        return Err(StartError::Full { url: shared.url(), count: found.count });
    }
    let revision = found.revision;
    let compacted = ask(shared, link, Operation::Compact { revision }).await?;
    let (found, _) = read(shared, link, everything).await?;
    match compacted.last().map(|call| &call.outcome) {
        Some(Outcome::Ok(_) | Outcome::Failed(Refusal::Compacted)) if found.revision == revision => {
            Ok(InitialState { revision, compacted: revision, kvs: found.kvs })
        }
        _ => Err(shared.no_answer("another client writes to it")),
    }
}
