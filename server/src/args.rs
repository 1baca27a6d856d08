//! The command line: what a person can ask for, checked and turned into a [`Config`]. The only place that knows flag names.
//! Not the meaning of a flag: that is `wiring`.

mod access;
mod audit;
mod dropin;
mod etcd;
mod explain;
mod external;
mod keep;
mod listen;
mod metrics;
mod number;
mod pages;
mod run;
mod store;

pub(crate) use access::{
    AUDIT_WEBHOOK, AUTHENTICATION, AUTHORIZATION, FlagError, Given, access, audit_webhook, duration,
};
pub use access::{
    AccessConfig, AuditWebhook, Authentication, Authorization, IssuersFrom, ModeChoice, TokenWebhookFile,
};
pub use audit::{AuditConfig, AuditDestination};
pub use dropin::{AsArgs, AssetsArgs};
pub use etcd::{EtcdAddress, EtcdDoor, EtcdTls};
pub use explain::{ExplainArgs, ExplainOutput};
pub use external::ExternalEtcd;
pub(crate) use external::time;
pub use keep::{History, Quota};
pub use listen::ListenAddress;
pub use metrics::MetricsServer;
pub use pages::{CompletionArgs, ManArgs, Shell};
pub use run::{ManifestPath, RunArgs, Setup, WaitFor};
pub use store::{AlarmCommand, Output, RestoreArgs, SaveArgs, SnapshotCommand, StoreArgs, StoreCommand};

use crate::telemetry::LogFormat;
use access::AccessArgs;
use audit::AuditArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use etcd::EtcdArgs;
use external::ExternalArgs;
use kstore_apiserver::ServiceRanges;
use kstore_apiserver::outbound::{ServiceBackend, ServiceBackends};
use kstore_controllers::{BadPodNetworks, Blocks, Networks, PodNetworks, Selection};
use metrics::MetricsArgs;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The default data directory.
pub const DEFAULT_DATA_DIR: &str = "./kstore-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:6443";
const DEFAULT_COMPONENTS: &str = "apiserver,controllers,scheduler,kubelet-sim";
/// The default history of a cluster. Watch caches hold the current state, so only watches that fell behind read the history.
const CLUSTER_HISTORY: History = History::For(Duration::from_secs(300));
/// More simulated nodes than this do not fit in one process; the largest supported Kubernetes cluster has 5 000.
const MAX_NODES: u32 = 20_000;

// The headings under which --help groups flags.
const STORAGE: &str = "Storage";
const SERVING: &str = "Serving";
const COMPONENTS: &str = "Components";
const ETCD_API: &str = "etcd API";
const EXTERNAL_ETCD: &str = "External etcd";
const LOGGING: &str = "Logging";

const EXAMPLES: &str = "\
Examples:
  kstore-server                                  everything in this process, data in ./kstore-data
  kubectl --kubeconfig kstore-data/admin.kubeconfig get nodes

  kstore-server --in-memory --listen 127.0.0.1:0 a cluster without disk on a free port
  kstore-server run -- pytest tests/             a fresh cluster for one command, gone afterwards
  kstore-server --nodes 1000                     a thousand simulated nodes

  kstore-server --components apiserver           the apiserver alone, and elsewhere …
  kstore-server --components controllers --kubeconfig kstore-data/controllers.kubeconfig

  kstore-server --components apiserver --etcd-servers http://127.0.0.1:2379
                                                 one of several apiservers on an etcd

  kstore-server --components store --etcd-listen 127.0.0.1:2379
                                                 a plain etcd: the store and its API, nothing of Kubernetes

Logging: warnings by default. RUST_LOG=info logs each request, start-up, leadership, compaction and alarms;
RUST_LOG=info,kstore_apiserver::access=warn leaves requests out; RUST_LOG=kstore_apiserver=debug shows more of one crate.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "kstore-server", version = crate::VERSION, about = "A Kubernetes-style control plane in one process")]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES, max_term_width = 120)]
pub struct Cli {
    /// What to do, if not to serve.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of the server.
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Format of log lines on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, global = true, help_heading = LOGGING)]
    pub log_format: LogFormat,
}

