//! Offline work: on the directory of a store that is not open, and on snapshot files. Each function takes the directory's
//! lock where it needs one, blocks, and is done when it returns.

mod contents;
pub(crate) mod fuzz;
mod restore;
mod site;
mod snapshot_file;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use fuzz::fuzz_restore;
pub use restore::{Progress, Restore, RestoreError, Restored, restore};
pub use snapshot_file::{SnapshotFileError, SnapshotStatus, snapshot_status};
