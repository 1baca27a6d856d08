//! What a simulated cluster looks like: how many nodes, how large, how fast. Per-pod behaviour is in `behavior`.

use crate::behavior::Delay;
use crate::identities::Identities;
use kstore_informer::metrics::Registry;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The simulated nodes. `Default` is what `kstore-server` runs: three equal nodes on which everything happens at once.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many nodes to register.
    pub nodes: usize,
    /// Node `i` is called `<name_prefix><i>`, counting from zero.
    pub name_prefix: String,
    /// CPU capacity of each node.
    pub cpu: String,
    /// Memory capacity of each node.
    pub memory: String,
    /// Local disk of each node.
    pub ephemeral_storage: String,
    /// Pods that fit on each node. Real kubelets default to 110; simulated pods cost little, so the default is 1000.
    pub pods: u32,
    /// Labels beside the well-known ones.
    pub labels: BTreeMap<String, String>,
    /// The kubelet version that nodes report.
    pub version: String,
    /// The network from which each node gets a slice for its pods, unless its Node object names one.
    pub pod_network: Network,
    /// The network from which nodes get their own addresses, in order.
    pub node_network: Network,
    /// How long things take where a pod's annotations do not say.
    pub delays: Delays,
    /// Whether the ordinary events (Pulling, Pulled, Created, Started, Killing) are recorded. Warnings always are.
    pub events: bool,
    /// The users that the nodes write as.
    pub identities: Identities,
    /// Where the figures of its caches are shown.
    pub metrics: Registry,
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
            labels: BTreeMap::new(),
            version: "v1.36.0".to_owned(),
            pod_network: Network { base: Ipv4Addr::new(10, 128, 0, 0), prefix: 9 },
            node_network: Network { base: Ipv4Addr::new(172, 30, 0, 0), prefix: 16 },
            delays: Delays::default(),
            events: true,
            identities: Identities::default(),
            metrics: Registry::new(),
        }
    }
}

impl Config {
    /// The name of node `index`.
    pub fn node_name(&self, index: usize) -> String {
        format!("{}{index}", self.name_prefix)
    }
}

/// How long things take; everything but `job` and `stop` is zero by default.
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
    /// How long a container of a Job's pod runs before it exits with code zero. Other containers run for ever.
    pub job: Delay,
}

/// How long a container that handles SIGTERM takes to end: long enough for watchers to see the pod Terminating, short
/// beside every grace period, whose least is a second.
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
    /// How many leading bits are fixed.
    pub prefix: u8,
}
