//! The seam behind which history lives: a map from record keys to immutable bytes. An engine knows nothing of keys,
//! transactions or watchers, and it is disposable: what it holds can be made again from older state and the log.

pub(crate) mod healing;
pub(crate) mod memory;
pub(crate) mod reader;
pub(crate) mod segments;
pub(crate) mod sled;
#[cfg(test)]
pub(crate) mod stub;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use thiserror::Error;

use crate::Revision;
use crate::commit::RecordKey;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A version of a key.
    Put,
    /// The deletion of a key.
    Delete,
    /// The note of a revision.
    Note,
}

/// One immutable record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: RecordKey,
    pub(crate) kind: RecordKind,
    pub(crate) bytes: Bytes,
}

/// A part of history in order, whole revisions only.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) records: Vec<Record>,
    /// Where to go on: behind everything returned.
    pub(crate) next: Revision,
}

/// What an engine occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineSize {
    /// Bytes on disk (or in memory).
    pub(crate) allocated: u64,
    /// Bytes of records that are wanted.
    pub(crate) live: u64,
}

/// A record that was damaged beyond repair, and where its bytes were.
#[derive(Clone, Debug)]
pub(crate) struct LostRecord {
    pub(crate) key: RecordKey,
    /// A version's key and revision, encoded as a version without value; of a note, nothing.
    pub(crate) name: Bytes,
    pub(crate) file: PathBuf,
    pub(crate) offset: u64,
}

/// What a step of winning back space came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tidied {
    /// There is nothing more to do.
    Idle,
    /// There is more to do.
    More,
    /// These records do not check, and hold the step up until they are rewritten, quarantined or left.
    Damaged(Vec<RecordKey>),
}

/// What a step of scrubbing came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scrubbed {
    /// The pass over all files is complete.
    pub(crate) complete: bool,
    /// Something does not check; [`Engine::tidy`] sees to it.
    pub(crate) damaged: bool,
}

/// Why an engine did not do something.
#[derive(Debug, Error)]
pub(crate) enum EngineError {
    /// A record does not check. Others may.
    #[error("the record of revision {} does not check", .0.main)]
    Damaged(RecordKey),
    /// What the engine wrote does not fit together.
    #[error("{0}")]
    Corrupt(String),
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl EngineError {
    /// Whether it failed for want of space: the same may be tried again when there is some.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Io(error) if crate::room::is_full(error))
    }
}

/// See the module. `put` and `remove` come from one thread in order; reads come from any.
pub(crate) trait Engine: Send + Sync {
    /// Adds records, newest revision last. Adding one again is no change. Not durable until [`Engine::seal`].
    fn put(&self, records: &[Record]) -> Result<(), EngineError>;

    /// Forgets records. May come back after a crash: whoever removes says so again after a restart.
    fn remove(&self, keys: &[RecordKey]) -> Result<(), EngineError>;

    /// One record, checked.
    fn get(&self, key: RecordKey) -> Result<Option<Bytes>, EngineError>;

    /// The records of `from..=to` in order, checked, stopping behind a whole revision once `budget` bytes are reached.
    fn scan(&self, from: Revision, to: Revision, budget: usize) -> Result<Scan, EngineError>;

    /// The same without some records, which are not read either. An engine that cannot leave records out leaves out none.
    fn scan_without(
        &self,
        from: Revision,
        to: Revision,
        budget: usize,
        _left_out: &BTreeSet<RecordKey>,
    ) -> Result<Scan, EngineError> {
        self.scan(from, to, budget)
    }

    /// Puts a record right that was found damaged, if it is still there. From any thread. An engine that cannot leaves it
    /// as it is.
    fn repair(&self, _record: &Record) -> Result<(), EngineError> {
        Ok(())
    }

    /// The revisions below `below` that have notes, ascending.
    fn notes_below(&self, below: Revision) -> Result<Vec<Revision>, EngineError>;

    /// The newest revision of which it has a record, if after a crash that may be more than what was sealed.
    fn newest(&self) -> Result<Option<Revision>, EngineError> {
        Ok(None)
    }

    /// Makes everything so far durable. The token reopens exactly this state once it stands in the manifest.
    fn seal(&self) -> Result<Bytes, EngineError>;

    /// The manifest with the newest token is durable: what only tokens before the last two need can go.
    fn sealed(&self) -> Result<(), EngineError>;

    /// One bounded step of winning back space.
    fn tidy(&self) -> Result<Tidied, EngineError>;

    /// The record as it was written, if it can be read after all, or one flipped bit is all that is wrong with it.
    fn correct(&self, _key: RecordKey) -> Result<Option<Record>, EngineError> {
        Ok(None)
    }

    /// Writes a damaged record anew, in another place. From the thread that feeds, as the next three are.
    fn rewrite(&self, record: &Record) -> Result<(), EngineError> {
        self.repair(record)
    }

    /// Puts what names a damaged record in its place, for good: it is reported as damaged wherever it is read, and holds up
    /// nothing. `record` has the name for its bytes (see [`LostRecord::name`]). False if this engine cannot.
    fn quarantine(&self, _record: &Record) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// A damaged record that nobody knows, as those are that are about to be removed: its file is left as it is until then.
    fn leave_damaged(&self, _key: RecordKey) {}

    /// Reads on through the files, about so many bytes, to find damage before a reader does.
    fn scrub(&self, _bytes: u64) -> Result<Scrubbed, EngineError> {
        Ok(Scrubbed { complete: true, damaged: false })
    }

    /// The records that are quarantined.
    fn quarantined(&self) -> Vec<LostRecord> {
        Vec::new()
    }

    /// In which file and where in it a record is.
    fn locate(&self, _key: RecordKey) -> Option<(PathBuf, u64)> {
        None
    }

    /// Entries that were put right when it was opened.
    fn mended(&self) -> u64 {
        0
    }

    /// Bytes on disk that go with the next seals, whether anything changes or not.
    fn retired(&self) -> u64 {
        0
    }

    /// What it occupies.
    fn size(&self) -> EngineSize;

    /// Lets go of its files. Nothing is asked of it afterwards.
    fn close(&self);
}
