//! Arguments of `stop`, which the module of this name carries out.

use super::{DEFAULT_DATA_DIR, Flag};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Sends SIGTERM to the server and waits until it has ended. Without a running server nothing is done, and the exit code is 0.

Examples:
  kstore-server stop
  kstore-server stop --data-dir prepared";

pub(super) const FLAGS: &[Flag<StopArgs>] = &[Flag::path(
    "data-dir",
    "DIR",
    |o: &mut StopArgs, path| o.data_dir = path,
    "Data directory of the server",
)
.default(DEFAULT_DATA_DIR)];

/// Arguments of `stop`.
#[derive(Debug, Default)]
pub struct StopArgs {
    /// Data directory of the server.
    pub data_dir: PathBuf,
}
