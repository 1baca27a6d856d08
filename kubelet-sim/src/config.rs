//! Configuration of a simulated cluster: number, size and speed of nodes. The behavior of single pods is in
//! `behavior`.

use crate::api_server::ApiServerListener;
use crate::behavior::Delay;
use crate::cri_socket::CriEndpoint;
use crate::egress::Egress;
use crate::identities::Identities;
use kstore_api::version::Minor;
use kstore_client::manifest::ManifestObject;
use kstore_host_runtime::HostPrograms;
use kstore_host_runtime::files::ProgramFolder;
use kstore_informer::CacheSet;
use kstore_informer::metrics::Registry;
use kstore_kwok::StageSet;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The simulated nodes. `Default` is what `kstore-server` runs: three equal nodes without delays.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of nodes to register.
    pub nodes: usize,
    /// Node `i` is called `<name_prefix><i>`, counting from zero.
    pub name_prefix: String,
    /// CPU capacity of each node.
    pub cpu: String,
    /// Memory capacity of each node.
    pub memory: String,
    /// Local disk of each node.
    pub ephemeral_storage: String,
    /// Pods that fit on each node. Real kubelets default to 110; simulated pods cost little, so the default is 1000. Nodes take fewer if
    /// there are so many that the pod network has no more addresses for each: of the default network up to 8,192 nodes take 1000.
    pub pods: u32,
    /// Whether the cluster has the kinds of `sim.kstore.io`, so that NodeGroups make nodes and NodeFaults break them. The simulation's user
    /// needs the role in [`crate::sim_api::DEFINITIONS`].
    pub has_sim_api: bool,
    /// Whether Nodes that other clients create are simulated if an annotation marks them: `kubelet-sim.kstore.io/node`, or
    /// `kwok.x-k8s.io/node: fake`.
    pub adopts_marked_nodes: bool,
    /// Whether nodes say that they are simulated, so that other pods and programs of a real cluster stay away: by a taint, labels and an
    /// annotation ([`NodeShape::for_cluster`](crate::shape::NodeShape::for_cluster)).
    pub is_guarded: bool,
    /// Objects of `sim.kstore.io` that the control plane applies at the start, if it has these kinds.
    pub sim_objects: Arc<[ManifestObject]>,
    /// KWOK's stages. Objects of kinds that have stages follow these instead of the life that this crate gives pods and nodes.
    pub stages: Arc<StageSet>,
    /// Labels in addition to the well-known ones.
    pub labels: BTreeMap<String, String>,
    /// The kubelet version that nodes report.
    pub version: String,
    /// The Kubernetes version of the API server, which decides in which version nodes read ClusterTrustBundles.
    pub minor: Minor,
    /// The network from which each node gets a subnet for its pods, unless its Node object names one.
    pub pod_network: Network,
    /// The network from which nodes get their own addresses, in order.
    pub node_network: Network,
    /// Patterns of images that do not exist: their pulls fail in every pod. `*` stands for any text, `?` for one character. A pattern is
    /// compared with the image as a pod names it, and with its full name (`docker.io/library/nginx:latest` for `nginx`).
    pub missing_images: Vec<String>,
    /// Images that are mapped to programs of this machine, which then run as containers. Needs a real clock.
    pub programs: Option<Arc<HostPrograms>>,
    /// What these programs reach outside of the cluster, if their pods have a network of their own.
    pub egress: Arc<Egress>,
    /// The node whose pods a container runtime runs. Needs a real clock.
    pub cri: Option<CriNode>,
    /// Where the simulated runtime is served to clients of CRI. Needs a real clock.
    pub cri_endpoint: Option<CriEndpoint>,
    /// Default delays, for pods without annotations about them.
    pub delays: Delays,
    /// Whether normal events (Pulling, Pulled, Created, Started, Killing) are recorded. Warnings always are.
    pub events: bool,
    /// The simulation cancels this token when all nodes have registered and renew their leases.
    pub registered: CancellationToken,
    /// Whether NetworkPolicies restrict connections between simulated pods.
    pub enforces_network_policies: bool,
    /// Serves connections of pods to the API server; `None`: they are refused.
    pub api_server: Option<ApiServerListener>,
    /// The users as which nodes write.
    pub identities: Identities,
    /// The registry for metrics of the informers' caches.
    pub metrics: Registry,
    /// The informers' caches, perhaps from an image.
    pub caches: CacheSet,
}

