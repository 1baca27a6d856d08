//! The command line, checked and turned into a [`Config`]. Only here are flag names known; `wiring` applies the flags.

mod access;
mod audit;
mod basic_auth;
mod certs;
mod command;
mod dropin;
mod election;
mod encryption;
mod etcd;
mod explain;
mod external;
mod keep;
mod listen;
mod metrics;
mod naming;
mod number;
mod pages;
mod run;
mod stop;
mod store;
mod summary;
mod usage_error;

pub(crate) use access::{
    ADMISSION, APIS, AUDIT_WEBHOOK, AUTHENTICATION, AUTHORIZATION, EVENTS, FlagError, FlagValues,
    REQUEST_LIMITS, access, audit_webhook, known_plugin,
};
pub use access::{
    AccessConfig, AdmissionConfig, AuditWebhook, Authentication, Authorization, IssuerSource, ModeChoice,
    OptionalApis, TokenWebhookFile,
};
pub use audit::{AuditConfig, AuditDestination};
pub use basic_auth::BasicAuthArgs;
pub use certs::{CertsArgs, CertsCommand, IssueArgs, KubeconfigArgs, RenewArgs};
pub use command::Command;
pub use dropin::{AsArgs, AssetsArgs};
pub use encryption::EncryptionFile;
pub(crate) use encryption::encryption_file;
pub use etcd::{EtcdAddress, EtcdListen, EtcdTls};
pub use explain::{ExplainArgs, ExplainOutput};
pub use external::ExternalEtcd;
pub(crate) use external::time;
pub use keep::{History, Quota};
pub use listen::ListenAddress;
pub use metrics::MetricsServer;
pub use pages::{CompletionArgs, ManArgs, Shell};
pub use run::{EndMarkedArgs, ExecArgs, ManifestPath, RunArgs, Setup, WaitFor};
pub use stop::StopArgs;
pub use store::{AlarmCommand, Output, RestoreArgs, SaveArgs, SnapshotCommand, StoreArgs, StoreCommand};
pub(crate) use summary::of_other_tools;
pub use usage_error::UsageError;

use crate::telemetry::LogFormat;
use access::AccessArgs;
use audit::AuditArgs;
use clap::{Args, Parser, ValueEnum};
use election::ElectionArgs;
use encryption::EncryptionArgs;
use etcd::EtcdArgs;
use external::ExternalArgs;
use kstore_apiserver::ServiceRanges;
use kstore_apiserver::outbound::{ServiceBackend, ServiceBackends};
use kstore_controllers::{Blocks, Networks, PodNetworks, Selection};
use metrics::MetricsArgs;
use naming::NamingArgs;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Data directory if --data-dir is not given.
pub const DEFAULT_DATA_DIR: &str = "./kstore-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:6443";
const DEFAULT_COMPONENTS: &str = "apiserver,controllers,scheduler,kubelet-sim";
/// Default --history of a cluster. Watch caches hold the current objects, so only watchers that lag need older revisions.
const CLUSTER_HISTORY: History = History::For(Duration::from_secs(300));
/// Largest number of simulated nodes that fits in one process; the largest supported Kubernetes cluster has 5 000.
const MAX_NODES: u32 = 20_000;

const STORAGE: &str = "Storage";
const SERVING: &str = "Serving";
const COMPONENTS: &str = "Components";
const ETCD_API: &str = "etcd API";
const EXTERNAL_ETCD: &str = "External etcd";
const LOGGING: &str = "Logging";

/// The parsed command line.
#[derive(Debug, Parser)]
#[command(name = "kstore-server", version = crate::VERSION, about = "A Kubernetes-style control plane in one process")]
#[command(args_conflicts_with_subcommands = true, after_help = summary::EXAMPLES, max_term_width = 120)]
#[command(mut_args = summary::in_short_help)]
pub struct Cli {
    /// Subcommand; without one the server runs.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of the server.
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Format of log lines on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, global = true, help_heading = LOGGING)]
    pub log_format: LogFormat,
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
    /// Refuse writes above N bytes of data, such as 2GiB; negative disables [default: 2GiB]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number::bytes, help_heading = STORAGE)]
    quota_bytes: Option<i64>,
    /// Address of the API (REST and gRPC, TLS only); port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN, help_heading = SERVING)]
    listen: ListenAddress,
    /// Kubeconfig of an apiserver in another process, for --components without `apiserver`
    #[arg(long, value_name = "FILE", help_heading = COMPONENTS)]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    encryption: EncryptionArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    external: ExternalArgs,
}

