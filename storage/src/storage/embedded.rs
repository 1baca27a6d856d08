//! The storage seam over the store in this process. Translates types, and leases keys with a time to live;
//! does not parse objects.
//!
//! Advantages over an external etcd: the newest revision is a load from memory, so that a linearizable read
//! takes no round trip. Notes are part of the log and take no key. A commit may be as large as the log
//! accepts. History is kept as long as `--history` says, and old revisions are read without a round trip.

use super::{
    Commit, CommitError, Guard, KeyVersion, KeyVersions, Outcome, Page, Raw, RawBatch, RawEvent, RawWatch,
    ReadError, Storage, VersionEffect, Write,
};
use crate::limits::{LEASE_KEYS, LIST_BYTES};
use async_trait::async_trait;
use kstore_store::{
    Compare, CompareOp, EventKind, KeyRange, KeyValue, LeaseError, LeaseId, NoSpaceReason, Op, OpResult, Put,
    Range, RangeError, Revision, Store, Target, Txn, TxnError, TxnResult, WatchError, WatchRequest, Watcher,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// The lease that new keys with a certain time to live share.
struct SharedLease {
    id: LeaseId,
    /// When the lease stops accepting keys.
    until: Instant,
    /// Number of keys attached to the lease.
    keys: usize,
}

/// The embedded store as a [`Storage`].
pub struct Embedded {
    store: Store,
    /// The newest lease of each time to live, in seconds.
    leases: Mutex<BTreeMap<u64, SharedLease>>,
    /// The text for clients whose writes are refused for lack of space.
    explain: fn(&NoSpaceReason) -> String,
}

impl Embedded {
    /// A storage over an open store.
    pub fn new(store: Store) -> Self {
        Self::explaining(store, NoSpaceReason::to_string)
    }

    /// A storage over an open store. `explain` writes the message for clients whose writes are refused for lack of
    /// space: the program knows the commands that help.
    pub fn explaining(store: Store, explain: fn(&NoSpaceReason) -> String) -> Self {
        Self { store, leases: Mutex::new(BTreeMap::new()), explain }
    }

    async fn lease(&self, ttl_seconds: u64) -> Result<LeaseId, CommitError> {
        if ttl_seconds == 0 {
            return Ok(LeaseId::NONE);
        }
        let now = Instant::now();
        if let Some(shared) = self.leases.lock().get_mut(&ttl_seconds)
            && now < shared.until
            && shared.keys < LEASE_KEYS
        {
            shared.keys += 1;
            return Ok(shared.id);
        }
        let share = super::lease_share(ttl_seconds);
        let ttl = i64::try_from(ttl_seconds.saturating_add(share.as_secs())).unwrap_or(i64::MAX);
        let granted = self.store.lease_grant(ttl, LeaseId::NONE).await.map_err(|error| match error {
            LeaseError::NoSpace => self.no_space(),
            other => CommitError::Failed(other.to_string()),
        })?;
        let shared = SharedLease { id: granted.id, until: now + share, keys: 1 };
        self.leases.lock().insert(ttl_seconds, shared);
        Ok(granted.id)
    }

    /// The error of writes while the store is out of space.
    fn no_space(&self) -> CommitError {
        match self.store.no_space_reason() {
            Some(reason) => CommitError::NoSpace((self.explain)(&reason)),
            // The alarm was disarmed in between.
            None => CommitError::NoSpace("the space alarm was raised a moment ago; try again".to_owned()),
        }
    }

    async fn op(&self, write: Write) -> Result<Op, CommitError> {
        Ok(match write {
            Write::Put { key, value, ttl_seconds } => {
                let lease = self.lease(ttl_seconds).await?;
                Op::Put(Put { lease, ..Put::new(key, value) })
            }
            Write::Delete { key } => Op::delete(key),
        })
    }

    async fn txn(&self, commit: Commit) -> Result<Txn, CommitError> {
        let mut success = Vec::with_capacity(commit.writes.len());
        for write in commit.writes {
            success.push(self.op(write).await?);
        }
        let compares = commit.guards.iter().map(unchanged).collect();
        let failure = commit.guards.into_iter().map(|guard| Op::Range(Range::key(guard.key))).collect();
        Ok(Txn { compares, success, failure, note: Some(commit.note) })
    }

    fn outcome(&self, done: Result<TxnResult, TxnError>) -> Result<Outcome, CommitError> {
        let done = done.map_err(|error| match error {
            TxnError::NoSpace => self.no_space(),
            other => other.into(),
        })?;
        if done.succeeded {
            return Ok(Outcome::Committed { revision: done.revision.0 });
        }
        let current = done.responses.into_iter().filter_map(OpResult::into_range);
        Ok(Outcome::Lost { current: current.map(|range| range.kvs.first().map(|kv| raw(kv))).collect() })
    }
}

#[async_trait]
impl Storage for Embedded {
    fn revision_here(&self) -> Option<i64> {
        Some(self.store.revision().0)
    }

    async fn revision(&self) -> Result<i64, ReadError> {
        Ok(self.store.revision().0)
    }

    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError> {
        let found = self.store.range(&Range::key(key.to_owned()).at(Revision(revision)))?;
        Ok(found.kvs.first().map(|kv| raw(kv)))
    }

    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError> {
        let range = Range::new(KeyRange::between(start.to_owned(), end.to_owned()))
            .limit(limit)
            // Without a limit the caller needs everything at once.
            .max_bytes(if limit > 0 { LIST_BYTES } else { 0 })
            .at(Revision(revision));
        let found = self.store.range(&range)?;
        Ok(Page { items: found.kvs.iter().map(|kv| raw(kv)).collect(), more: found.more, count: found.count })
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        let txn = self.txn(commit).await?;
        self.outcome(self.store.txn(txn).await)
    }

    async fn commit_each(&self, commits: Vec<Commit>) -> Vec<Result<Outcome, CommitError>> {
        let count = commits.len();
        let mut txns = Vec::with_capacity(count);
        for commit in commits {
            match self.txn(commit).await {
                Ok(txn) => txns.push(txn),
                // A lease could not be granted: no further one would be.
                Err(error) => return vec![Err(error); count],
            }
        }
        match self.store.each(txns).await {
            Ok(done) => done.into_iter().map(|done| self.outcome(done)).collect(),
            Err(error) => vec![self.outcome(Err(error)); count],
        }
    }

    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        let keys = if prefix.is_empty() { KeyRange::all() } else { KeyRange::prefix(prefix.to_owned()) };
        let watcher = self.store.watch(WatchRequest::new(keys).from(Revision(after + 1)).with_prev_kv())?;
        Ok(Box::new(EmbeddedWatch(watcher)))
    }

    async fn versions(&self, key: &str, before: i64, limit: usize) -> Result<KeyVersions, ReadError> {
        let mut all = self.store.versions(key.as_bytes())?;
        all.truncate(all.partition_point(|version| version.revision.0 < before));
        let older = all.len().saturating_sub(limit);
        let version = |version: &kstore_store::KeyVersion| KeyVersion {
            revision: version.revision.0,
            effect: match version.effect {
                kstore_store::VersionEffect::Created => VersionEffect::Created,
                kstore_store::VersionEffect::Updated => VersionEffect::Updated,
                kstore_store::VersionEffect::Deleted => VersionEffect::Deleted,
            },
            note: self.store.note(version.revision),
        };
        Ok(KeyVersions { versions: all[older..].iter().rev().map(version).collect(), older })
    }

    /// Whether the engine works. A failed engine does not stop requests yet, but will stop the store, which
    /// closes the cache.
    fn is_healthy(&self) -> bool {
        self.store.engine_failure().is_none()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

struct EmbeddedWatch(Watcher);

#[async_trait]
impl RawWatch for EmbeddedWatch {
    async fn next(&mut self) -> Option<Result<RawBatch, ReadError>> {
        let batch = match self.0.next().await? {
            Ok(batch) => batch,
            Err(error) => return Some(Err(error.into())),
        };
        let events = batch.events.iter().map(|event| RawEvent {
            key: event.kv.key_bytes(),
            current: match event.kind {
                EventKind::Put => Some(raw(&event.kv)),
                EventKind::Delete => None,
            },
            previous: event.prev_kv.as_deref().map(raw),
        });
        let note = batch.events.first().and_then(|event| event.note.clone());
        Some(Ok(RawBatch { revision: batch.revision.0, events: events.collect(), note }))
    }
}

fn raw(kv: &KeyValue) -> Raw {
    Raw {
        key: kv.key_bytes(),
        value: kv.value_bytes(),
        undecrypted: None,
        revision: kv.mod_revision().0,
        created: kv.create_revision().0,
    }
}

fn unchanged(guard: &Guard) -> Compare {
    Compare::key(guard.key.clone(), CompareOp::Equal, Target::Mod(Revision(guard.revision)))
}

impl From<RangeError> for ReadError {
    fn from(error: RangeError) -> Self {
        match error {
            RangeError::Compacted { compacted, .. } => Self::Compacted { oldest: compacted.0 },
            RangeError::Future { current, .. } => Self::Future { current: current.0 },
            RangeError::EmptyKey
            | RangeError::Damaged { .. }
            | RangeError::TooLarge
            | RangeError::Stopped(_) => Self::Failed(error.to_string()),
        }
    }
}

impl From<WatchError> for ReadError {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Compacted { compacted } => Self::Compacted { oldest: compacted.0 },
            WatchError::EmptyRange | WatchError::Damaged { .. } | WatchError::Stopped(_) => {
                Self::Failed(error.to_string())
            }
        }
    }
}

