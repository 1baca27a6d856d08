//! The engine interface: a map from record keys to immutable bytes that stores the history. An engine knows nothing of
//! keys, transactions or watchers. It is disposable: its content can be rebuilt from an older state and the log.
//!
//! `segments`, `sled` and `memory` are the engines, `reader` reads versions from any of them, and `feed` is the queue of
//! synced commits to them. `healing` repairs damaged records from copies in memory or in the log; `damage` describes
//! records without a copy.
//!
//! Promise: a record is returned as it was written, or its damage is; durable is what a seal covered. Never here: which
//! records are visible or superseded (the levels above decide), and a wait for the log.

pub(crate) mod damage;
pub(crate) mod feed;
pub(crate) mod healing;
pub(crate) mod memory;
pub(crate) mod reader;
pub(crate) mod segments;
pub(crate) mod sled;
#[cfg(test)]
pub(crate) mod stub;
#[cfg(test)]
mod tests;

use crate::Revision;
use crate::types::record::{Record, RecordKey};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A part of the history in order; it contains whole revisions.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) records: Vec<Record>,
    /// The revision to continue from, after everything returned.
    pub(crate) next: Revision,
}

/// Bytes that an engine occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineSize {
    /// Bytes on disk (or in memory).
    pub(crate) allocated: u64,
    /// Bytes of live records.
    pub(crate) live: u64,
}

/// A record that was damaged beyond repair, and the location of its bytes.
#[derive(Clone, Debug)]
pub(crate) struct LostRecord {
    pub(crate) key: RecordKey,
    /// The name of the record: for a version its key and revision, encoded as a version without value; for a note,
    /// empty.
    pub(crate) name: Bytes,
    pub(crate) file: PathBuf,
    pub(crate) offset: u64,
}

/// Result of one step of defragmentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DefragmentOutcome {
    /// Nothing is left to do.
    Idle,
    /// More is left to do.
    More,
    /// These records are damaged and block the step until they are rewritten, quarantined or skipped.
    Damaged(Vec<RecordKey>),
}

/// Result of one step of scrubbing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScrubOutcome {
    /// Whether the pass over all files is complete.
    pub(crate) complete: bool,
    /// Whether damage was found; [`Engine::defragment`] handles it.
    pub(crate) damaged: bool,
}

/// Why an operation of an engine failed.
#[derive(Debug, Error)]
pub(crate) enum EngineError {
    /// The record's checksum is wrong. Other records may be intact.
    #[error("the record of revision {} is damaged", .0.main)]
    Damaged(RecordKey),
    /// The engine's files contradict each other.
    #[error("{0}")]
    Corrupt(String),
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl EngineError {
    /// Whether the disk is full: the operation may be repeated when there is space.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Io(error) if crate::disk::space::is_full(error))
    }
}

/// A store of history records. `put` and `remove` are called from one thread, in order; reads from any thread.
pub(crate) trait Engine: Send + Sync {
    /// Adds records, the newest revision last. Adding a record again has no effect. Not durable until [`Engine::seal`].
    fn put(&self, records: &[Record]) -> Result<(), EngineError>;

    /// Removes records. They may come back after a crash, so the caller repeats the removal after a restart.
    fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError>;

    /// Reads one record and checks it.
    fn get(&self, key: RecordKey) -> Result<Option<Bytes>, EngineError>;

    /// Reads the records of `from..=to` in order and checks them. Stops after a whole revision once `budget` bytes are
    /// reached.
    fn scan(&self, from: Revision, to: Revision, budget: usize) -> Result<Scan, EngineError>;

    /// Reads like [`Engine::scan`], but skips some records without reading them. An engine that cannot skip records
    /// skips none.
    fn scan_without(
        &self,
        from: Revision,
        to: Revision,
        budget: usize,
        _left_out: &BTreeSet<RecordKey>,
    ) -> Result<Scan, EngineError> {
        self.scan(from, to, budget)
    }

    /// The revisions below `below` that have notes, ascending.
    fn notes_below(&self, below: Revision) -> Result<Vec<Revision>, EngineError>;

    /// The newest revision with a record, if that may be newer than the last seal after a crash; otherwise none.
    fn newest(&self) -> Result<Option<Revision>, EngineError> {
        Ok(None)
    }

    /// Makes everything so far durable. The returned token reopens exactly this state once the manifest has it.
    fn seal(&self) -> Result<Bytes, EngineError>;

    /// Tells the engine that the manifest with the newest token is durable. Files that only tokens before the last two
    /// need can be deleted.
    fn sealed(&self) -> Result<(), EngineError>;

    /// Does one bounded step of defragmentation.
    fn defragment(&self) -> Result<DefragmentOutcome, EngineError>;

    /// Looks at one file for superseded versions, and stores them in fewer bytes if most of it is superseded. Returns the bytes that were
    /// looked at; zero if there is nothing to look at until more is put. Called from the thread that feeds the engine.
    fn pack(&self) -> Result<u64, EngineError> {
        Ok(0)
    }

    /// Reads about this many more bytes of the files, to find damage before a reader does. Called from the thread that
    /// feeds the engine.
    fn scrub(&self, _bytes: u64) -> Result<ScrubOutcome, EngineError> {
        Ok(ScrubOutcome { complete: true, damaged: false })
    }

    /// Bytes of files that the next seals delete, even if nothing changes.
    fn retired(&self) -> u64 {
        0
    }

    /// Bytes that the engine occupies.
    fn size(&self) -> EngineSize;

    /// Closes the engine's files. No other method is called afterwards.
    fn close(&self);
}

/// Finds the newest versions of keys: for each key the record of its newest version, if there is one.
pub(crate) type FindNewest = dyn Fn(&[&[u8]]) -> Vec<Option<RecordKey>> + Send + Sync;

/// What `healing` needs of an engine to replace damaged records; only `healing` calls it. The default bodies are those of
/// an engine that cannot replace records.
pub(crate) trait Repairable: Engine {
    /// Repairs a damaged record in place, if it still exists. Callable from any thread. An engine that cannot do so
    /// leaves the record as it is.
    fn repair(&self, _record: &Record) -> Result<(), EngineError> {
        Ok(())
    }

    /// The record as it was written, if another read succeeds or if a single bit is flipped.
    fn correct(&self, _key: RecordKey) -> Result<Option<Record>, EngineError> {
        Ok(None)
    }

    /// Rewrites a damaged record at another location. Called from the thread that feeds the engine, like the next two
    /// methods.
    fn rewrite(&self, record: &Record) -> Result<(), EngineError> {
        self.repair(record)
    }

    /// Replaces a damaged record by its name, for good. Every read of it reports the damage, and it blocks no step.
    /// `record` has the name as its bytes (see [`LostRecord::name`]). Returns false if this engine cannot do so.
    fn quarantine(&self, _record: &Record) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// Leaves a damaged record whose name is unknown, such as one that is about to be removed. Its file stays as it is
    /// until then.
    fn skip_damaged(&self, _key: RecordKey) {}

    /// The quarantined records.
    fn quarantined(&self) -> Vec<LostRecord> {
        Vec::new()
    }

    /// The file of a record, and its offset in the file.
    fn locate(&self, _key: RecordKey) -> Option<(PathBuf, u64)> {
        None
    }

    /// Number of entries that were repaired when the engine was opened.
    fn repaired(&self) -> u64 {
        0
    }

    /// Tells the engine how to find out which versions are superseded, so that it can store these in fewer bytes. Called once; an engine
    /// that stores all records alike ignores it.
    fn set_newest(&self, _newest: Box<FindNewest>) {}
}