/// What can be done besides serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command against a fresh in-memory cluster that ends with it
    #[command(after_help = run::HELP)]
    Run(Box<RunArgs>),
    /// Print what led to an object and what followed from it, as a tree
    #[command(after_help = explain::HELP)]
    Explain(ExplainArgs),
    /// Check, save, restore or salvage the store's data while no server runs on it
    #[command(after_help = store::HELP)]
    Store(StoreArgs),
    /// Make a folder with the programs that envtest and other test harnesses start: kube-apiserver, etcd,
    /// kube-controller-manager, kube-scheduler, and kubectl if found
    #[command(after_help = dropin::ASSETS_HELP)]
    Assets(AssetsArgs),
    /// Run as another program, with the flags of that program: `kstore-server as etcd --help` lists them
    As(AsArgs),
    /// Print completions for a shell
    #[command(after_help = pages::COMPLETION_HELP)]
    Completion(CompletionArgs),
    /// Write the manual pages of all commands (used when packages are made)
    #[command(hide = true)]
    Man(ManArgs),
    /// Become another program that dies with its parent (used by `run`)
    #[command(name = "exec-guarded", hide = true)]
    ExecGuarded(ExecArgs),
}

/// Flags of the server.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Directory of the data, certificates and kubeconfigs [default: ./kstore-data]
    #[arg(long, value_name = "DIR", conflicts_with = "in_memory", help_heading = STORAGE)]
    data_dir: Option<PathBuf>,
    /// Keep everything in memory and write nothing to disk
    #[arg(long, help_heading = STORAGE)]
    in_memory: bool,
    /// When a write is acknowledged: once it is synced to disk, or before, with a sync every 100 ms [default: sync]
    #[arg(long, value_enum, value_name = "WHEN", help_heading = STORAGE)]
    durability: Option<Durability>,
    /// Storage engine of the history [default: segments]
    #[arg(long, value_enum, value_name = "ENGINE", help_heading = STORAGE)]
    engine: Option<Engine>,
    /// If damage keeps the store from opening, go on with what can be read; the damaged files move to DIR.damaged-N
    #[arg(long, conflicts_with = "in_memory", help_heading = STORAGE)]
    salvage: bool,
    /// Refuse writes above N bytes of data; negative disables [default: 2147483648]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number::bytes, help_heading = STORAGE)]
    quota_bytes: Option<i64>,
    /// Address of the API (REST and gRPC, TLS only); port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN, help_heading = SERVING)]
    listen: ListenAddress,
    /// Kubeconfig of an apiserver in another process, for --components without `apiserver`
    #[arg(long, value_name = "FILE", help_heading = COMPONENTS)]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    external: ExternalArgs,
}

/// Arguments of the hidden `exec-guarded`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// The process to die with
    #[arg(long)]
    pub parent: i32,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Flags that every way of running a cluster has.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// History that automatic compaction keeps: a time (5m, 2h), a number of revisions (10000revs), or all
    /// [default: 5m; all with the store alone]
    #[arg(long, value_name = "KEEP", help_heading = STORAGE)]
    history: Option<History>,
    /// Network of service addresses; two with a comma between them, one of each IP family, for dual stack
    /// [default: 10.96.0.0/12]
    #[arg(long, value_name = "CIDR[,CIDR]", help_heading = SERVING)]
    service_cluster_ip_range: Option<ServiceRanges>,
    /// Reach the Service NAMESPACE/NAME of a webhook or APIService at HOST:PORT, such as a program on this machine; its
    /// certificate must be for NAME.NAMESPACE.svc. May be given several times
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]=HOST:PORT", help_heading = SERVING)]
    webhook_service_resolve: Vec<ServiceBackend>,
    /// Serve requests without credentials as the user system:anonymous, who may ask for health and version; with false they are
    /// refused with 401
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = SERVING)]
    anonymous_auth: Option<bool>,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    access: AccessArgs,
    /// Write a second copy of the admin kubeconfig to FILE
    #[arg(long, value_name = "FILE", help_heading = SERVING)]
    write_kubeconfig: Option<PathBuf>,
    /// Components to run, of apiserver, controllers, scheduler and kubelet-sim; or `store` alone, a plain etcd
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = DEFAULT_COMPONENTS, help_heading = COMPONENTS)]
    components: Vec<Component>,
    /// Controllers to run, by Kubernetes' names: NAME, -NAME, or * for all others [default: *]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, value_parser = controllers, help_heading = COMPONENTS)]
    controllers: Option<Selection>,
    /// Give Services of type LoadBalancer addresses out of these blocks, at which nothing listens. Without it they stay pending
    #[arg(long, value_name = "CIDR,...", help_heading = COMPONENTS)]
    load_balancer_pool: Option<Blocks>,
    /// Give nodes that register without a pod network one out of these, of 24 bits for IPv4 and 64 for IPv6. Simulated nodes
    /// bring their own
    #[arg(long, value_name = "CIDR,...", help_heading = COMPONENTS)]
    cluster_cidr: Option<Blocks>,
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::nodes, help_heading = COMPONENTS)]
    nodes: u32,
    #[command(flatten)]
    metrics: MetricsArgs,
}