impl From<TxnError> for CommitError {
    fn from(error: TxnError) -> Self {
        match error {
            TxnError::Busy => Self::Overloaded,
            TxnError::TooLarge | TxnError::TooManyOps => Self::TooLarge(error.to_string()),
            TxnError::Stopped(_) => Self::Unknown(error.to_string()),
            TxnError::NoSpace => Self::NoSpace(error.to_string()),
            TxnError::EmptyKey
            | TxnError::Corrupt
            | TxnError::DuplicateKey
            | TxnError::ValueProvided
            | TxnError::LeaseProvided
            | TxnError::KeyNotFound
            | TxnError::LeaseNotFound(_)
            | TxnError::Range(_) => Self::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LEASE_SHARE;
    use kstore_nondet::Nondet;
    use kstore_store::Config;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn expiring_keys_share_leases_of_at_most_a_thousand_keys() {
        const EVENTS: usize = 2_500;
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let storage = Embedded::new(store.clone());
        for n in 0..EVENTS {
            let key = format!("/registry/events/ns/{n:05}");
            let writes = vec![Write::Put { key, value: "{}".into(), ttl_seconds: 3600 }];
            let done = storage.commit(Commit { guards: Vec::new(), writes, note: Vec::new().into() }).await;
            assert!(matches!(done, Ok(Outcome::Committed { .. })));
        }
        let leases = store.leases().await.unwrap();
        assert_eq!(leases.len(), EVENTS.div_ceil(LEASE_KEYS));
        let mut watcher = storage.watch("/registry/events/", store.revision().0).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3600) + LEASE_SHARE * 2).await;
        let mut gone = 0;
        while gone < EVENTS {
            let batch = watcher.next().await.unwrap().unwrap();
            assert!(batch.events.len() <= LEASE_KEYS, "{} events in one revision", batch.events.len());
            gone += batch.events.len();
        }
    }
}
