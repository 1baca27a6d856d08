//! Arguments of `stop`, which the module of this name carries out.

use super::DEFAULT_DATA_DIR;
use clap::Args;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Sends SIGTERM to the server and waits until it has ended. Without a running server nothing is done, and the exit code is 0.

Examples:
  kstore-server stop
  kstore-server stop --data-dir prepared";

/// Arguments of `stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Data directory of the server
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    pub data_dir: PathBuf,
}
