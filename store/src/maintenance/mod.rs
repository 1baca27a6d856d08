//! Offline work: on the directory of a store that is not open, and on snapshot files. Each function takes the directory's
//! lock where it needs one, blocks, and is done when it returns.

mod snapshot_file;

pub use snapshot_file::{SnapshotFileError, SnapshotStatus, snapshot_status};
