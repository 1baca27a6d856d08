//! [`UsageError`]: flags that parse, and cannot be used together.

use super::FlagError;
use kstore_controllers::BadPodNetworks;
use kstore_kubelet_sim::egress::HOST_SERVICES;

/// An invalid combination of flags.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UsageError {
    /// Components that need an API, and no kubeconfig of one.
    #[error("--components without `apiserver` needs --kubeconfig FILE of an apiserver in another process")]
    NoApi,
    /// A kubeconfig of another apiserver although this process serves the API.
    #[error(
        "--kubeconfig cannot be combined with `apiserver` in --components: this process serves its own API"
    )]
    TwoApis,
    /// A flag of the apiserver in a process that does not run it. Flags are named without dashes here.
    #[error("--{0} requires `apiserver` in --components")]
    NeedsApiserver(&'static str),
    /// `run` without an apiserver.
    #[error("run requires `apiserver` in --components")]
    RunNeedsApiserver,
    /// The component `store` together with others.
    #[error(
        "`store` in --components cannot be combined: the apiserver has its own store, and other components use none"
    )]
    StoreNotAlone,
    /// The component `store` without a listener.
    #[error(
        "--components store needs --etcd-listen ADDR, for example 127.0.0.1:2379 or unix:///path/to.sock"
    )]
    NoEtcdListen,
    /// A flag of the etcd API without --etcd-listen.
    #[error("--{0} requires --etcd-listen")]
    NeedsEtcdListen(&'static str),
    /// A flag of an external etcd without --etcd-servers.
    #[error("--{0} requires --etcd-servers")]
    NeedsEtcdServers(&'static str),
    /// TLS to etcd without a certificate authority.
    #[error("https in --etcd-servers needs --etcd-cafile FILE, the certificate authority of those servers")]
    NeedsAuthority,
    /// A flag of the controllers in a process that does not run them.
    #[error("--{0} requires `controllers` in --components")]
    NeedsControllers(&'static str),
    /// A flag of the scheduler in a process that does not run it.
    #[error("--{0} requires `scheduler` in --components")]
    NeedsScheduler(&'static str),
    /// A --cluster-cidr that cannot be split into node networks.
    #[error("--cluster-cidr: {0}")]
    ClusterCidr(#[from] BadPodNetworks),
    /// A flag of the embedded store together with an external etcd.
    #[error("--{0} configures the embedded store and cannot be combined with --etcd-servers")]
    OwnStoreOnly(&'static str),
    /// A name of a tag that expressions take for something else.
    #[error(
        "{0:?} cannot be the name of a tag: write lower-case letters, digits and dashes, and no number, time or `now`"
    )]
    NoTag(String),
    /// A flag without another flag that it requires.
    #[error("--{0} needs {1}")]
    NeedsFlag(&'static str, &'static str),
    /// The lab with a storage on disk, which is the server's default.
    #[error(
        "--lab needs --in-memory (or `kstore-server run --lab -- CMD`): its clusters are in memory, and forks share it"
    )]
    LabInMemory,
    /// A flag that the lab refuses, and why.
    #[error("--{0} cannot be combined with --lab: {1}")]
    LabRefuses(&'static str, &'static str),
    /// The lab at an address that other machines reach.
    #[error(
        "--lab serves loopback addresses only, and --listen names {0:?}: whoever can act as an administrator could end its clusters; add --lab-anywhere if that is meant"
    )]
    LabOnLoopback(String),
    /// Host programs at an address that other machines reach.
    #[error(
        "--image runs programs of this machine for every client that may create pods, and --listen names {0:?}, which other machines reach; add --image-anywhere if that is meant"
    )]
    ImagesOnLoopback(String),
    /// More services of this machine than have an address in the cluster.
    #[error("--egress-host can be given {} times", HOST_SERVICES)]
    TooManyHostServices,
    /// Containers of a runtime at an address that other machines reach.
    #[error(
        "--cri runs containers on this machine for every client that may create pods, and --listen names {0:?}, which other machines reach; add --image-anywhere if that is meant"
    )]
    CriOnLoopback(String),
    /// A start time with the system's clock.
    #[error(
        "--lab-start needs a --lab-clock that the lab moves (manual, auto or a factor): in mode real the cluster has the system's time"
    )]
    LabStartInRealTime,
    /// A value that cannot be used.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// A pattern of `explore` that is both to be used and left out.
    #[error("--only and --skip name the same pattern {0:?}")]
    OnlyAndSkip(&'static str),
    /// A cluster of `explore` that is to stay after a search.
    #[error("--hold goes with one --replay FILE: the cluster of a search does not stay")]
    HoldWithoutReplay,
    /// `run` without a command, where a shell could read nothing.
    #[error(
        "say which command to run: kstore-server run -- CMD; without one `run` opens a shell, which needs a terminal"
    )]
    NoCommand,
    /// Groups of nodes in a process without simulated nodes.
    #[error("--nodes-file, --sim-api and --kwok require `kubelet-sim` in --components")]
    NeedsNodes,
    /// Groups of nodes in a lab without nodes.
    #[error(
        "--lab with --nodes-file or --sim-api requires --nodes 1 or more: the clusters of a lab without nodes of their own simulate none"
    )]
    LabNodes,
    /// Standard input given as two manifest files.
    #[error("--crd and --manifest can read standard input (-) only once")]
    StdinTwice,
}
