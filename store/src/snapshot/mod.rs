//! Snapshots: one revision's state with its history, as a database that etcd's own tools open. `build` makes one from
//! records, `layout` says what stands where, `bbolt` is the file format below. Reading one is `maintenance::restore`.

pub(crate) mod build;
pub(crate) mod layout;
mod left_out;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::alarm::Alarms;
use crate::core::Core;
use crate::engine::EngineError;
use crate::error::Stopped;
use crate::history::History;
use crate::{LeaseId, Revision};
use build::Builder;
use left_out::LeftOut;

/// What a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The store's revision at which it was taken.
    pub revision: Revision,
    /// Records of history in it, notes not counted.
    pub records: u64,
    /// Its length in bytes; a multiple of 4096.
    pub bytes: u64,
    /// The oldest revision that can be read from it. Newer than the store's if damaged records were left out: it is then compacted
    /// to where nothing needs them.
    pub compacted: Revision,
    /// Damaged records of which no copy is left, and which are not in it. [`crate::Store::damage`] names them.
    pub left_out: u64,
}

/// Why a snapshot was not made. What was written so far is not a database.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The newest version of a key did not check, and no copy of it is left: write or delete that key, or salvage what is readable.
    #[error(
        "a stored version of revision {revision} is damaged and the newest of its key: write or delete that key first"
    )]
    Damaged {
        /// The version's revision.
        revision: Revision,
    },
    /// The history cannot be read.
    #[error("the history cannot be read: {0}")]
    Unreadable(String),
    /// Where it was to be written did not take it: make room, or choose another place.
    #[error("the snapshot cannot be written: {0}")]
    Write(#[from] io::Error),
    /// See [`Stopped`].
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

/// What of a state is not history.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    pub(crate) cluster: u64,
    pub(crate) revision: Revision,
    pub(crate) compacted: Revision,
    /// With their times to live, ascending.
    pub(crate) leases: Vec<(LeaseId, i64)>,
    pub(crate) alarms: Alarms,
}

/// Writes the current state. Blocks no writer. Damaged records are left out (see `left_out`).
pub(crate) fn snapshot(core: &Core, to: &mut (impl Write + Seek)) -> Result<SnapshotInfo, SnapshotError> {
    let start = to.stream_position()?;
    let info = match write(core, to) {
        Err(SnapshotError::Damaged { .. }) => {
            // Damage that was not known. All of it is found first: what was written depends on it.
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
            "a snapshot was taken without damaged records of the history: in it, revisions below this one are compacted"
        );
    }
    Ok(info)
}

/// Writes the current state without the damaged records that are known.
fn write(core: &Core, to: &mut (impl Write + Seek)) -> Result<SnapshotInfo, SnapshotError> {
    core.serving()?;
    let pin = core.pins.pin();
    let damage = core.healing.lost();
    let (closing, left_out) = {
        let visible = core.visible();
        let mut closing = Closing {
            cluster: core.cluster,
            revision: visible.revision,
            compacted: visible.compacted,
            leases: core.granted.list(),
            alarms: visible.alarms,
        };
        let left_out = LeftOut::plan(&visible.index, damage, &mut closing)?;
        (closing, left_out)
    };
    let mut history = History::upto(core, closing.revision, pin);
    history.leave_out(left_out.records.clone());
    let mut builder = Builder::begin(to)?;
    while let Some(records) = history.step()? {
        core.serving()?;
        for record in records.iter().filter(|record| !left_out.has(record)) {
            builder.record(record)?;
        }
    }
    Ok(SnapshotInfo { left_out: left_out.records.len() as u64, ..builder.finish(&closing)? })
}

/// Reads the whole history, so that all damage in it is known.
fn find_damage(core: &Core) -> Result<(), SnapshotError> {
    let mut history = History::upto(core, core.revision(), core.pins.pin());
    let mut known: BTreeSet<_> = core.healing.lost().into_keys().collect();
    loop {
        core.serving()?;
        history.leave_out(known.clone());
        match history.step() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(EngineError::Damaged(key)) if known.insert(key) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Zeros what an attempt wrote that was longer; they belong to the snapshot as pages that nothing refers to.
fn fill_up(to: &mut impl Write, info: SnapshotInfo, written: u64) -> io::Result<SnapshotInfo> {
    let missing = written.saturating_sub(info.bytes);
    io::copy(&mut io::repeat(0).take(missing), to)?;
    to.flush()?;
    Ok(SnapshotInfo { bytes: info.bytes + missing, ..info })
}
