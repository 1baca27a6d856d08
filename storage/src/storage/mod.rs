//! The storage seam: all that the apiserver needs of a revisioned key-value store. `embedded` is the store in
//! this process, `etcd` an external cluster, `layer` a wrapper around either. Objects are not parsed here.

mod commit_group;
pub mod embedded;
pub mod etcd;
mod layer;
mod versions;

use crate::limits::{EACH_AT_ONCE, LEASE_SHARE};
use crate::restart::TaskRestarts;
use async_trait::async_trait;
use bytes::Bytes;
pub use commit_group::CommitGroup;
use futures::StreamExt;
pub use layer::Layer;
use std::sync::Arc;
use std::time::Duration;

/// A key's value at a revision, as stored: JSON without resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// The storage key.
    pub key: Bytes,
    /// The stored bytes, decrypted if they were encrypted at rest.
    pub value: Bytes,
    /// Why `value` could not be decrypted; it is then encrypted, or not encrypted although it must be.
    pub undecrypted: Option<Arc<str>>,
    /// The revision of the last change.
    pub revision: i64,
    /// The revision at which the key was created.
    pub created: i64,
}

/// A condition of a commit: the key was last changed at this revision; 0: it does not exist.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The storage key.
    pub key: String,
    /// The expected mod revision.
    pub revision: i64,
}

/// One change within a commit.
#[derive(Clone, Debug)]
pub enum Write {
    /// Set the value. If `ttl_seconds` is positive, the key expires that long after this write.
    Put {
        /// The storage key.
        key: String,
        /// The bytes to store.
        value: Bytes,
        /// Time to live in seconds; 0: unlimited.
        ttl_seconds: u64,
    },
    /// Remove the key.
    Delete {
        /// The storage key.
        key: String,
    },
}

/// How long a lease of keys with this time to live accepts further keys, which then live up to that much longer than requested:
/// Kubernetes' rule of `leaseManager`, a twentieth of the time, and at most [`LEASE_SHARE`].
fn lease_share(ttl_seconds: u64) -> Duration {
    Duration::from_secs(ttl_seconds / 20).min(LEASE_SHARE)
}

/// Guarded writes that are executed together, at one revision, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Conditions that must all hold.
    pub guards: Vec<Guard>,
    /// Writes in order of execution; a key occurs at most once.
    pub writes: Vec<Write>,
    /// The writer and its reasons (see `provenance`), stored with the revision.
    pub note: Bytes,
}

/// The outcome of a commit.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The commit is executed and durable.
    Committed {
        /// The revision of the writes.
        revision: i64,
    },
    /// A guard did not hold, and nothing was written. Has the guarded keys' current values, in the order of
    /// the guards.
    Lost {
        /// `None`: the key does not exist.
        current: Vec<Option<Raw>>,
    },
}

/// One change of a key.
#[derive(Clone, Debug)]
pub struct RawEvent {
    /// The storage key.
    pub key: Bytes,
    /// The new value; `None`: deleted.
    pub current: Option<Raw>,
    /// The value before the change; `None` if the change created the key or the value is compacted.
    pub previous: Option<Raw>,
}

/// All changes of one revision.
#[derive(Clone, Debug)]
pub struct RawBatch {
    /// The revision. A batch without events says only that everything up to here has been delivered.
    pub revision: i64,
    /// Changes in the order of the commit.
    pub events: Vec<RawEvent>,
    /// The note of the commit, if it had one.
    pub note: Option<Bytes>,
}

/// A page of a range.
#[derive(Clone, Debug)]
pub struct Page {
    /// Values in key order.
    pub items: Vec<Raw>,
    /// Whether more keys follow.
    pub more: bool,
    /// Number of keys in the range from `start` on, including these.
    pub count: i64,
}

/// Why a read or a watch was refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    /// The revision has been compacted: list again.
    #[error("revision compacted: the oldest that can be read is {oldest}")]
    Compacted {
        /// The oldest readable revision.
        oldest: i64,
    },
    /// The revision does not exist yet: wait, or read without a revision.
    #[error("revision is in the future: the newest is {current}")]
    Future {
        /// The newest revision.
        current: i64,
    },
    /// The storage cannot be reached or does not answer in time: try again later.
    #[error("the storage does not answer: {0}")]
    Unavailable(String),
    /// The storage failed; the message is for the log and the operator.
    #[error("storage: {0}")]
    Failed(String),
}

/// Why a commit failed. In every case but `Unknown` nothing was written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// Too many commits are waiting: try again later.
    #[error("storage is overloaded, try again later")]
    Overloaded,
    /// One value or the whole commit is larger than the storage accepts.
    #[error("{0}")]
    TooLarge(String),
    /// The storage could not be reached, and the commit was not sent: try again later.
    #[error("the storage does not answer: {0}")]
    Unavailable(String),
    /// The storage is out of space; the message says why and what helps. Reads and deletions still work.
    #[error("out of space: {0}")]
    NoSpace(String),
    /// The storage failed before anything was written.
    #[error("storage: {0}")]
    Failed(String),
    /// The storage failed or was lost while writing: the commit may have been executed, or may still be. Read
    /// before you try again.
    #[error("storage failed, the outcome is unknown: {0}")]
    Unknown(String),
}

