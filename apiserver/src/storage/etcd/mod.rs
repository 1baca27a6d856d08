//! The storage seam over an external etcd, 3.5 or later, of any number of members, which other apiservers may use at the same
//! time. Several files: `link` is who is asked, `dial` how they are reached, `trouble` what it means when they do not answer;
//! `keys`, `note`, `txn` and `batches` translate, without I/O; `newest`, `watch`, `lease`,
//! `compact` and `recognise` are one conversation each.
//!
//! What holds, as over the embedded store: commits are atomic, durable and guarded; reads are linearizable; a watch has neither
//! gap nor repeat; notes are kept with the revision (as a key of their own beside `/registry/`, see `note`).
//!
//! What costs more: every read that must be current asks etcd for its newest revision first (one round trip, shared by all who
//! wait). What there is less of: a commit holds 127 writes and 1.5 MiB (etcd's `--max-txn-ops`, `--max-request-bytes`); history
//! goes back one to two intervals of compaction.
//!
//! When etcd is away, reads and writes fail with `Unavailable` after [`ETCD_PATIENCE`], at once when it has been away for
//! longer; watches wait, and go on where they were. A commit whose answer is lost is repeated, which its guards make
//! harmless, and recognised by its stamp if it was carried out after all; only if etcd does not come back in time is its
//! outcome `Unknown`. GuaranteedUpdate then tries nothing more: its caller hears 504 and must read first.

mod batches;
mod compact;
mod dial;
mod keys;
mod lease;
mod link;
mod newest;
mod note;
mod recognise;
#[cfg(test)]
mod tests;
mod trouble;
mod txn;
mod watch;

pub use dial::{Dial, Network, TlsError, Url, Wire};
pub use keys::BadPrefix;
pub use link::User;

