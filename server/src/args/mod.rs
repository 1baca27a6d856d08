//! The command line, checked and turned into a [`Config`]. Only here are flag names known; `wiring` applies the flags.

mod access;
mod audit;
mod basic_auth;
mod certs;
mod command;
mod config;
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
mod scope;
mod stop;
mod store;
mod summary;
mod usage_error;

use crate::telemetry::LogFormat;
use access::AccessArgs;
pub(crate) use access::{
    ADMISSION, APIS, AUDIT_WEBHOOK, AUTHENTICATION, AUTHORIZATION, EVENTS, FlagError, FlagValues,
    REQUEST_LIMITS, access, audit_webhook, feature_gates, known_plugin,
};
pub use access::{
    AccessConfig, AdmissionConfig, AuditWebhook, Authentication, Authorization, IssuerSource, ModeChoice,
    OptionalApis, TokenWebhookFile,
};
use audit::AuditArgs;
pub use audit::{AuditConfig, AuditDestination};
pub use basic_auth::BasicAuthArgs;
pub use certs::{CertsArgs, CertsCommand, IssueArgs, KubeconfigArgs, RenewArgs};
use clap::{Args, Parser};
pub use command::Command;
pub(crate) use config::MAX_NODES;
pub use config::{Api, ApiHere, Component, Config, Durability, Engine, LoopsConfig, Storage, StoreAlone};
pub use dropin::{AsArgs, AssetsArgs, Program};
use election::ElectionArgs;
use encryption::EncryptionArgs;
pub use encryption::EncryptionFile;
pub(crate) use encryption::encryption_file;
use etcd::EtcdArgs;
pub use etcd::{EtcdAddress, EtcdListen, EtcdTls};
pub use explain::{ExplainArgs, ExplainOutput};
use external::ExternalArgs;
pub use external::ExternalEtcd;
pub(crate) use external::time;
pub use keep::{History, Quota};
use kstore_controllers::{Blocks, Networks, PodNetworks, Selection};
use kstore_registry::outbound::{ServiceBackend, ServiceBackends};
use kstore_registry::service_ranges::ServiceRanges;
pub use listen::ListenAddress;
use metrics::MetricsArgs;
pub use metrics::MetricsServer;
pub(crate) use naming::CLUSTER;
use naming::NamingArgs;
pub use pages::{CompletionArgs, ManArgs, Shell};
pub use run::{EndMarkedArgs, ExecArgs, ManifestPath, RunArgs, Setup, WaitFor};
use scope::{GivenFlags, Process};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
pub use stop::StopArgs;
pub use store::{AlarmCommand, Output, RestoreArgs, SaveArgs, SnapshotCommand, StoreArgs, StoreCommand};
pub(crate) use summary::of_other_tools;
pub use usage_error::UsageError;

/// Data directory if --data-dir is not given.
pub const DEFAULT_DATA_DIR: &str = "./kstore-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:6443";
const DEFAULT_COMPONENTS: &str = "apiserver,controllers,scheduler,kubelet-sim";
/// Default --history of a cluster. Watch caches hold the current objects, so only watchers that lag need older revisions.
const CLUSTER_HISTORY: History = History::For(Duration::from_secs(300));

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
    // The first: it sees the flags before the others take them.
    #[command(flatten)]
    given: GivenFlags,
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

impl ServeArgs {
    /// Checks what clap cannot: whether the flags are valid together.
    pub fn into_config(mut self) -> Result<Config, UsageError> {
        let role = self.cluster.role()?;
        let mut loops = self.cluster.loops()?;
        let api = match role {
            ProcessRole::Store => self.into_store()?,
            ProcessRole::Apiserver(components) => {
                loops.components = components;
                self.into_here(&loops)?
            }
            ProcessRole::Loops(components) => {
                loops.components = components;
                self.into_elsewhere()?
            }
        };
        Ok(Config { api, loops })
    }

    fn into_store(self) -> Result<Api, UsageError> {
        self.given.check(Process::StoreAlone)?;
        let storage = self.storage();
        let history = self.cluster.history.unwrap_or(History::All);
        let etcd = self.etcd.into_listen()?.ok_or(UsageError::NoEtcdListen)?;
        let quota = Quota::of(self.quota_bytes);
        Ok(Api::Store(Box::new(StoreAlone { storage, etcd, quota, history })))
    }

    fn into_here(self, loops: &LoopsConfig) -> Result<Api, UsageError> {
        if self.kubeconfig.is_some() {
            return Err(UsageError::TwoApis);
        }
        let (storage, quota) = (self.storage(), Quota::of(self.quota_bytes));
        let storage = match self.external.into_external()? {
            None => storage,
            Some(etcd) => {
                self.given.check(Process::OnExternalEtcd)?;
                Storage::External { etcd, dir: storage.dir() }
            }
        };
        let (listen, etcd) = (self.listen, self.etcd.into_listen()?);
        let shared = self.cluster.into_here(loops)?;
        let encryption = self.encryption.into_file()?.map(Box::new);
        Ok(Api::Here(Box::new(ApiHere { storage, listen, etcd, quota, encryption, ..shared })))
    }

    fn into_elsewhere(self) -> Result<Api, UsageError> {
        self.etcd.into_listen()?;
        let kubeconfig = self.kubeconfig.ok_or(UsageError::NoApi)?;
        self.given.check(Process::LoopsAlone)?;
        Ok(Api::Elsewhere(kubeconfig))
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
    /// The API of this process by the flags that the server and `run` share.
    fn into_here(self, loops: &LoopsConfig) -> Result<ApiHere, UsageError> {
        let access = Box::new(self.access()?);
        Ok(ApiHere {
            history: self.history.unwrap_or(CLUSTER_HISTORY),
            service_ranges: self.service_cluster_ip_range.unwrap_or_default(),
            service_backends: ServiceBackends::new(self.webhook_service_resolve),
            anonymous: self.anonymous_auth.unwrap_or(true),
            audit: self.audit.into_config(&self.access)?,
            access,
            write_kubeconfig: self.write_kubeconfig,
            metrics: self.metrics.choice(loops),
            name: self.naming.name,
            ..ApiHere::default()
        })
    }

    /// The loops by their flags, without components.
    fn loops(&mut self) -> Result<LoopsConfig, UsageError> {
        let controllers = self.controllers()?;
        Ok(LoopsConfig {
            components: BTreeSet::new(),
            controllers,
            networks: self.networks()?,
            nodes: self.nodes,
            missing_images: std::mem::take(&mut self.missing_image),
            leader_elect: self.election.leader_elect,
        })
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
