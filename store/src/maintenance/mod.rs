//! Offline operations on the directory of a closed store, and on snapshot files. Each function takes the directory's
//! lock where needed, and blocks until it is done.
//!
//! Promise: what is read is never changed, and an interrupted operation leaves a directory that either is as before or
//! says what to do. Never here: anything that an open store needs; the levels below do not know this one.

mod contents;
mod create;
mod data_dir;
mod engine_files;
pub mod envelope;
mod examine;
mod export;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod image;
mod losses;
#[cfg(test)]
mod offline_tests;
mod read_snapshot;
mod rescue;
mod restore;
#[cfg(test)]
mod salvage_tests;
mod snapshot_file;
mod state;
mod survey;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::disk::own_files::foreign_entries;
pub use create::{VersionWriter, create};
pub use examine::{DirectoryStatus, VerifyReport, verify, verify_keys};
pub use export::{ExportError, SalvageReport, salvage, save, snapshot_to_file};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use fuzz::fuzz_restore;
pub use losses::{Losses, LostVersion, RevisionRange};
pub use read_snapshot::{SnapshotHistory, SnapshotRecord, read_snapshot};
pub use rescue::{RescueError, RescueReport, rescue};
pub use restore::{Progress, Restore, RestoreError, RestoreReport, VisitVersion, restore, restore_visiting};
pub use snapshot_file::{SnapshotFileError, SnapshotStatus, snapshot_status};
pub use survey::{LogRange, Problem, SurveyError};