/// What a change did to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionEffect {
    /// The key did not exist before.
    Created,
    /// The key had another value before.
    Updated,
    /// The key does not exist after it.
    Deleted,
}

/// A change of one key, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// The revision of the change.
    pub revision: i64,
    /// What it did.
    pub effect: VersionEffect,
    /// The note of the commit, if it had one and it is still there.
    pub note: Option<Bytes>,
}

/// The newest changes of a key below a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyVersions {
    /// The changes, the newest first.
    pub versions: Vec<KeyVersion>,
    /// Number of older ones.
    pub older: usize,
}

/// A stream of batches in revision order, without gap or repetition. If the storage is unavailable for a
/// while, the stream waits and then continues where it was.
#[async_trait]
pub trait RawWatch: Send {
    /// The next batch; `None` when the storage is closed. An error ends the stream; `Compacted` means that
    /// the history between the last batch and the stored state is lost.
    async fn next(&mut self) -> Option<Result<RawBatch, ReadError>>;
}

/// A revisioned key-value store, possibly with other writers. Reads return only durable state.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// The newest durable revision if this process knows it without a round trip: the result of
    /// [`Storage::revision`] without its cost. `None` if it takes a round trip.
    fn revision_here(&self) -> Option<i64>;

    /// The newest durable revision: at least that of every commit, by any writer, that was answered before
    /// this call.
    ///
    /// Every open watch of all keys (prefix "") reaches this revision, with an empty batch if need be: the
    /// newest commit may have changed only keys outside of this cluster.
    async fn revision(&self) -> Result<i64, ReadError>;

    /// The value of a key at a revision; 0: the newest.
    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError>;

    /// Up to `limit` (0 = all) keys in `start..end` at a revision (0 = the newest). With a limit the page may be shorter, if the values are
    /// large; it says whether more follow.
    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError>;

    /// Executes `commit`. On return it is durable, or nothing was written.
    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError>;

    /// Executes each of `commits` at a revision of its own, and returns their outcomes in order. On return each is durable, or nothing of
    /// it was written. A commit that fails does not keep the others from being executed.
    ///
    /// The embedded store executes them in order and with one sync; others execute several at a time, in any order.
    async fn commit_each(&self, commits: Vec<Commit>) -> Vec<Result<Outcome, CommitError>> {
        one_by_one(commits, |commit| self.commit(commit)).await
    }

    /// Watches changes of keys that begin with `prefix`, after revision `after`. Batches carry notes if the
    /// prefix is "".
    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError>;

    /// The newest `limit` changes of a key below revision `before` whose results can be read: those after the oldest readable revision,
    /// and the change that made the value at it.
    ///
    /// The embedded store looks them up. Others read the whole history, and do not know whether the oldest change created the key if it
    /// is older than the history: then it is an update without a note.
    async fn versions(&self, key: &str, before: i64, limit: usize) -> Result<KeyVersions, ReadError> {
        versions::from_history(self, key, before, limit).await
    }

    /// Whether the newest value under `key` must be written again even if its content stays the same, to be
    /// encrypted with the key that new values are encrypted with.
    async fn is_stale(&self, key: &str) -> Result<bool, ReadError> {
        let _ = key;
        Ok(false)
    }

    /// Whether the services that protect the keys of stored values work, as far as is known without a call;
    /// `None` if there are none.
    fn has_healthy_keys(&self) -> Option<bool> {
        None
    }

    /// Whether requests can expect an answer, as far as is known without a round trip: cheap enough for every
    /// health check.
    fn is_healthy(&self) -> bool;

    /// Restarts of the storage's own tasks after panics; `None` if it has no tasks that run again.
    fn task_restarts(&self) -> Option<TaskRestarts> {
        None
    }

    /// Closes the storage in order; further commits fail.
    async fn close(&self);
}

/// Executes commits with `execute`, several at a time ([`EACH_AT_ONCE`]).
async fn one_by_one<F: Future<Output = Result<Outcome, CommitError>>>(
    commits: Vec<Commit>,
    execute: impl Fn(Commit) -> F,
) -> Vec<Result<Outcome, CommitError>> {
    futures::stream::iter(commits).map(execute).buffered(EACH_AT_ONCE).collect().await
}

/// A shared storage.
pub type SharedStorage = Arc<dyn Storage>;

/// The end of the range of all keys that begin with `prefix`.
pub fn prefix_end(prefix: &str) -> String {
    let mut bytes = prefix.as_bytes().to_vec();
    while let Some(last) = bytes.pop() {
        // Storage keys are ASCII, so the next byte is ASCII or DEL and the result stays text.
        if last < 0x7f {
            bytes.push(last + 1);
            break;
        }
    }
    String::from_utf8(bytes).expect("an ASCII prefix stays ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_share_leases_for_a_twentieth_of_their_time() {
        for (ttl, share) in [(1, 0), (19, 0), (20, 1), (600, 30), (1200, 60), (3600, 60), (u64::MAX, 60)] {
            assert_eq!(lease_share(ttl).as_secs(), share, "{ttl}");
        }
    }
}
