//! The arguments of `kstore-server assets` and `kstore-server as`. The flags of the drop-in programs are in `crate::dropin`.

use crate::dropin::Program;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const ASSETS_HELP: &str = "\
The programs are links to this one, each with the flags of the original. kube-apiserver runs an apiserver only. Controllers, scheduler \
and simulated nodes are separate programs, or run inside it if its environment has KSTORE_CONTROLLERS=all (or a list, such as \
namespace,garbagecollector), KSTORE_SCHEDULER=1 or KSTORE_NODES=N.

Example:
  eval \"$(kstore-server assets)\" && go test ./...";

/// Arguments of `assets`.
#[derive(Debug, Args)]
pub struct AssetsArgs {
    /// The directory; created if it does not exist
    #[arg(value_name = "DIR", default_value = "./kstore-assets")]
    pub dir: PathBuf,
}

/// Arguments of `as`. If `as` is the first word, the drop-in program runs before this command line is parsed.
#[derive(Debug, Args)]
pub struct AsArgs {
    /// The program to run
    #[arg(value_enum)]
    pub program: Program,
    /// The program's flags
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub flags: Vec<OsString>,
}