use super::{Commit, CommitError, Outcome, Page, Raw, RawWatch, ReadError, Storage, Write};
use crate::limits::{ETCD_PAGE, ETCD_PATIENCE};
use crate::restart::{Panics, TaskRestarts};
use async_trait::async_trait;
use bytes::Bytes;
use keys::Keys;
use kstore_nondet::Rng;
use kstore_proto::etcd::etcdserverpb::{RangeRequest, RangeResponse, TxnRequest};
use lease::Leases;
use link::{Link, Member};
use newest::{Newest, Wanted};
use note::{Note, Stamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use trouble::{Refusal, Trouble};
use watch::{EtcdWatch, Place};

/// Which etcd, and what of it is ours.
#[derive(Clone)]
pub struct Config {
    /// The members' client URLs; at least one.
    pub members: Vec<Url>,
    /// What the keys of this cluster begin with; Kubernetes' default is `/registry`.
    pub prefix: String,
    /// As whom we come, if etcd asks for a password.
    pub user: Option<User>,
    /// How often etcd is compacted; zero: never, somebody else does it.
    pub compaction: Duration,
}

/// Why an etcd cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No member.
    #[error("an etcd has at least one URL")]
    NoMembers,
    /// The prefix.
    #[error(transparent)]
    Prefix(#[from] BadPrefix),
}

/// An external etcd as a storage.
pub struct Etcd {
    link: Arc<Link>,
    keys: Keys,
    newest: Newest,
    wanted: Arc<Wanted>,
    leases: Leases,
    rng: Rng,
    restarts: TaskRestarts,
}

impl Etcd {
    /// Over the members, which are connected to when first asked. The returned future is the work that nobody waits for: answering
    /// readers and compacting. Spawn it before anything else; it ends when the storage is closed.
    ///
    /// # Errors
    /// When the configuration makes no sense. Whether the members can be reached is found out later.
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
        let wanted = Arc::new(Wanted::default());
        let (newest, questions) = newest::newest();
        let (answerer, compactor) = ((link.clone(), keys.clone(), wanted.clone()), link.clone());
        let interval = config.compaction;
        let restarts = TaskRestarts::default();
        let (restarts_of_answering, restarts_of_compacting) = (restarts.clone(), restarts.clone());
        // Neither has a state that a panic could leave half changed: readers who were waiting are told that they got no answer.
        let answering = async move {
            let (mut questions, mut panics) =
                (questions, Panics::none("etcd-readers", restarts_of_answering));
            let (link, keys, wanted) = answerer;
            loop {
                let answer = newest::answer(link.clone(), keys.clone(), wanted.clone(), &mut questions);
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
        Ok((Arc::new(Self { link, keys, newest, wanted, leases: Leases::default(), rng, restarts }), work))
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, ReadError> {
        let revision = request.revision;
        let ask = |member: Member| {
            let request = member.request(request.clone());
            async move { member.kv().range(request).await }
        };
        let answer = self.link.call(ask).await;
        let answer = answer.map_err(|trouble| trouble.into_read(revision, self.link.newest()))?;
        self.link.heard(answer.header.as_ref().map_or(0, |header| header.revision));
        Ok(answer)
    }

    async fn txn(&self, request: &TxnRequest) -> Result<txn::Answer, Trouble> {
        let ask = |member: Member| {
            let request = member.request(request.clone());
            async move { member.kv().txn(request).await }
        };
        let answer = txn::answer(&self.keys, self.link.attempt(ask).await?);
        self.link.heard(answer.revision);
        Ok(answer)
    }

    async fn leases(&self, commit: &Commit) -> Result<BTreeMap<u64, i64>, CommitError> {
        let mut leases = BTreeMap::from([(0, 0)]);
        for write in &commit.writes {
            if let Write::Put { ttl_seconds, .. } = write
                && !leases.contains_key(ttl_seconds)
            {
                let joined = self.leases.join(&self.link, *ttl_seconds).await;
                // Nothing of the commit itself was sent yet.
                let joined = joined.map_err(|trouble| match trouble {
                    Trouble::Away { why, .. } => CommitError::Unavailable(why),
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

    fn watch_of(&self, place: Place, after: i64) -> EtcdWatch {
        EtcdWatch::new(self.link.clone(), self.keys.clone(), self.wanted.clone(), place, after)
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
        let request = RangeRequest { key: self.keys.outer(key), revision, ..Default::default() };
        let found = self.range(request).await?.kvs.into_iter().next();
        Ok(found.and_then(|kv| self.keys.raw(kv)))
    }

    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError> {
        let mut request = RangeRequest {
            key: self.keys.outer(start),
            range_end: self.keys.outer(end),
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
            // All pages are of one moment.
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
        let (mut doubtful, since, mut began) = (false, self.link.newest(), None);
        let mut request = self.request(&commit, stamp).await?;
        loop {
            let trouble = match self.txn(&request).await {
                Ok(answer) if doubtful && matches!(answer.outcome, Outcome::Lost { .. }) => {
                    return self.recognise(&commit, stamp, since, answer).await;
                }
                Ok(answer) => return Ok(answer.outcome),
                Err(trouble) => trouble,
            };
            doubtful |= matches!(trouble, Trouble::Away { sent: true, .. });
            let began = *began.get_or_insert_with(Instant::now);
            let revoked = trouble == Trouble::Refused(Refusal::LeaseNotFound);
            let harmless = !doubtful || txn::is_repeatable(&commit);
            let again = self.link.may_retry(&trouble, began) || revoked && began.elapsed() < ETCD_PATIENCE;
            if !again || !harmless {
                return Err(trouble.into_commit(doubtful));
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
            true => self.keys.everything(),
            false => (self.keys.outer(prefix), self.keys.outer(&super::prefix_end(prefix))),
        };
        let mut watch = self.watch_of(Place { start, end, whole }, after);
        // A watch hears late that its beginning was compacted; a read hears it at once. Only then is it worth waiting to be told
        // what is left.
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
