//! [`Setup`]: what a simulated cluster of a test consists of.

use crate::backing_store::Storage;
use kstore_api::version::Minor;
use kstore_controllers::UnusedTokenPeriod;
use kstore_registry::service_ranges::ServiceRanges;

/// Configuration of a simulated cluster.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of all randomness.
    pub seed: u64,
    /// Which loops run.
    pub loops: Loops,
    /// Configuration of the simulated nodes.
    pub kubelets: kstore_kubelet_sim::Config,
    /// Storage below the apiserver.
    pub storage: Storage,
    /// Networks of Service addresses.
    pub service_ranges: ServiceRanges,
    /// Address blocks from which controllers assign.
    pub networks: kstore_controllers::Networks,
    /// Time without use after which service account tokens are invalidated.
    pub unused_tokens: UnusedTokenPeriod,
    /// Whether components panic: the scheduler at its first bind, the simulated nodes at their first patch,
    /// and the controllers while both pause.
    pub panics: bool,
    /// Whether the seed also permutes the order of ready tasks.
    pub is_permuted: bool,
    /// Whether webhooks are called over this machine's network instead of [`Cluster::webhooks`](crate::Cluster::webhooks), and service
    /// account tokens are signed with a random key. Only in real time, see [`in_real_time`](crate::in_real_time).
    pub network: bool,
    /// Whether the API server has a certificate, so that simulated pods reach it.
    pub has_certificate: bool,
    /// Whether the cluster may start with the initial objects that another one with this seed has created.
    pub shares_initial_objects: bool,
    /// Admission plugins that run in addition to the default ones.
    pub plugins: Vec<&'static str>,
    /// Whether objects that cannot be read are reported, and may be deleted.
    pub unsafe_deletion: bool,
    /// The version of Kubernetes whose API is served.
    pub minor: Minor,
    /// Whether PodGroups and Workloads are served, and gangs scheduled.
    pub gangs: bool,
}

/// Environment variable with the version of Kubernetes of simulated clusters, such as 1.34.
pub const KUBERNETES: &str = "KSTORE_TEST_KUBERNETES";

/// The version that the environment names, or the default.
///
/// # Panics
///
/// The variable names no version that is served.
fn version_from_environment() -> Minor {
    match std::env::var(KUBERNETES) {
        Err(_) => Minor::DEFAULT,
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{KUBERNETES}: {error}")),
    }
}

/// Which loops run beside the apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loops {
    /// Controllers, scheduler and kubelets.
    All,
    /// Only controllers.
    Controllers,
    /// None; the API alone.
    None,
}

impl Setup {
    /// All components, with three nodes.
    pub fn seed(seed: u64) -> Self {
        let (kubelets, storage) = (kstore_kubelet_sim::Config::default(), Storage::from_environment());
        let service_ranges = ServiceRanges::default();
        let (panics, is_permuted, network) = (false, false, false);
        let (loops, networks) = (Loops::All, kstore_controllers::Networks::default());
        Self {
            seed,
            loops,
            kubelets,
            storage,
            service_ranges,
            networks,
            unused_tokens: UnusedTokenPeriod::default(),
            panics,
            is_permuted,
            network,
            has_certificate: false,
            shares_initial_objects: true,
            plugins: Vec::new(),
            unsafe_deletion: false,
            minor: version_from_environment(),
            gangs: false,
        }
    }

    /// The API alone.
    pub fn api_alone() -> Self {
        Self { loops: Loops::None, ..Self::seed(1) }
    }

    /// The API and controllers, without scheduler and nodes: pods are created and stay pending.
    pub fn controllers() -> Self {
        Self { loops: Loops::Controllers, ..Self::seed(1) }
    }

    /// Selects a storage and ignores the environment variable for it.
    #[must_use]
    pub fn on(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Sets the networks of Service addresses.
    #[must_use]
    pub fn service_ranges(mut self, ranges: &str) -> Self {
        self.service_ranges = ranges.parse().expect("ranges that a cluster can have");
        self
    }

    /// Enables one panic in each component.
    #[must_use]
    pub fn panics(mut self) -> Self {
        self.panics = true;
        self
    }

    /// Permutes the order in which tasks run. Equal seeds give equal permutations.
    #[must_use]
    pub fn permuted(mut self) -> Self {
        self.is_permuted = true;
        self
    }

    /// Enables webhooks over this machine's network, and a key for tokens.
    #[must_use]
    pub fn network(mut self) -> Self {
        self.network = true;
        self
    }

    /// Lets simulated pods reach the API server, and gives tokens a key.
    #[must_use]
    pub fn certificate(mut self) -> Self {
        (self.has_certificate, self.network) = (true, true);
        self
    }

    /// Enables admission plugins that are off by default.
    #[must_use]
    pub fn plugins(mut self, plugins: &[&'static str]) -> Self {
        self.plugins = plugins.to_vec();
        self
    }

    /// Enables the deletion of objects that cannot be read.
    #[must_use]
    pub fn unsafe_deletion(mut self) -> Self {
        self.unsafe_deletion = true;
        self
    }

    /// Serves the API of a version of Kubernetes.
    #[must_use]
    pub fn kubernetes(mut self, minor: Minor) -> Self {
        self.minor = minor;
        self
    }

    /// Serves PodGroups and Workloads, and schedules gangs.
    #[must_use]
    pub fn gangs(mut self) -> Self {
        self.gangs = true;
        self
    }

    /// Lets the cluster create its initial objects itself, in an empty store.
    #[must_use]
    pub fn creates_initial_objects(mut self) -> Self {
        self.shares_initial_objects = false;
        self
    }

    /// Sets the number of nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.kubelets.nodes = nodes;
        self
    }
}
