//! Snapshots: the state at one revision with its history, as a database that etcd's tools open. `build` writes it from
//! records, `layout` has etcd's buckets, and `bbolt` is the file format. `maintenance::restore` reads it.
//!
//! Promise: a snapshot is of one revision, is what etcd's tools expect of a backup, and blocks no writer. Never here:
//! where the file is, and its sync (the caller's).

pub(crate) mod bbolt;
pub(crate) mod build;
mod excluded;
pub(crate) mod layout;
#[cfg(test)]
mod tests;

use crate::Revision;
use crate::engine::EngineError;
use crate::published::core::Core;
use crate::read::history::History;
use crate::types::error::Stopped;
use build::Builder;
use excluded::ExcludedRecords;
use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Summary of a written snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The store's revision at which it was taken.
    pub revision: Revision,
    /// Number of history records, without notes.
    pub records: u64,
    /// Length in bytes; a multiple of 4096.
    pub bytes: u64,
    /// The oldest readable revision of the snapshot. It is newer than the store's if damaged records were left out.
    pub compacted: Revision,
    /// Number of damaged records without an intact copy, which were left out. [`crate::Store::damage`] lists them.
    pub left_out: u64,
}

/// Why a snapshot failed. The bytes written so far are not a valid database.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The newest version of a key is damaged and has no intact copy: write or delete that key, or salvage the readable
    /// part.
    #[error(
        "a stored version of revision {revision} is damaged and the newest of its key: write or delete that key first"
    )]
    Damaged {
        /// The version's revision.
        revision: Revision,
    },
    /// The history cannot be read.
    #[error("cannot read the history: {0}")]
    Unreadable(String),
    /// Writing failed: free some space, or choose another place.
    #[error("cannot write the snapshot: {0}")]
    Write(#[from] io::Error),
    /// The store was closed or has stopped; see [`Stopped`].
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<EngineError> for SnapshotError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Damaged(key) => Self::Damaged { revision: key.main },
            EngineError::Corrupt(detail) => Self::Unreadable(detail),
            EngineError::Io(error) => Self::Unreadable(error.to_string()),
        }
    }
}

/// Writes a snapshot of the current state. Blocks no writer. Leaves damaged records out (see `left_out`).
pub(crate) fn snapshot(core: &Core, to: &mut (impl Write + Seek)) -> Result<SnapshotInfo, SnapshotError> {
    let start = to.stream_position()?;
    let info = match write(core, to) {
        Err(SnapshotError::Damaged { .. }) => {
            // New damage was found. All damage must be known before writing, because it decides what is written.
            let written = to.stream_position()? - start;
            to.seek(SeekFrom::Start(start))?;
            find_damage(core)?;
            let info = write(core, to)?;
            fill_up(to, info, written)?
        }
        other => other?,
    };
    if info.left_out > 0 {
        tracing::error!(
            records = info.left_out,
            compacted = info.compacted.0,
            "the snapshot leaves out damaged history records: revisions below this one are compacted in it"
        );
    }
    Ok(info)
}

/// Writes the current state without the known damaged records.
fn write(core: &Core, to: &mut (impl Write + Seek)) -> Result<SnapshotInfo, SnapshotError> {
    core.check_serving()?;
    let pin = core.pins.pin();
    let damage = core.engine.lost();
    let (state, left_out) = {
        let visible = core.visible();
        let mut state = visible.state.clone();
        let left_out = ExcludedRecords::plan(&visible.index, damage, &mut state)?;
        (state, left_out)
    };
    let mut history = History::upto(core, state.revision, pin);
    history.skip(left_out.records.clone());
    let mut builder = Builder::begin(to)?;
    while let Some(records) = history.step()? {
        core.check_serving()?;
        for record in records.iter().filter(|record| !left_out.has(record)) {
            builder.record(record)?;
        }
    }
    Ok(SnapshotInfo { left_out: left_out.records.len() as u64, ..builder.finish(core.cluster, &state)? })
}

/// Reads the whole history to find all damage in it.
fn find_damage(core: &Core) -> Result<(), SnapshotError> {
    let mut history = History::upto(core, core.revision(), core.pins.pin());
    let mut known: BTreeSet<_> = core.engine.lost().into_keys().collect();
    loop {
        core.check_serving()?;
        history.skip(known.clone());
        match history.step() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(EngineError::Damaged(key)) if known.insert(key) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Overwrites the rest of a longer earlier attempt with zeros. They stay in the snapshot as unused pages.
fn fill_up(to: &mut impl Write, info: SnapshotInfo, written: u64) -> io::Result<SnapshotInfo> {
    let missing = written.saturating_sub(info.bytes);
    io::copy(&mut io::repeat(0).take(missing), to)?;
    to.flush()?;
    Ok(SnapshotInfo { bytes: info.bytes + missing, ..info })
}
