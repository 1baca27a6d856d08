//! The arguments of `kstore-server assets` and `kstore-server as`. The flags of the drop-in programs are in `crate::dropin`.

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// A program that this binary can replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// The API server alone, with its objects in an external etcd.
    KubeApiserver,
    /// The store with its etcd API.
    Etcd,
    /// The controllers alone, as clients of kstore's API server.
    KubeControllerManager,
    /// The scheduler alone, as a client of kstore's API server.
    KubeScheduler,
}

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
