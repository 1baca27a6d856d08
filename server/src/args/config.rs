//! The checked command line as data: [`Config`], and what its parts choose.

use super::flag::Choice;
use super::{
    AccessConfig, AuditConfig, CriFlags, CriListen, EncryptionFile, EtcdListen, ExternalEtcd, Forward,
    History, LabFlags, ListenAddress, MetricsServer, Quota, SchedulerFile, SimulationFlags,
};
use kstore_api::version::Minor;
use kstore_controllers::{Networks, Selection};
use kstore_host_runtime::mapping::ImageMapping;
use kstore_kubelet_sim::egress::{EgressRule, HostService};
use kstore_registry::outbound::ServiceBackends;
use kstore_registry::service_ranges::ServiceRanges;
use kstore_scheduler::scheduler::TieMode;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Largest number of simulated nodes that fits in one process; the largest supported Kubernetes cluster has 5 000.
pub(crate) const MAX_NODES: u32 = 20_000;

/// A component of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

impl Choice for Component {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("store", Self::Store, "The store alone, which serves only the etcd API"),
        ("apiserver", Self::Apiserver, "The store and the Kubernetes API"),
        ("controllers", Self::Controllers, "The workload controllers"),
        ("scheduler", Self::Scheduler, "The scheduler"),
        ("kubelet-sim", Self::KubeletSim, "The simulated nodes"),
    ];
}

impl Component {
    /// The component's name in `--components`.
    pub(crate) fn name(self) -> &'static str {
        self.word()
    }
}

impl Choice for TieMode {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("hash", Self::Random, "By a hash of the seed, the pod and the attempt"),
        ("upstream", Self::KubeScheduler, "As kube-scheduler without extenders does"),
        ("first", Self::First, "The first one in the order in which nodes are visited"),
    ];
}

/// Which point a write must reach before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The write is synced to disk.
    #[default]
    Sync,
    /// The write is in memory; a crash of the machine may lose the last 100 ms.
    Relaxed,
}

impl Choice for Durability {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("sync", Self::Sync, "The write is synced to disk"),
        ("relaxed", Self::Relaxed, "The write is in memory; a crash of the machine may lose the last 100 ms"),
    ];
}

/// Storage engine of checkpointed history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Immutable log segments.
    #[default]
    Segments,
    /// The sled database.
    Sled,
}

impl Choice for Engine {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("segments", Self::Segments, "Immutable log segments"), ("sled", Self::Sled, "The sled database")];
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

impl Storage {
    /// Whether a damaged store is replaced by its readable part.
    pub fn salvages(&self) -> bool {
        matches!(self, Self::Disk { salvage: true, .. })
    }

    /// The external etcd, if there is one.
    pub(crate) fn external(&self) -> Option<&ExternalEtcd> {
        match self {
            Self::Memory | Self::Disk { .. } => None,
            Self::External { etcd, .. } => Some(etcd),
        }
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

/// Location of the API: served by this process, or by another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Api {
    /// This process serves the API.
    Here(Box<ApiHere>),
    /// No Kubernetes API: this process is a plain etcd.
    Store(Box<StoreAlone>),
    /// Another process serves the API; this kubeconfig locates it.
    Elsewhere(PathBuf),
}

impl Api {
    /// The API that this process serves, if it does.
    pub fn here(self) -> Option<ApiHere> {
        match self {
            Self::Here(here) => Some(*here),
            Self::Store(_) | Self::Elsewhere(_) => None,
        }
    }
}

/// The Kubernetes API of this process. By default it is in memory, on a free port of the loopback interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiHere {
    /// Storage of objects.
    pub storage: Storage,
    /// Address of the API listener.
    pub listen: ListenAddress,
    /// Listener of the etcd API, if it is served.
    pub etcd: Option<EtcdListen>,
    /// Quota of stored bytes.
    pub quota: Quota,
    /// History that automatic compaction keeps.
    pub history: History,
    /// Most bytes of it.
    pub history_bytes: Option<u64>,
    /// Networks of Service addresses.
    pub service_ranges: ServiceRanges,
    /// Addresses of webhook Services outside the cluster.
    pub service_backends: ServiceBackends,
    /// Addresses of this machine that lead to Services and pods.
    pub forwards: Vec<Forward>,
    /// Whether requests without credentials are served.
    pub anonymous: bool,
    /// The audit log, if configured.
    pub audit: Option<Box<AuditConfig>>,
    /// Authenticators and authorizers that flags configure.
    pub access: Box<AccessConfig>,
    /// Encryption of stored objects, if configured.
    pub encryption: Option<Box<EncryptionFile>>,
    /// Path of a second copy of the admin kubeconfig.
    pub write_kubeconfig: Option<PathBuf>,
    /// How metrics.k8s.io is served.
    pub metrics: MetricsServer,
    /// Whether data of a newer version of Kubernetes are served.
    pub allow_downgrade: bool,
    /// Name of the cluster in its kubeconfigs; `None`: that of the data directory.
    pub name: Option<String>,
    /// The lab, if the process serves it.
    pub lab: Option<Box<LabFlags>>,
    /// Whether the data cannot be changed. The server works on a copy of them.
    pub is_read_only: bool,
    /// Whether `replay` writes the data of the server: then it creates no initial objects.
    pub is_replay: bool,
    /// Whether the server calls webhooks and API servers that the data name; `None`: unless the data were imported.
    pub outbound: Option<OutboundPolicy>,
}

