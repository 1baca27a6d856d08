//! The storage seam over an external etcd, 3.5 or later, with any number of members. Other apiservers may use
//! it at the same time. `link` selects the member to call, `dial` connects to it, `call_error` classifies
//! failures. `keys`, `note`, `txn` and `batches` translate without I/O. `newest`, `watch`, `lease`, `compact`
//! and `lost_reply` implement one exchange with etcd each.
//!
//! Guarantees, as over the embedded store: commits are atomic, durable and guarded; reads are linearizable; a
//! watch neither skips nor repeats a change; notes are stored with the revision (under a key of their own
//! beside `/registry/`, see `note`).
//!
//! Costs and limits: a linearizable read first asks etcd for its newest revision, one round trip that
//! concurrent readers share. A commit holds 127 writes and 1.5 MiB (etcd's `--max-txn-ops`,
//! `--max-request-bytes`). History reaches back one to two intervals of compaction.
//!
//! While etcd is unavailable, reads and writes fail with `Unavailable` after [`ETCD_PATIENCE`], or at once if
//! it has been unavailable for longer. Watches wait, and continue where they were. A commit whose reply is
//! lost is repeated, which its guards make harmless; its stamp shows whether the first attempt was committed.
//! Only if etcd does not return in time is the outcome `Unknown`. GuaranteedUpdate then gives up: its caller
//! gets 504 and must read before it retries.

mod batches;
mod call_error;
mod compact;
mod dial;
mod keys;
mod lease;
mod link;
mod lost_reply;
mod newest;
mod note;
#[cfg(test)]
mod tests;
mod txn;
mod watch;