/// A part of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Component {
    /// The store alone, for clients of the etcd API.
    Store,
    /// The store and the API in front of it.
    Apiserver,
    /// The workload controllers.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// The simulated nodes.
    KubeletSim,
}

impl Component {
    /// As `--components` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Apiserver => "apiserver",
            Self::Controllers => "controllers",
            Self::Scheduler => "scheduler",
            Self::KubeletSim => "kubelet-sim",
        }
    }
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Once it is synced to disk.
    Sync,
    /// Before; a crash of the machine may lose the last 100 ms.
    Relaxed,
}

/// Where checkpointed history lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Immutable log segments.
    Segments,
    /// The sled database.
    Sled,
}

/// Where objects live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In memory only.
    Memory,
    /// In a directory.
    Disk {
        /// The data directory.
        dir: PathBuf,
        /// When a write is answered.
        durability: Durability,
        /// Where checkpointed history lives.
        engine: Engine,
        /// Whether a store that cannot be opened is replaced by what can be read of it.
        salvage: bool,
    },
    /// In an etcd that is not ours.
    External {
        /// Which.
        etcd: ExternalEtcd,
        /// Where certificates and kubeconfigs are, if anywhere.
        dir: Option<PathBuf>,
    },
}

/// Where the API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Api {
    /// In this process.
    Here {
        /// Where objects live.
        storage: Storage,
        /// Where it listens.
        listen: ListenAddress,
        /// Where the etcd API is, if anywhere.
        etcd: Option<EtcdDoor>,
        /// How much may be kept.
        quota: Quota,
        /// What automatic compaction keeps.
        history: History,
        /// The networks of services.
        service_ranges: ServiceRanges,
        /// Where Services of webhooks are served outside of the cluster.
        service_backends: ServiceBackends,
        /// Whether requests without credentials are served.
        anonymous: bool,
        /// The audit log, if there is one.
        audit: Option<Box<AuditConfig>>,
        /// Who is asked who a user is, and what they may do.
        access: Box<AccessConfig>,
        /// A second copy of the admin kubeconfig.
        write_kubeconfig: Option<PathBuf>,
        /// What it does about metrics.k8s.io.
        metrics: MetricsServer,
    },
    /// Nowhere: this process is a plain etcd.
    Store {
        /// Where the keys live.
        storage: Storage,
        /// Where the etcd API is.
        etcd: EtcdDoor,
        /// How much may be kept.
        quota: Quota,
        /// What automatic compaction keeps.
        history: History,
    },
    /// Where this kubeconfig says.
    Elsewhere(PathBuf),
}

/// A checked command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the API is.
    pub api: Api,
    /// What else runs in this process; never contains the apiserver.
    pub loops: BTreeSet<Component>,
    /// Which controllers run, if [`Component::Controllers`] does.
    pub controllers: Selection,
    /// The addresses that controllers give away.
    pub networks: Networks,
    /// Number of simulated nodes.
    pub nodes: u32,
}

