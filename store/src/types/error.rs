//! Errors of each operation. Each variant says what the caller can do.

use crate::{LeaseId, Revision};
use std::path::PathBuf;
use thiserror::Error;

/// Why a store could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The configuration requests durable storage without a directory.
    #[error("a durable store needs a directory: set Config::dir, or use Config::memory()")]
    NoDirectory,
    /// A limit with which the store could not work, alone or combined with another limit.
    #[error("Limits::{name} cannot be used: {detail}. Change it, or take its value from Limits::default()")]
    Limit {
        /// The field of [`crate::Limits`].
        name: &'static str,
        /// The value, the bound that it violates, and the consequence.
        detail: String,
    },
    /// Another process (or another store in this one) has the directory open.
    #[error("{} is in use by {holder}: stop it, or choose another directory", dir.display())]
    LockedBy {
        /// The directory.
        dir: PathBuf,
        /// The process that holds the lock, as far as known.
        holder: String,
    },
    /// The directory contains something other than a store of a known format.
    #[error("{} is not a kstore data directory of a known format ({detail}): choose another directory", dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// Description of the directory's contents.
        detail: String,
    },
    /// Bytes that were durable do not match their checksum. Nothing was changed.
    #[error(
        "{} is damaged ({detail}): acknowledged data was lost on disk; nothing was changed. \
         Restore from a backup, or salvage the readable part", file.display()
    )]
    Damaged {
        /// The damaged file.
        file: PathBuf,
        /// Description of the mismatch.
        detail: String,
    },
    /// The history engine cannot be used and the log no longer reaches back far enough to rebuild it.
    #[error(
        "the history engine in {} cannot be used ({detail}) and the log begins too late to rebuild it: restore from a \
         backup, or salvage the readable part", dir.display()
    )]
    EngineLost {
        /// The engine's directory.
        dir: PathBuf,
        /// Why it cannot be used.
        detail: String,
    },
    /// The store was written with another engine.
    #[error("{} was written with the engine {found}: open it with that engine", dir.display())]
    OtherEngine {
        /// The directory.
        dir: PathBuf,
        /// The engine that wrote it.
        found: String,
    },
    /// Other users can access the store's files, and the store cannot remove their permissions.
    #[error(
        "{} can be reached by other users (mode {mode:04o}), and {detail}: what is stored would not be private. \
         Choose a directory of its own that this user owns, or run `chmod -R go= {}`", path.display(), path.display()
    )]
    Exposed {
        /// The directory or file.
        path: PathBuf,
        /// Mode bits of the directory or file.
        mode: u32,
        /// Why the permissions could not be changed.
        detail: String,
    },
    /// The file system has no space for the files that a start writes. No data is lost.
    #[error(
        "the file system of {} is full, and the store cannot start: {source} at {}. No data is lost. Free at least {} MiB \
         there, but remove nothing in the data directory, and start again", dir.display(), path.display(), need.div_ceil(1 << 20)
    )]
    NoSpace {
        /// The data directory.
        dir: PathBuf,
        /// The file or directory that could not be written.
        path: PathBuf,
        /// Free bytes that suffice for a start and for the work that frees more.
        need: u64,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The operating system returned an error.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// The store does not serve any more: it was closed, or it stopped after a disk failure.
///
/// If a write fails with this error, its outcome is unknown: it may or may not be there after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the store has stopped: reopen it and check whether the write is there")]
pub struct Stopped;

/// Why a revision cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// The key is empty.
    #[error("the key is empty")]
    EmptyKey,
    /// The revision is older than the history that is kept: read at a newer revision.
    #[error("revision {requested} has been compacted; the oldest readable one is {compacted}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that can be read.
        compacted: Revision,
    },
    /// The revision is newer than the store's.
    #[error("revision {requested} is in the future; the store is at {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The store's revision.
        current: Revision,
    },
    /// A stored version is damaged and has no intact copy. The store does not serve it; other reads succeed.
    #[error(
        "a stored version of revision {revision} is damaged and has no intact copy: read at another revision, or compact past its key's next version"
    )]
    Damaged {
        /// The revision of the version.
        revision: Revision,
    },
    /// More bytes of old versions than [`crate::Limits::read_bytes`]: set [`crate::Range::limit`] or [`crate::Range::max_bytes`], and read
    /// in key order.
    #[error("the read takes too many bytes of old versions: read in key order with a limit")]
    TooLarge,
    /// The store was closed or has stopped; see [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a transaction was refused. Except after `Stopped`, the transaction certainly had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TxnError {
    /// A key is empty.
    #[error("a key is empty")]
    EmptyKey,
    /// More operations than [`crate::Limits::txn_ops`]: split the transaction.
    #[error("too many operations in one transaction")]
    TooManyOps,
    /// More bytes than [`crate::Limits::request_bytes`], or more keys to delete than fit into [`crate::Limits::commit_bytes`]: split
    /// the transaction, or delete smaller ranges.
    #[error("the transaction is too large: split it, or delete smaller ranges")]
    TooLarge,
    /// Two operations of one branch change the same key.
    #[error("a transaction changes a key twice")]
    DuplicateKey,
    /// A value was given together with `ignore_value`.
    #[error("a value is given together with ignore_value")]
    ValueProvided,
    /// A lease was given together with `ignore_lease`.
    #[error("a lease is given together with ignore_lease")]
    LeaseProvided,
    /// `ignore_value` or `ignore_lease` on a key that does not exist.
    #[error("the key of a put with ignore_value or ignore_lease does not exist")]
    KeyNotFound,
    /// A put names a lease that does not exist.
    #[error("lease {0} does not exist")]
    LeaseNotFound(LeaseId),
    /// A range read of the transaction failed.
    #[error(transparent)]
    Range(RangeError),
    /// The quota is reached or the disk is full, and the transaction may put a key: delete, compact, then disarm the
    /// alarm.
    #[error("out of space: delete and compact, then disarm the alarm")]
    NoSpace,
    /// Stored data is damaged, and the transaction may change something: see [`crate::Alarm::Corrupt`].
    #[error("stored data is damaged: the store refuses all changes")]
    Corrupt,
    /// The writer's queue is full: try again later.
    #[error("too many requests are waiting; try again later")]
    Busy,
    /// The store was closed or has stopped (see [`Stopped`]): the outcome is unknown.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a watch could not start, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WatchError {
    /// The range cannot contain a key.
    #[error("the watched range is empty")]
    EmptyRange,
    /// Events that the watcher has not received are compacted: list again, and watch from that revision.
    #[error("the watcher's next revision has been compacted; the oldest available one is {compacted}")]
    Compacted {
        /// The oldest revision a watch can start at.
        compacted: Revision,
    },
    /// A stored event is damaged and has no intact copy: list, and watch from that revision.
    #[error(
        "a stored event of revision {revision} is damaged and has no intact copy: list, and watch from that revision"
    )]
    Damaged {
        /// The revision.
        revision: Revision,
    },
    /// The store was closed or stopped: reopen and watch from the next revision.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a compaction was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CompactError {
    /// The revision is compacted already.
    #[error("revision {requested} is compacted already; the compacted revision is {compacted}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The compacted revision.
        compacted: Revision,
    },
    /// The revision is newer than the store's.
    #[error("revision {requested} is in the future; the store is at {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The store's revision.
        current: Revision,
    },
    /// Stored data is damaged: see [`crate::Alarm::Corrupt`].
    #[error("stored data is damaged: the store refuses all changes")]
    Corrupt,
    /// The compaction is done, but superseded records stay on disk until the store is opened again: see
    /// [`crate::Store::engine_failure`].
    #[error(
        "compacted, but the history engine has failed: no disk space is freed until the store is opened again"
    )]
    NotRemoved,
    /// The writer's queue is full: try again later.
    #[error("too many requests are waiting; try again later")]
    Busy,
    /// The store was closed or has stopped; see [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a lease request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LeaseError {
    /// The lease does not exist; it may have expired.
    #[error("lease {0} does not exist")]
    NotFound(LeaseId),
    /// A lease with the requested id exists.
    #[error("lease {0} exists already")]
    Exists(LeaseId),
    /// The time to live is longer than [`crate::LEASE_TTL_MAX_SECONDS`].
    #[error("the lease's time to live is too large")]
    TtlTooLarge,
    /// [`crate::Limits::leases`] is reached.
    #[error("there are too many leases")]
    TooMany,
    /// The quota is reached or the disk is full: delete, compact, then disarm the alarm.
    #[error("out of space: delete and compact, then disarm the alarm")]
    NoSpace,
    /// Stored data is damaged: see [`crate::Alarm::Corrupt`].
    #[error("stored data is damaged: the store refuses all changes")]
    Corrupt,
    /// The writer's queue is full: try again later.
    #[error("too many requests are waiting; try again later")]
    Busy,
    /// The store was closed or has stopped; see [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why an alarm could not be raised or disarmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AlarmError {
    /// The writer's queue is full: try again later.
    #[error("too many requests are waiting; try again later")]
    Busy,
    /// The store was closed or has stopped; see [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a defragmentation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DefragmentError {
    /// The engine failed; no data is lost. The text has the operating system's error. Free some space and try again.
    #[error("defragmentation failed: {0}")]
    Engine(String),
    /// The store was closed or has stopped; see [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
