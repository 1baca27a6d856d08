//! The errors of each operation, each saying what the caller can do. Not their mapping to a protocol.

use std::path::PathBuf;

use thiserror::Error;

use crate::{LeaseId, Revision};

/// Why a store did not open.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The configuration asks for durable storage without saying where.
    #[error("a durable store needs a directory: set Config::dir, or use Config::memory()")]
    NoDirectory,
    /// A bound with which the store could not work, alone or beside another bound.
    #[error("Limits::{name} cannot be used: {detail}. Change it, or take its value from Limits::default()")]
    Limit {
        /// The field of [`crate::Limits`].
        name: &'static str,
        /// Its value, the bound that it breaks, and what would happen.
        detail: String,
    },
    /// Another process (or another store in this one) has the directory open.
    #[error("{} is in use by {holder}: stop it, or choose another directory", dir.display())]
    LockedBy {
        /// The directory.
        dir: PathBuf,
        /// Who holds it, as far as known.
        holder: String,
    },
    /// The directory holds something that is not a store of this format.
    #[error("{} is not a kstore data directory of a known format ({detail}): choose another directory", dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// What was found.
        detail: String,
    },
    /// Bytes that were confirmed durable no longer check. Nothing was changed.
    #[error(
        "{} is damaged ({detail}): acknowledged data was lost below the store; nothing was changed. \
         Restore from a backup, or salvage the readable part", file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What does not check.
        detail: String,
    },
    /// The history engine cannot be used and the log no longer reaches back far enough to rebuild it.
    #[error(
        "the history engine in {} cannot be used ({detail}) and the log begins too late to rebuild it: restore from a \
         backup, or save what can be read with `kstore-server store salvage FILE` and restore that", dir.display()
    )]
    EngineLost {
        /// The engine's directory.
        dir: PathBuf,
        /// Why it cannot be used.
        detail: String,
    },
    /// The store was written with another engine.
    #[error("{} was written with --engine {found}: open it with that engine", dir.display())]
    OtherEngine {
        /// The directory.
        dir: PathBuf,
        /// The engine that wrote it.
        found: String,
    },
    /// Other users can reach what the store keeps, and their rights cannot be taken away.
    #[error(
        "{} can be reached by other users (mode {mode:04o}), and {detail}: what is stored would not be private. \
         Choose a directory of its own that this user owns, or run `chmod -R go= {}`", path.display(), path.display()
    )]
    Exposed {
        /// The directory or file.
        path: PathBuf,
        /// Its mode bits.
        mode: u32,
        /// Why they stay.
        detail: String,
    },
    /// The file system has no space for what a start has to write. Nothing is lost.
    #[error(
        "the file system of {} is full, and the store cannot start: {source} at {}. No data is lost. Free at least {} MiB \
         there, but remove nothing in the data directory, and start again", dir.display(), path.display(), need.div_ceil(1 << 20)
    )]
    NoSpace {
        /// The data directory.
        dir: PathBuf,
        /// The file or directory that could not be written.
        path: PathBuf,
        /// Bytes that suffice for a start and for work that frees more.
        need: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// The operating system refused something.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The store no longer serves: it was closed, or it stopped because the disk failed it.
///
/// On a write, the outcome is unknown: it may or may not be there after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the store has stopped; reopen it and look what is there")]
pub struct Stopped;

/// Why a revision cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// The key is empty.
    #[error("the key is empty")]
    EmptyKey,
    /// Older than what is kept: read at a newer revision.
    #[error("revision {requested} has been compacted; the oldest readable one is {compacted}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The oldest revision that can be read.
        compacted: Revision,
    },
    /// Newer than the store.
    #[error("revision {requested} is in the future; the store is at {current}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// Where the store is.
        current: Revision,
    },
    /// A stored version did not check when it was read back, and no copy of it is left. It is not served; everything else is.
    #[error(
        "a stored version of revision {revision} is damaged and no copy of it is left: read at another revision;          compacting past its key's next version ends this"
    )]
    Damaged {
        /// The revision of the version.
        revision: Revision,
    },
    /// See [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a transaction was not done. Except after `Stopped`, it certainly was not.
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
    #[error("a value is given where the stored one is to be kept")]
    ValueProvided,
    /// A lease was given together with `ignore_lease`.
    #[error("a lease is given where the stored one is to be kept")]
    LeaseProvided,
    /// `ignore_value` or `ignore_lease` on a key that does not exist.
    #[error("the key whose value or lease is to be kept does not exist")]
    KeyNotFound,
    /// A put names a lease that does not exist.
    #[error("lease {0} does not exist")]
    LeaseNotFound(LeaseId),
    /// A read inside cannot be answered.
    #[error(transparent)]
    Range(RangeError),
    /// The quota is reached or the disk is full, and the transaction might put something: delete, compact, then disarm
    /// the alarm.
    #[error("out of space: delete and compact, then disarm the alarm")]
    NoSpace,
    /// Stored data was found damaged, and the transaction might change something: see [`crate::Alarm::Corrupt`].
    #[error("stored data is damaged; nothing is changed any more")]
    Corrupt,
    /// The writer's queue is full: try again later.
    #[error("too many requests are waiting; try again later")]
    Busy,
    /// See [`Stopped`]: the outcome is unknown.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a watch was not begun, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WatchError {
    /// No key can be in the range.
    #[error("the watched range is empty")]
    EmptyRange,
    /// Events that the watcher has not seen are gone: list again, and watch from there.
    #[error("the watcher's next revision has been compacted; the oldest available one is {compacted}")]
    Compacted {
        /// The oldest revision a watch can start at.
        compacted: Revision,
    },
    /// A stored event did not check when it was read back, and no copy of it is left: list, and watch from there.
    #[error(
        "a stored event of revision {revision} is damaged and no copy of it is left: list, and watch from there"
    )]
    Damaged {
        /// The revision.
        revision: Revision,
    },
    /// The store was closed or stopped: reopen and watch from the next revision.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a compaction was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CompactError {
    /// Already compacted that far.
    #[error("revision {requested} is compacted already; the compacted revision is {compacted}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The compacted revision.
        compacted: Revision,
    },
    /// Newer than the store.
    #[error("revision {requested} is in the future; the store is at {current}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// Where the store is.
        current: Revision,
    },
    /// Stored data was found damaged: see [`crate::Alarm::Corrupt`].
    #[error("stored data is damaged; nothing is changed any more")]
    Corrupt,
    /// The compaction is done, but what it made superfluous stays on the disk until the store is opened again: see
    /// [`crate::Store::engine_failure`].
    #[error(
        "compacted, but nothing can be removed from the disk before a restart: the history engine has failed"
    )]
    NotRemoved,
    /// The writer's queue is full: try again later.
    #[error("too many requests are waiting; try again later")]
    Busy,
    /// See [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why a lease request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LeaseError {
    /// No such lease; it may have expired.
    #[error("lease {0} does not exist")]
    NotFound(LeaseId),
    /// The id asked for is taken.
    #[error("lease {0} exists already")]
    Exists(LeaseId),
    /// Longer than [`crate::LEASE_TTL_MAX_SECONDS`].
    #[error("the lease's time to live is too large")]
    TtlTooLarge,
    /// [`crate::Limits::leases`] is reached.
    #[error("there are too many leases")]
    TooMany,
    /// The quota is reached or the disk is full: delete, compact, then disarm the alarm.
    #[error("out of space: delete and compact, then disarm the alarm")]
    NoSpace,
    /// Stored data was found damaged: see [`crate::Alarm::Corrupt`].
    #[error("stored data is damaged; nothing is changed any more")]
    Corrupt,
    /// The writer's queue is full: try again later.
    #[error("too many requests are waiting; try again later")]
    Busy,
    /// See [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why an alarm was not raised or disarmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AlarmError {
    /// The writer's queue is full: try again later.
    #[error("too many requests are waiting; try again later")]
    Busy,
    /// See [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why space was not won back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DefragmentError {
    /// The engine could not go on; no data is lost. The text says what the system said. Free some space and try again.
    #[error("space cannot be won back: {0}")]
    Engine(String),
    /// See [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
