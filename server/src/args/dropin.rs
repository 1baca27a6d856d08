//! The arguments of `assets` and `as`. Not the flags of the programs: each has its own table.

use crate::dropin::Program;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const ASSETS_HELP: &str = "\
The programs are links to this one, each with the flags of the real one. kube-apiserver is an apiserver alone: controllers, scheduler
and simulated nodes are programs of their own, or run inside it if its environment has KSTORE_CONTROLLERS=all (or a list, such as
namespace,garbagecollector), KSTORE_SCHEDULER=1 or KSTORE_NODES=N.

Example:
  eval \"$(kstore-server assets)\" && go test ./...";

/// Arguments of `assets`.
#[derive(Debug, Args)]
pub struct AssetsArgs {
    /// The folder; made if it is not there
    #[arg(value_name = "DIR", default_value = "./kstore-assets")]
    pub dir: PathBuf,
}

/// What to run as. If `as` is the first word, the program runs before this command line is parsed.
#[derive(Debug, Args)]
pub struct AsArgs {
    /// The program
    #[arg(value_enum)]
    pub program: Program,
    /// The program's flags
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub flags: Vec<OsString>,
}