/// A node whose pods a container runtime of this machine runs, by CRI v1.
#[derive(Clone, Debug)]
pub struct CriNode {
    /// The name of the node.
    pub node: String,
    /// The socket of the runtime.
    pub socket: PathBuf,
    /// The folder for volumes and logs, which the runtime mounts and writes.
    pub folder: Arc<ProgramFolder>,
    /// Whether the pods run on when the simulation ends, for a later one with the same folder.
    pub keeps_pods: bool,
    /// The machine, which the node reports as its own.
    pub machine: Machine,
    /// Pods that the node takes.
    pub pods: u32,
}

/// What a node reports that is this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its address, as pods of its network reach it.
    pub ip: String,
    /// Its processors.
    pub cpus: usize,
    /// Its memory in bytes.
    pub memory: u64,
    /// The size of the disk with the volumes, in bytes.
    pub disk: u64,
    /// The architecture of its processors, such as `amd64`.
    pub architecture: String,
    /// The name of its operating system.
    pub os_image: String,
    /// The version of its kernel.
    pub kernel_version: String,
}

impl Config {
    /// Nodes for an API server of a Kubernetes version. The kubelets have its release, unless the configuration names another than the
    /// default.
    #[must_use]
    pub fn of_release(self, minor: Minor) -> Self {
        match self.version == Minor::DEFAULT.programs() {
            true => Self { version: minor.programs().to_owned(), minor, ..self },
            false => Self { minor, ..self },
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            nodes: 3,
            name_prefix: "node-".to_owned(),
            cpu: "8".to_owned(),
            memory: "32Gi".to_owned(),
            ephemeral_storage: "100Gi".to_owned(),
            pods: 1000,
            has_sim_api: false,
            adopts_marked_nodes: true,
            is_guarded: false,
            sim_objects: Arc::default(),
            stages: Arc::default(),
            labels: BTreeMap::new(),
            version: Minor::DEFAULT.programs().to_owned(),
            minor: Minor::DEFAULT,
            pod_network: Network { base: Ipv4Addr::new(10, 128, 0, 0), prefix: 9 },
            node_network: Network { base: Ipv4Addr::new(172, 30, 0, 0), prefix: 16 },
            missing_images: Vec::new(),
            programs: None,
            egress: Arc::default(),
            cri: None,
            cri_endpoint: None,
            delays: Delays::default(),
            events: true,
            registered: CancellationToken::new(),
            enforces_network_policies: true,
            api_server: None,
            identities: Identities::default(),
            metrics: Registry::new(),
            caches: CacheSet::default(),
        }
    }
}

impl Config {
    /// The configuration with no more pods on each node than it gets addresses for: the pod network is shared by all nodes.
    #[must_use]
    pub(crate) fn with_addresses_for_pods(self) -> Self {
        Self { pods: self.pods.min(self.pod_network.pods_of_each(self.nodes)), ..self }
    }

    /// The name of node `index`.
    pub fn node_name(&self, index: usize) -> String {
        format!("{}{index}", self.name_prefix)
    }
}

/// Default delays; all but `job` and `stop` are zero by default.
#[derive(Clone, Debug)]
pub struct Delays {
    /// Making a pod's network.
    pub sandbox: Delay,
    /// Pulling an image.
    pub pull: Delay,
    /// Creating a container.
    pub create: Delay,
    /// Starting a created container.
    pub start: Delay,
    /// From a container's start until it would pass a readiness probe.
    pub ready: Delay,
    /// From SIGTERM until a container exits.
    pub stop: Delay,
    /// How long containers of a Job's pod run before they exit with code zero. Other containers run for ever.
    pub job: Delay,
}

/// Default time that a container takes to end after SIGTERM: long enough for watchers to see the pod
/// Terminating, and short compared with the shortest grace period, one second.
const STOP: Duration = Duration::from_millis(300);

impl Default for Delays {
    fn default() -> Self {
        let zero = Delay::Fixed(Duration::ZERO);
        Self {
            sandbox: zero,
            pull: zero,
            create: zero,
            start: zero,
            ready: zero,
            stop: Delay::Fixed(STOP),
            job: Delay::Fixed(Duration::from_secs(1)),
        }
    }
}

/// An IPv4 network: a base address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The first address.
    pub base: Ipv4Addr,
    /// The number of fixed leading bits.
    pub prefix: u8,
}