/// Whether a server calls what its data name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboundPolicy {
    /// No webhook and no API server is called.
    None,
    /// They are called.
    Allow,
}

impl Choice for OutboundPolicy {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("none", Self::None, "No webhook and no API server is called; requests that need them fail"),
        ("allow", Self::Allow, "They are called"),
    ];
}

impl Default for ApiHere {
    fn default() -> Self {
        Self {
            storage: Storage::Memory,
            listen: ListenAddress { host: "127.0.0.1".to_owned(), port: 0 },
            etcd: None,
            quota: Quota::Default,
            history: History::All,
            history_bytes: None,
            service_ranges: ServiceRanges::default(),
            service_backends: ServiceBackends::default(),
            forwards: Vec::new(),
            anonymous: true,
            audit: None,
            access: Box::default(),
            encryption: None,
            write_kubeconfig: None,
            metrics: MetricsServer::Off,
            allow_downgrade: false,
            name: None,
            lab: None,
            is_read_only: false,
            is_replay: false,
            outbound: None,
        }
    }
}

/// The store alone, which serves only the etcd API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAlone {
    /// Storage of keys.
    pub storage: Storage,
    /// Listener of the etcd API.
    pub etcd: EtcdListen,
    /// Quota of stored bytes.
    pub quota: Quota,
    /// History that automatic compaction keeps.
    pub history: History,
    /// Most bytes of it, which then do not count against the quota; `None`: they count, as in etcd.
    pub history_bytes: Option<u64>,
}

/// A checked command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Location of the API.
    pub api: Api,
    /// The loops of this process.
    pub loops: LoopsConfig,
}

impl Config {
    /// The version of Kubernetes whose API this process serves, if it does.
    pub(crate) fn kubernetes(&self) -> Option<Minor> {
        match &self.api {
            Api::Here(api) => Some(api.access.apis.opt_in.minor()),
            Api::Store(_) | Api::Elsewhere(_) => None,
        }
    }
}

/// The components that run as clients of the API in one process. By default none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopsConfig {
    /// The components; never the apiserver.
    pub components: BTreeSet<Component>,
    /// Controllers to run, if [`Component::Controllers`] runs.
    pub controllers: Selection,
    /// Address blocks from which controllers assign.
    pub networks: Networks,
    /// Number of simulated nodes.
    pub nodes: u32,
    /// What makes simulated nodes besides `nodes`.
    pub simulation: SimulationFlags,
    /// Patterns of images that no simulated node can pull.
    pub missing_images: Vec<String>,
    /// Whether NetworkPolicies have no effect between simulated pods.
    pub ignores_network_policies: bool,
    /// Images that are mapped to programs of this machine, in the order in which they are tried.
    pub images: Vec<ImageMapping>,
    /// Whether these programs may have the network of this machine where they can have none of their own.
    pub shares_network: bool,
    /// Networks beyond the cluster that these programs reach.
    pub egress: Vec<EgressRule>,
    /// Services of this machine that these programs reach by a name of the cluster.
    pub host_services: Vec<HostService>,
    /// The node of a container runtime.
    pub cri: CriFlags,
    /// Where the simulated runtime is served to clients of CRI.
    pub cri_listen: Option<CriListen>,
    /// The scheduler's profiles and settings, if [`Component::Scheduler`] runs; `None`: the default ones.
    pub scheduler: Option<SchedulerFile>,
    /// How the scheduler chooses among nodes of equal score.
    pub ties: TieMode,
    /// Time after which the scheduler tries a pod again that no event has woken; `None`: the default.
    pub longest_stay: Option<Duration>,
    /// Whether controllers and scheduler run only as leaders; `None`: if another process may run them too.
    pub leader_elect: Option<bool>,
}

impl LoopsConfig {
    /// Whether flags name nodes, other than files of the kinds of simulations.
    pub(super) fn has_nodes(&self) -> bool {
        self.nodes > 0 || self.cri.socket.is_some()
    }
}