use super::{Commit, CommitError, Outcome, Page, Raw, RawWatch, ReadError, Storage, Write};
use crate::limits::{ETCD_PAGE, ETCD_PATIENCE};
use crate::restart::{Panics, TaskRestarts};
use async_trait::async_trait;
use bytes::Bytes;
use call_error::{CallError, Refusal};
pub use dial::{Dial, Network, TlsError, Url, Wire};
pub use keys::BadPrefix;
use keys::Keys;
use kstore_nondet::Rng;
use kstore_proto::etcd::etcdserverpb::{RangeRequest, RangeResponse, TxnRequest};
use lease::Leases;
pub use link::User;
use link::{Link, Member};
use newest::{Newest, RequestedProgress};
use note::{Note, Stamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use watch::{EtcdWatch, WatchedRange};

/// Configuration of an external etcd.
#[derive(Clone)]
pub struct Config {
    /// Client URLs of the members; at least one.
    pub members: Vec<Url>,
    /// Prefix of the cluster's keys; Kubernetes' default is `/registry`.
    pub prefix: String,
    /// Credentials, if etcd requires authentication.
    pub user: Option<User>,
    /// Interval between compactions; zero if another client compacts.
    pub compaction: Duration,
}

/// Why the configuration of an etcd is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no URL.
    #[error("no etcd URL is configured")]
    NoMembers,
    /// The prefix is invalid.
    #[error(transparent)]
    Prefix(#[from] BadPrefix),
}

/// An external etcd as a [`Storage`].
pub struct Etcd {
    link: Arc<Link>,
    keys: Keys,
    newest: Newest,
    progress: Arc<RequestedProgress>,
    leases: Leases,
    rng: Rng,
    restarts: TaskRestarts,
}

impl Etcd {
    /// A storage over the members, which are connected to when first used. The returned future serves readers
    /// and compacts. Spawn it before using the storage; it ends when the storage is closed.
    ///
    /// # Errors
    /// If the configuration is invalid. Whether members can be reached shows only when they are used.
    pub fn new(
        config: &Config,
        dial: Arc<dyn Dial>,
        rng: &Rng,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), ConfigError> {
        if config.members.is_empty() {
            return Err(ConfigError::NoMembers);
        }
        let keys = Keys::new(&config.prefix)?;
        let rng = rng.fork("etcd");
        let link = Arc::new(Link::new(&config.members, config.user.clone(), dial, rng.clone()));
        let progress = Arc::new(RequestedProgress::default());
        let (newest, requests) = newest::newest();
        let (answerer, compactor) = ((link.clone(), keys.clone(), progress.clone()), link.clone());
        let interval = config.compaction;
        let restarts = TaskRestarts::default();
        let (restarts_of_answering, restarts_of_compacting) = (restarts.clone(), restarts.clone());
        // Neither task has state that a panic could leave half changed: waiting readers get an error.
        let answering = async move {
            let (mut requests, mut panics) = (requests, Panics::none("etcd-readers", restarts_of_answering));
            let (link, keys, progress) = answerer;
            loop {
                let answer =
                    newest::serve_readers(link.clone(), keys.clone(), progress.clone(), &mut requests);
                let Err(panicked) = panics.contain(answer).await else { return };
                tokio::time::sleep(panicked.wait).await;
            }
        };
        let compacting = async move {
            let mut panics = Panics::none("etcd-compaction", restarts_of_compacting);
            while let Err(panicked) = panics.contain(compact::run(compactor.clone(), interval)).await {
                tokio::time::sleep(panicked.wait).await;
            }
        };
        let work = async move {
            tokio::join!(answering, compacting);
        };
        Ok((Arc::new(Self { link, keys, newest, progress, leases: Leases::default(), rng, restarts }), work))
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, ReadError> {
        let revision = request.revision;
        let ask = |member: Member| {
            let request = member.request(request.clone());
            async move { member.kv().range(request).await }
        };
        let answer = self.link.call(ask).await;
        let answer = answer.map_err(|error| error.into_read(revision, self.link.newest()))?;
        self.link.saw_revision(answer.header.as_ref().map_or(0, |header| header.revision));
        Ok(answer)
    }

    async fn txn(&self, request: &TxnRequest) -> Result<txn::TxnOutcome, CallError> {
        let ask = |member: Member| {
            let request = member.request(request.clone());
            async move { member.kv().txn(request).await }
        };
        let answer = txn::answer(&self.keys, self.link.attempt(ask).await?);
        self.link.saw_revision(answer.revision);
        Ok(answer)
    }

    async fn leases(&self, commit: &Commit) -> Result<BTreeMap<u64, i64>, CommitError> {
        let mut leases = BTreeMap::from([(0, 0)]);
        for write in &commit.writes {
            if let Write::Put { ttl_seconds, .. } = write
                && !leases.contains_key(ttl_seconds)
            {
                let joined = self.leases.join(&self.link, *ttl_seconds).await;
                // Nothing of the commit itself has been sent yet.
                let joined = joined.map_err(|error| match error {
                    CallError::Unavailable { why, .. } => CommitError::Unavailable(why),
                    other => other.into_commit(false),
                });
                leases.insert(*ttl_seconds, joined?);
            }
        }
        Ok(leases)
    }

    async fn request(&self, commit: &Commit, stamp: Stamp) -> Result<TxnRequest, CommitError> {
        let leases = self.leases(commit).await?;
        let note = Note { stamp, text: commit.note.clone() };
        let lease_of = |ttl| leases.get(&ttl).copied().unwrap_or_default();
        Ok(txn::request(&self.keys, commit, &note, lease_of))
    }

    fn watch_of(&self, range: WatchedRange, after: i64) -> EtcdWatch {
        EtcdWatch::new(self.link.clone(), self.keys.clone(), self.progress.clone(), range, after)
    }
}

#[async_trait]
impl Storage for Etcd {
    fn revision_here(&self) -> Option<i64> {
        None
    }

    async fn revision(&self) -> Result<i64, ReadError> {
        self.newest.ask().await
    }

    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError> {
        let request = RangeRequest { key: self.keys.etcd_key(key), revision, ..Default::default() };
        let found = self.range(request).await?.kvs.into_iter().next();
        Ok(found.and_then(|kv| self.keys.raw(kv)))
    }

    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError> {
        let mut request = RangeRequest {
            key: self.keys.etcd_key(start),
            range_end: self.keys.etcd_key(end),
            limit: if limit == 0 { ETCD_PAGE } else { limit.min(ETCD_PAGE) },
            revision,
            ..Default::default()
        };
        let mut page = Page { items: Vec::new(), more: false, count: 0 };
        loop {
            let answer = self.range(request.clone()).await?;
            if page.items.is_empty() {
                page.count = answer.count;
            }
            // All pages are read at one revision.
            if request.revision == 0 {
                request.revision = answer.header.map_or(0, |header| header.revision);
            }
            let last = answer.kvs.last().map(|kv| kv.key.clone());
            page.items.extend(answer.kvs.into_iter().filter_map(|kv| self.keys.raw(kv)));
            page.more = answer.more;
            let left = limit - i64::try_from(page.items.len()).unwrap_or(i64::MAX);
            let Some(last) = last.filter(|_| answer.more && (limit == 0 || left > 0)) else {
                return Ok(page);
            };
            request.key = Bytes::from([&last[..], b"\0"].concat());
            if limit > 0 {
                request.limit = left.min(ETCD_PAGE);
            }
        }
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        let stamp = Stamp::new(&self.rng);
        let (mut may_have_committed, since, mut began) = (false, self.link.newest(), None);
        let mut request = self.request(&commit, stamp).await?;
        loop {
            let error = match self.txn(&request).await {
                Ok(answer) if may_have_committed && matches!(answer.outcome, Outcome::Lost { .. }) => {
                    return self.outcome_after_lost_reply(&commit, stamp, since, answer).await;
                }
                Ok(answer) => return Ok(answer.outcome),
                Err(error) => error,
            };
            may_have_committed |= matches!(error, CallError::Unavailable { sent: true, .. });
            let began = *began.get_or_insert_with(Instant::now);
            let revoked = error == CallError::Refused(Refusal::LeaseNotFound);
            let harmless = !may_have_committed || txn::is_repeatable(&commit);
            let again = self.link.may_retry(&error, began) || revoked && began.elapsed() < ETCD_PATIENCE;
            if !again || !harmless {
                return Err(error.into_commit(may_have_committed));
            }
            if revoked {
                self.leases.forget();
                request = self.request(&commit, stamp).await?;
            }
            self.link.pause().await;
        }
    }

    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        let whole = prefix.is_empty();
        let (start, end) = match whole {
            true => self.keys.all_keys(),
            false => (self.keys.etcd_key(prefix), self.keys.etcd_key(&super::prefix_end(prefix))),
        };
        let mut watch = self.watch_of(WatchedRange { start, end, whole }, after);
        // A watch reports late that its start was compacted; a read reports it at once. Only then wait for
        // the watch's error, which names the oldest revision.
        let probe = RangeRequest {
            key: self.keys.note(),
            revision: after + 1,
            count_only: true,
            ..Default::default()
        };
        match self.range(probe).await {
            Err(ReadError::Compacted { .. }) => match watch.next().await {
                Some(Err(error)) => Err(error),
                Some(Ok(_)) | None => Err(ReadError::Compacted { oldest: after + 1 }),
            },
            Ok(_) | Err(ReadError::Future { .. }) => Ok(Box::new(watch)),
            Err(error) => Err(error),
        }
    }

    fn is_healthy(&self) -> bool {
        self.link.is_healthy()
    }

    fn task_restarts(&self) -> Option<TaskRestarts> {
        Some(self.restarts.clone())
    }

    async fn close(&self) {
        self.link.close();
    }
}
