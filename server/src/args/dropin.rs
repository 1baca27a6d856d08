//! The arguments of `kstore-server assets` and `kstore-server as`. The flags of the drop-in programs are in `crate::dropin`.

use super::flag::{Choice, Flag, chosen, put, required, words};
use std::ffi::OsString;
use std::path::PathBuf;

/// A program that this binary can replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The API server alone, with its objects in an external etcd.
    #[default]
    KubeApiserver,
    /// The store with its etcd API.
    Etcd,
    /// The controllers alone, as clients of kstore's API server.
    KubeControllerManager,
    /// The scheduler alone, as a client of kstore's API server.
    KubeScheduler,
}

impl Choice for Program {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("kube-apiserver", Self::KubeApiserver, "The API server alone, with its objects in an external etcd"),
        ("etcd", Self::Etcd, "The store with its etcd API"),
        (
            "kube-controller-manager",
            Self::KubeControllerManager,
            "The controllers alone, as clients of kstore's API server",
        ),
        ("kube-scheduler", Self::KubeScheduler, "The scheduler alone, as a client of kstore's API server"),
    ];
}

pub(super) const ASSETS_HELP: &str = "\
kube-apiserver, etcd, kube-controller-manager and kube-scheduler are links to this program, each with the flags of the original; kubectl is \
a link to yours, if it is found. kube-apiserver runs an apiserver only. Controllers, scheduler and simulated nodes are separate programs, or run inside it if its environment has KSTORE_CONTROLLERS=all (or a list, such as \
namespace,garbagecollector), KSTORE_SCHEDULER=1 or KSTORE_NODES=N.

Example:
  eval \"$(kstore-server assets)\" && go test ./...";

pub(super) const ASSETS: &[Flag<AssetsArgs>] = &[Flag::path(
    "dir",
    "DIR",
    |o: &mut AssetsArgs, path| o.dir = path,
    "The directory; created if it does not exist",
)
.positional()
.default("./kstore-assets")];

pub(super) const AS: &[Flag<AsArgs>] = &[
    Flag::choice(
        ("program", "PROGRAM"),
        words::<Program>,
        |o: &mut AsArgs, word| put(&mut o.program, chosen(word)),
        "The program to run",
    )
    .positional()
    .shaped(required),
    Flag::word("flags", "FLAGS", |o: &mut AsArgs, word| o.flags.push(word), "The program's flags")
        .shaped(|arg| arg.num_args(1..).trailing_var_arg(true).allow_hyphen_values(true)),
];

/// Arguments of `assets`.
#[derive(Debug, Default)]
pub struct AssetsArgs {
    /// The directory; created if it does not exist.
    pub dir: PathBuf,
}

/// Arguments of `as`. If `as` is the first word, the drop-in program runs before this command line is parsed.
#[derive(Debug, Default)]
pub struct AsArgs {
    /// The program to run.
    pub program: Program,
    /// The program's flags.
    pub flags: Vec<OsString>,
}
