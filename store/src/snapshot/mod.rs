//! Snapshots: one revision's state with its history, as a database that etcd's own tools open. `build` makes one from
//! records, `layout` says what stands where, `bbolt` is the file format below. Reading one is `maintenance::restore`.

pub(crate) mod build;
pub(crate) mod layout;
#[cfg(test)]
mod tests;

use std::io::{self, Seek, Write};

use crate::alarm::Alarms;
use crate::core::Core;
use crate::engine::EngineError;
use crate::error::Stopped;
use crate::history::History;
use crate::{LeaseId, Revision};
use build::Builder;

/// What a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The store's revision at which it was taken.
    pub revision: Revision,
    /// Records of history in it, notes not counted.
    pub records: u64,
    /// Its length in bytes; a multiple of 4096.
    pub bytes: u64,
}

/// Why a snapshot was not made. What was written so far is not a database.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A stored version did not check: take it after the store was repaired, or salvage what is readable.
    #[error("a stored version of revision {revision} is damaged")]
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

/// Writes the current state. Blocks no writer.
pub(crate) fn snapshot(core: &Core, to: &mut (impl Write + Seek)) -> Result<SnapshotInfo, SnapshotError> {
    core.serving()?;
    let pin = core.pins.pin();
    let closing = {
        let visible = core.visible();
        Closing {
            cluster: core.cluster,
            revision: visible.revision,
            compacted: visible.compacted,
            leases: core.granted.list(),
            alarms: visible.alarms,
        }
    };
    let mut history = History::upto(core, closing.revision, pin);
    let mut builder = Builder::begin(to)?;
    while let Some(records) = history.step()? {
        core.serving()?;
        for record in &records {
            builder.record(record)?;
        }
    }
    builder.finish(&closing)
}
