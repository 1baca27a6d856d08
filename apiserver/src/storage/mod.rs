//! The seam under the apiserver: what it needs of a revisioned key-value store, and no more. `embedded` is our own store in
//! this process, `etcd` an external cluster, `layer` what stands in front of either. No object is parsed here.

pub mod embedded;
pub mod etcd;
mod layer;

pub use layer::Layer;

use crate::restart::TaskRestarts;
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;

/// A key's value at a revision, as stored: JSON without resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// The storage key.
    pub key: Bytes,
    /// The stored bytes.
    pub value: Bytes,
    /// The revision of the last change.
    pub revision: i64,
    /// The revision at which the key came into being.
    pub created: i64,
}

/// What must hold for a commit to happen: the key was last changed at this revision; 0 = it does not exist.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The storage key.
    pub key: String,
    /// Its expected mod revision.
    pub revision: i64,
}

/// One change within a commit.
#[derive(Clone, Debug)]
pub enum Write {
    /// Set the value. `ttl_seconds` > 0: the key goes away by itself that long after this write.
    Put {
        /// The storage key.
        key: String,
        /// The bytes to store.
        value: Bytes,
        /// Time to live; 0 = for ever.
        ttl_seconds: u64,
    },
    /// Remove the key.
    Delete {
        /// The storage key.
        key: String,
    },
}

/// All or nothing, at one revision.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Every one must hold.
    pub guards: Vec<Guard>,
    /// Carried out in order; a key occurs at most once.
    pub writes: Vec<Write>,
    /// Who did it and why (see `provenance`), stored with the revision.
    pub note: Bytes,
}

/// What became of a commit.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Done, durable, at this revision.
    Committed {
        /// The revision of the writes.
        revision: i64,
    },
    /// A guard did not hold; nothing happened. The guarded keys as they are, in the order of the guards.
    Lost {
        /// `None`: the key does not exist.
        current: Vec<Option<Raw>>,
    },
}

/// One change in the history. `previous` is the value before it, unless it was created here or compacted.
#[derive(Clone, Debug)]
pub struct RawEvent {
    /// The storage key.
    pub key: Bytes,
    /// The new value; `None`: deleted.
    pub current: Option<Raw>,
    /// The value before.
    pub previous: Option<Raw>,
}

/// All changes of one revision.
#[derive(Clone, Debug)]
pub struct RawBatch {
    /// The revision. A batch without events says only that everything up to here has been delivered.
    pub revision: i64,
    /// In the order of the commit.
    pub events: Vec<RawEvent>,
    /// The note of the commit, if it had one.
    pub note: Option<Bytes>,
}

/// A page of a range.
#[derive(Clone, Debug)]
pub struct Page {
    /// In key order.
    pub items: Vec<Raw>,
    /// Whether more follow.
    pub more: bool,
    /// How many keys there are from `start` on, these included.
    pub count: i64,
}

/// Why a read or a watch was refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    /// The revision has been compacted away: list anew.
    #[error("revision compacted: the oldest that can be read is {oldest}")]
    Compacted {
        /// The oldest readable revision.
        oldest: i64,
    },
    /// The revision does not exist yet: wait or read without one.
    #[error("revision is in the future: the newest is {current}")]
    Future {
        /// The newest revision.
        current: i64,
    },
    /// The storage cannot be reached, or does not answer in time: try again later.
    #[error("the storage does not answer: {0}")]
    Unavailable(String),
    /// The storage failed; the message is for the log and the operator.
    #[error("storage: {0}")]
    Failed(String),
}

/// Why a commit was refused. In every case but `Unknown` nothing was written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// Too much is waiting: try again later.
    #[error("storage is overloaded, try again later")]
    Overloaded,
    /// One value or the whole commit is larger than the storage takes.
    #[error("{0}")]
    TooLarge(String),
    /// The storage could not be reached, and the commit was not sent: try again later.
    #[error("the storage does not answer: {0}")]
    Unavailable(String),
    /// There is no space; the message says why and what helps. Reads and deletions go on.
    #[error("out of space: {0}")]
    NoSpace(String),
    /// The storage failed before anything was written.
    #[error("storage: {0}")]
    Failed(String),
    /// The storage failed, or was lost, while writing: it may have happened, or may still happen. Read before you try again.
    #[error("storage failed, the outcome is unknown: {0}")]
    Unknown(String),
}

/// A stream of batches in revision order, without gap or repeat. A storage that is away for a while is waited for: the stream
/// goes on where it was.
#[async_trait]
pub trait RawWatch: Send {
    /// The next batch; `None` when the storage has closed. After an error there is nothing more; `Compacted` means that the
    /// history was lost between here and what is stored now.
    async fn next(&mut self) -> Option<Result<RawBatch, ReadError>>;
}

/// A revisioned key-value store, perhaps with other writers. Reads show only durable state.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// The newest durable revision, where this process knows it without asking anyone: what [`Storage::revision`] would answer,
    /// without its cost. `None`: only asking tells.
    fn revision_here(&self) -> Option<i64>;

    /// The newest durable revision: at least that of every commit, whoever made it, that was answered before this call.
    ///
    /// Every open watch of everything (prefix "") comes to this revision, with an empty batch if need be: somebody else's
    /// keys may have been all that changed.
    async fn revision(&self) -> Result<i64, ReadError>;

    /// The key at a revision; 0 = the newest.
    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError>;

    /// Up to `limit` (0 = all) keys in `start..end` at a revision (0 = the newest).
    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError>;

    /// Carries out `commit`; on return it is durable, or did not happen.
    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError>;

    /// Changes to keys that begin with `prefix`, after revision `after`. Batches carry notes if the prefix is "".
    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError>;

    /// Whether requests can expect an answer, as far as is known without asking: cheap enough for every health check.
    fn is_healthy(&self) -> bool;

    /// Restarts of the storage's own tasks after panics; `None` if it has no tasks that run again.
    fn task_restarts(&self) -> Option<TaskRestarts> {
        None
    }

    /// Ends in order; further commits fail.
    async fn close(&self);
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