/// Flags that the server and `run` share.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// History that automatic compaction keeps: a time (5m, 2h), a number of revisions (10000revs), or all
    /// [default: 5m; all with the store alone]
    #[arg(long, value_name = "KEEP", help_heading = STORAGE)]
    history: Option<History>,
    #[command(flatten)]
    memory: keep::MemoryArgs,
    /// Network of Service addresses, or two separated by a comma, one per IP family, for dual stack [default: 10.96.0.0/12]
    #[arg(long, value_name = "CIDR[,CIDR]", help_heading = SERVING)]
    service_cluster_ip_range: Option<ServiceRanges>,
    /// Send requests for the Service NAMESPACE/NAME of a webhook or APIService to HOST:PORT, such as a program on this machine;
    /// its certificate must be valid for NAME.NAMESPACE.svc. May be given several times
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]=HOST:PORT", help_heading = SERVING)]
    webhook_service_resolve: Vec<ServiceBackend>,
    /// Serve requests without credentials as the user system:anonymous, which may read health and version; with false they are
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
    /// Address blocks for Services of type LoadBalancer, which stay pending without it. Nothing listens at the addresses
    #[arg(long, value_name = "CIDR,...", help_heading = COMPONENTS)]
    load_balancer_pool: Option<Blocks>,
    /// Address blocks for nodes without a pod network (/24 for IPv4, /64 for IPv6 each). Simulated nodes have their own
    #[arg(long, value_name = "CIDR,...", help_heading = COMPONENTS)]
    cluster_cidr: Option<Blocks>,
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::nodes, help_heading = COMPONENTS)]
    nodes: u32,
    /// Images that do not exist for the simulated nodes, such as 'example.com/*:broken'; may be repeated
    #[arg(long, value_name = "PATTERN", help_heading = COMPONENTS)]
    missing_image: Vec<String>,
    #[command(flatten)]
    naming: NamingArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    election: ElectionArgs,
}

/// A component of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Component {
    /// The store alone, which serves only the etcd API.
    Store,
    /// The store and the Kubernetes API.
    Apiserver,
    /// The workload controllers.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// The simulated nodes.
    KubeletSim,
}

impl Component {
    /// The component's name in `--components`.
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

/// Which point a write must reach before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// The write is synced to disk.
    Sync,
    /// The write is in memory; a crash of the machine may lose the last 100 ms.
    Relaxed,
}

/// Storage engine of checkpointed history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Immutable log segments.
    Segments,
    /// The sled database.
    Sled,
}

/// Storage of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Memory only; nothing survives the process.
    Memory,
    /// A data directory.
    Disk {
        /// Path of the directory.
        dir: PathBuf,
        /// Which point a write must reach before it is acknowledged.
        durability: Durability,
        /// Storage engine of checkpointed history.
        engine: Engine,
        /// Whether a damaged store is replaced by its readable part.
        salvage: bool,
    },
    /// An external etcd.
    External {
        /// Addresses and credentials of the etcd.
        etcd: ExternalEtcd,
        /// Directory of certificates and kubeconfigs; `None` keeps them in memory.
        dir: Option<PathBuf>,
    },
}

/// Location of the API: served by this process, or by another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Api {
    /// This process serves the API.
    Here {
        /// Storage of objects.
        storage: Storage,
        /// Address of the API listener.
        listen: ListenAddress,
        /// Listener of the etcd API, if it is served.
        etcd: Option<EtcdListen>,
        /// Quota of stored bytes.
        quota: Quota,
        /// History that automatic compaction keeps.
        history: History,
        /// Networks of Service addresses.
        service_ranges: ServiceRanges,
        /// Addresses of webhook Services outside the cluster.
        service_backends: ServiceBackends,
        /// Whether requests without credentials are served.
        anonymous: bool,
        /// The audit log, if configured.
        audit: Option<Box<AuditConfig>>,
        /// Authenticators and authorizers that flags configure.
        access: Box<AccessConfig>,
        /// Encryption of stored objects, if configured.
        encryption: Option<Box<EncryptionFile>>,
        /// Path of a second copy of the admin kubeconfig.
        write_kubeconfig: Option<PathBuf>,
        /// How metrics.k8s.io is served.
        metrics: MetricsServer,
        /// Name of the cluster in its kubeconfigs; `None`: that of the data directory.
        name: Option<String>,
    },
    /// No Kubernetes API: this process is a plain etcd.
    Store {
        /// Storage of keys.
        storage: Storage,
        /// Listener of the etcd API.
        etcd: EtcdListen,
        /// Quota of stored bytes.
        quota: Quota,
        /// History that automatic compaction keeps.
        history: History,
    },
    /// Another process serves the API; this kubeconfig locates it.
    Elsewhere(PathBuf),
}

/// A checked command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Location of the API.
    pub api: Api,
    /// Components that run as clients of the API in this process; never the apiserver.
    pub loops: BTreeSet<Component>,
    /// Controllers to run, if [`Component::Controllers`] runs.
    pub controllers: Selection,
    /// Address blocks from which controllers assign.
    pub networks: Networks,
    /// Number of simulated nodes.
    pub nodes: u32,
    /// Patterns of images that no simulated node can pull.
    pub missing_images: Vec<String>,
    /// Whether controllers and scheduler run only as leaders; `None`: if another process may run them too.
    pub leader_elect: Option<bool>,
}