/// A combination of flags that has no meaning.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UsageError {
    /// Loops without an API.
    #[error("--components without `apiserver` needs --kubeconfig FILE, which says where an apiserver is")]
    NoApi,
    /// Two APIs.
    #[error("--kubeconfig only makes sense without `apiserver` in --components: this process has its own")]
    TwoApis,
    /// A flag of the apiserver without one.
    #[error("{0} only makes sense with `apiserver` in --components")]
    NeedsApiserver(&'static str),
    /// A flag that needs the apiserver in this process, by its name without dashes.
    #[error("--{0} only makes sense with `apiserver` in --components")]
    NeedsApiserverFlag(&'static str),
    /// The store beside other things.
    #[error(
        "`store` in --components stands alone: the apiserver brings its own store, and the others know no store"
    )]
    StoreAlone,
    /// A store without an address at which clients could reach it.
    #[error(
        "--components store needs --etcd-listen ADDR, for example 127.0.0.1:2379 or unix:///path/to.sock"
    )]
    NoEtcdListen,
    /// A flag of the etcd API without one.
    #[error("{0} only makes sense with --etcd-listen")]
    NeedsEtcdListen(&'static str),
    /// A flag of an external etcd without one.
    #[error("{0} only makes sense with --etcd-servers")]
    NeedsEtcdServers(&'static str),
    /// External etcd over https without a certificate authority.
    #[error("https in --etcd-servers needs --etcd-cafile FILE: the authority that certifies them")]
    NeedsAuthority,
    /// A flag of the controllers where none runs.
    #[error("{0} only makes sense with `controllers` in --components")]
    NeedsControllers(&'static str),
    /// Pod networks that nodes cannot get.
    #[error("--cluster-cidr: {0}")]
    ClusterCidr(#[from] BadPodNetworks),
    /// A flag of a store that is not used.
    #[error("{0} is about a store of our own, and --etcd-servers says that objects live elsewhere")]
    OwnStoreOnly(&'static str),
    /// A flag of the audit log without another one.
    #[error("{0} needs {1}")]
    NeedsAuditFlag(&'static str, &'static str),
    /// A value that cannot be used.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// Two manifests from standard input.
    #[error("--crd and --manifest can read standard input (-) only once")]
    StdinTwice,
}

impl ServeArgs {
    /// Checks what clap cannot: whether the flags make sense together.
    pub fn into_config(self) -> Result<Config, UsageError> {
        let parts = self.cluster.split()?;
        let (nodes, controllers) = (self.cluster.nodes, self.cluster.controllers()?);
        let networks = self.cluster.networks()?;
        let (api, loops) = match parts {
            Split::Store => (self.into_store()?, BTreeSet::new()),
            Split::Apiserver(loops) => (self.into_here(&loops)?, loops),
            Split::Loops(loops) => (self.into_elsewhere()?, loops),
        };
        Ok(Config { api, loops, controllers, networks, nodes })
    }

    fn into_store(self) -> Result<Api, UsageError> {
        if self.kubeconfig.is_some() {
            return Err(UsageError::NeedsApiserver("--kubeconfig"));
        }
        if self.cluster.write_kubeconfig.is_some() {
            return Err(UsageError::NeedsApiserver("--write-kubeconfig"));
        }
        if self.external.is_given() {
            return Err(UsageError::NeedsApiserver("--etcd-servers"));
        }
        if self.cluster.service_cluster_ip_range.is_some() {
            return Err(UsageError::NeedsApiserver("--service-cluster-ip-range"));
        }
        if self.cluster.anonymous_auth.is_some() {
            return Err(UsageError::NeedsApiserver("--anonymous-auth"));
        }
        if !self.cluster.webhook_service_resolve.is_empty() {
            return Err(UsageError::NeedsApiserver("--webhook-service-resolve"));
        }
        if let Some(flag) = self.cluster.access_flag() {
            return Err(flag);
        }
        let storage = self.storage();
        let history = self.cluster.history.unwrap_or(History::All);
        let etcd = self.etcd.into_door()?.ok_or(UsageError::NoEtcdListen)?;
        Ok(Api::Store { storage, etcd, quota: Quota::of(self.quota_bytes), history })
    }

    fn into_here(self, loops: &BTreeSet<Component>) -> Result<Api, UsageError> {
        if self.kubeconfig.is_some() {
            return Err(UsageError::TwoApis);
        }
        let own = self.own_store_flag();
        let (storage, quota) = (self.storage(), Quota::of(self.quota_bytes));
        let storage = match (self.external.into_external()?, own) {
            (None, _) => storage,
            (Some(_), Some(flag)) => return Err(UsageError::OwnStoreOnly(flag)),
            (Some(etcd), None) => Storage::External { etcd, dir: storage.dir() },
        };
        Ok(Api::Here {
            storage,
            listen: self.listen,
            etcd: self.etcd.into_door()?,
            quota,
            history: self.cluster.history.unwrap_or(CLUSTER_HISTORY),
            service_ranges: self.cluster.service_cluster_ip_range.unwrap_or_default(),
            service_backends: ServiceBackends::new(self.cluster.webhook_service_resolve),
            anonymous: self.cluster.anonymous_auth.unwrap_or(true),
            audit: self.cluster.audit.into_config(&self.cluster.access)?,
            access: Box::new(access(&self.cluster.access)?),
            write_kubeconfig: self.cluster.write_kubeconfig,
            metrics: self.cluster.metrics.choice(loops, self.cluster.nodes),
        })
    }

    /// A flag that says something about a store of our own, if one was given.
    fn own_store_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--durability", self.durability.is_some()),
            ("--engine", self.engine.is_some()),
            ("--salvage", self.salvage),
            ("--quota-bytes", self.quota_bytes.is_some()),
            ("--history", self.cluster.history.is_some()),
            ("--etcd-listen", self.etcd.is_given()),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    fn into_elsewhere(self) -> Result<Api, UsageError> {
        let flags = [
            ("--data-dir", self.data_dir.is_some()),
            ("--in-memory", self.in_memory),
            ("--quota-bytes", self.quota_bytes.is_some()),
            ("--etcd-servers", self.external.is_given()),
            ("--etcd-listen", self.etcd.into_door()?.is_some()),
            ("--service-cluster-ip-range", self.cluster.service_cluster_ip_range.is_some()),
            ("--anonymous-auth", self.cluster.anonymous_auth.is_some()),
            ("--webhook-service-resolve", !self.cluster.webhook_service_resolve.is_empty()),
            ("--write-kubeconfig", self.cluster.write_kubeconfig.is_some()),
        ];
        let kubeconfig = self.kubeconfig.ok_or(UsageError::NoApi)?;
        let given = flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag);
        match given.map(UsageError::NeedsApiserver).or(self.cluster.access_flag()) {
            Some(error) => Err(error),
            None => Ok(Api::Elsewhere(kubeconfig)),
        }
    }

    fn storage(&self) -> Storage {
        if self.in_memory {
            return Storage::Memory;
        }
        let dir = self.data_dir.clone().unwrap_or_else(|| DEFAULT_DATA_DIR.into());
        let durability = self.durability.unwrap_or(Durability::Sync);
        let engine = self.engine.unwrap_or(Engine::Segments);
        Storage::Disk { dir, durability, engine, salvage: self.salvage }
    }
}

impl Storage {
    /// Whether a store that cannot be opened is replaced by what can be read of it.
    pub fn salvages(&self) -> bool {
        matches!(self, Self::Disk { salvage: true, .. })
    }

    /// The data directory, if there is one.
    pub fn dir(&self) -> Option<PathBuf> {
        match self {
            Self::Memory => None,
            Self::Disk { dir, .. } => Some(dir.clone()),
            Self::External { dir, .. } => dir.clone(),
        }
    }
}

/// The controllers of a list.
fn controllers(list: &str) -> Result<Selection, String> {
    let (selected, missing) = Selection::parse(list.split(',')).map_err(|error| error.to_string())?;
    match &missing[..] {
        [] => Ok(selected),
        missing => Err(format!("kstore does not have {}", missing.join(", "))),
    }
}

/// What runs here.
enum Split {
    /// The store alone.
    Store,
    /// An apiserver and these loops.
    Apiserver(BTreeSet<Component>),
    /// These loops.
    Loops(BTreeSet<Component>),
}

impl ClusterArgs {
    /// A flag of the audit log, of the metrics server or about access, which only an apiserver has.
    fn access_flag(&self) -> Option<UsageError> {
        let other = self.audit.given().or_else(|| self.metrics.given()).map(UsageError::NeedsApiserver);
        other.or_else(|| self.access.given().map(UsageError::NeedsApiserverFlag))
    }

    fn controllers(&self) -> Result<Selection, UsageError> {
        match &self.controllers {
            Some(_) if !self.components.contains(&Component::Controllers) => {
                Err(UsageError::NeedsControllers("--controllers"))
            }
            selected => Ok(selected.clone().unwrap_or_default()),
        }
    }

    fn networks(&self) -> Result<Networks, UsageError> {
        let flags =
            [("--load-balancer-pool", &self.load_balancer_pool), ("--cluster-cidr", &self.cluster_cidr)];
        let given = flags.iter().find(|(_, blocks)| blocks.is_some());
        if let Some((flag, _)) = given.filter(|_| !self.components.contains(&Component::Controllers)) {
            return Err(UsageError::NeedsControllers(flag));
        }
        let pods = PodNetworks::new(self.cluster_cidr.clone().unwrap_or_default(), None, None)?;
        Ok(Networks { load_balancers: self.load_balancer_pool.clone().unwrap_or_default(), pods })
    }

    fn split(&self) -> Result<Split, UsageError> {
        let mut all: BTreeSet<Component> = self.components.iter().copied().collect();
        if all.remove(&Component::Store) {
            return if all.is_empty() { Ok(Split::Store) } else { Err(UsageError::StoreAlone) };
        }
        Ok(if all.remove(&Component::Apiserver) { Split::Apiserver(all) } else { Split::Loops(all) })
    }
}

#[cfg(test)]
mod tests;