impl ServeArgs {
    /// Checks what clap cannot: whether the flags are valid together.
    pub fn into_config(mut self) -> Result<Config, UsageError> {
        let missing_images = std::mem::take(&mut self.cluster.missing_image);
        let role = self.cluster.role()?;
        let (nodes, controllers) = (self.cluster.nodes, self.cluster.controllers()?);
        let (networks, leader_elect) = (self.cluster.networks()?, self.cluster.election.leader_elect);
        let (api, loops) = match role {
            ProcessRole::Store => (self.into_store()?, BTreeSet::new()),
            ProcessRole::Apiserver(loops) => (self.into_here(&loops)?, loops),
            ProcessRole::Loops(loops) => (self.into_elsewhere()?, loops),
        };
        Ok(Config { api, loops, controllers, networks, nodes, missing_images, leader_elect })
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
        let encryption = self.encryption.given().map(UsageError::NeedsApiserver);
        if let Some(error) = encryption.or(self.cluster.apiserver_only_flag_error()) {
            return Err(error);
        }
        let storage = self.storage();
        let history = self.cluster.history.unwrap_or(History::All);
        let etcd = self.etcd.into_listen()?.ok_or(UsageError::NoEtcdListen)?;
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
        let access = Box::new(self.cluster.access()?);
        Ok(Api::Here {
            storage,
            listen: self.listen,
            etcd: self.etcd.into_listen()?,
            quota,
            history: self.cluster.history.unwrap_or(CLUSTER_HISTORY),
            service_ranges: self.cluster.service_cluster_ip_range.unwrap_or_default(),
            service_backends: ServiceBackends::new(self.cluster.webhook_service_resolve),
            anonymous: self.cluster.anonymous_auth.unwrap_or(true),
            audit: self.cluster.audit.into_config(&self.cluster.access)?,
            access,
            encryption: self.encryption.into_file()?.map(Box::new),
            write_kubeconfig: self.cluster.write_kubeconfig,
            metrics: self.cluster.metrics.choice(loops, self.cluster.nodes),
            name: self.cluster.naming.name,
        })
    }

    /// The first given flag that only concerns the embedded store.
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
            ("--etcd-listen", self.etcd.into_listen()?.is_some()),
            ("--service-cluster-ip-range", self.cluster.service_cluster_ip_range.is_some()),
            ("--anonymous-auth", self.cluster.anonymous_auth.is_some()),
            ("--webhook-service-resolve", !self.cluster.webhook_service_resolve.is_empty()),
            ("--write-kubeconfig", self.cluster.write_kubeconfig.is_some()),
        ];
        let kubeconfig = self.kubeconfig.ok_or(UsageError::NoApi)?;
        let given = flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag);
        let given = given.or(self.encryption.given()).map(UsageError::NeedsApiserver);
        match given.or(self.cluster.apiserver_only_flag_error()) {
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
    /// Whether a damaged store is replaced by its readable part.
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

/// Parses --controllers.
fn controllers(list: &str) -> Result<Selection, String> {
    let (selected, missing) = Selection::parse(list.split(',')).map_err(|error| error.to_string())?;
    match &missing[..] {
        [] => Ok(selected),
        missing => Err(format!("kstore does not have {}", missing.join(", "))),
    }
}

/// Components of this process, by the part that serves the API.
enum ProcessRole {
    /// The store alone.
    Store,
    /// The apiserver, and these components as its clients.
    Apiserver(BTreeSet<Component>),
    /// Only these components, as clients of an apiserver in another process.
    Loops(BTreeSet<Component>),
}

impl ClusterArgs {
    /// The error for the first given flag of the audit log, the metrics server or access, which need an apiserver.
    fn apiserver_only_flag_error(&self) -> Option<UsageError> {
        let other = self
            .audit
            .given()
            .or(self.metrics.given())
            .or(self.memory.given())
            .or(self.naming.given())
            .map(UsageError::NeedsApiserver);
        other.or_else(|| self.access.given().map(UsageError::NeedsApiserverFlag))
    }

    fn access(&self) -> Result<AccessConfig, FlagError> {
        let mut config = access(&self.access)?;
        config.authentication.is_anonymous_flag_given = self.anonymous_auth.is_some();
        config.authentication.basic_auth = self.access.file("basic-auth-file");
        config.explain_bytes = self.memory.explain_memory;
        Ok(config)
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

    fn role(&self) -> Result<ProcessRole, UsageError> {
        let mut all: BTreeSet<Component> = self.components.iter().copied().collect();
        if all.remove(&Component::Store) {
            return if all.is_empty() { Ok(ProcessRole::Store) } else { Err(UsageError::StoreNotAlone) };
        }
        Ok(if all.remove(&Component::Apiserver) {
            ProcessRole::Apiserver(all)
        } else {
            ProcessRole::Loops(all)
        })
    }
}

#[cfg(test)]
mod tests;
