//! [`Builder`]: the choice of a cluster's components.

use crate::faults::Faults;
use kstore_api::kind::OptIn;
use kstore_api::version::Minor;
use kstore_cluster::SchedulerSettings;
use std::time::Duration;

/// A cluster that has not started yet. By default it has controllers, a scheduler and one simulated node, in real time.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) nodes: usize,
    /// Patterns of images that do not exist.
    pub(crate) missing_images: Vec<String>,
    pub(crate) controllers: bool,
    pub(crate) scheduler: bool,
    /// The KubeSchedulerConfiguration of the scheduler; `None`: the default one.
    pub(crate) scheduler_file: Option<String>,
    /// The scheduler of this file.
    pub(crate) scheduler_settings: SchedulerSettings,
    /// The seed of virtual time; `None`: real time.
    pub(crate) seed: Option<u64>,
    /// Whether the seed also permutes the order of ready tasks.
    pub(crate) is_permuted: bool,
    /// How long history is kept; `None`: as long as it has no more than [`kstore_cluster::SHORT_LIVED_HISTORY_BYTES`].
    pub(crate) history: Option<Duration>,
    pub(crate) manifests: Vec<String>,
    pub(crate) faults: Option<Faults>,
    /// The version of Kubernetes whose API is served.
    pub(crate) version: Minor,
    /// Optional APIs that the server serves.
    pub(crate) apis: Vec<String>,
    /// The optional APIs of these names.
    pub(crate) opt_in: OptIn,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            nodes: 1,
            missing_images: Vec::new(),
            controllers: true,
            scheduler: true,
            scheduler_file: None,
            scheduler_settings: SchedulerSettings::default(),
            seed: None,
            is_permuted: false,
            history: None,
            manifests: Vec::new(),
            faults: None,
            version: Minor::DEFAULT,
            apis: Vec::new(),
            opt_in: OptIn::default(),
        }
    }
}

impl Builder {
    /// Sets the number of simulated nodes, which are named `node-0`, `node-1`, …. Without nodes, pods stay Pending.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Serves the API of a version of Kubernetes other than the default: its kinds, fields, feature gates and documents. Clusters of one
    /// process may have different versions.
    #[must_use]
    pub fn kubernetes(mut self, version: Minor) -> Self {
        self.version = version;
        self
    }

    /// Lets the pulls of all images that match `pattern` fail, as those of a name that does not exist: `ErrImagePull`, then
    /// `ImagePullBackOff`. `*` is any text, `?` one character; the image is compared as written and with its full name. May be called
    /// several times.
    #[must_use]
    pub fn missing_image(mut self, pattern: impl Into<String>) -> Self {
        self.missing_images.push(pattern.into());
        self
    }

    /// Sets whether controllers run. Without them, workloads get no pods, deleted namespaces stay Terminating, and there is no garbage
    /// collection.
    #[must_use]
    pub fn controllers(mut self, run: bool) -> Self {
        self.controllers = run;
        self
    }

    /// Sets whether the scheduler runs. Without it, only the test can bind pods to nodes.
    #[must_use]
    pub fn scheduler(mut self, run: bool) -> Self {
        self.scheduler = run;
        self
    }

    /// Sets the scheduler's profiles, plugins and their arguments: the text of a KubeSchedulerConfiguration, in YAML or JSON. The start
    /// fails if the scheduler refuses it.
    #[must_use]
    pub fn scheduler_config(mut self, text: impl Into<String>) -> Self {
        self.scheduler_file = Some(text.into());
        self
    }

    /// Selects the API server alone, as envtest does. The test must write statuses and delete dependents itself.
    #[must_use]
    pub fn api_only(self) -> Self {
        self.nodes(0).controllers(false).scheduler(false)
    }

    /// Selects virtual time: the cluster's clock starts at 2026-01-01T00:00:00Z and follows tokio's clock, and all random values follow
    /// from `seed`. With `#[tokio::test(start_paused = true)]`, time passes only while every task waits. An hour then takes only as long as
    /// its work, and the same seed gives the same revisions. Service account tokens are not issued, because their keys would be random.
    #[must_use]
    pub fn virtual_time(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Lets the seed of [`Self::virtual_time`] also permute the order in which ready tasks of the cluster run: its components pause for
    /// random turns, and rarely for milliseconds of virtual time, around requests, watch deliveries, reads and commits. Each seed then
    /// tries another interleaving, and repeats it exactly. [`ClusterImage::start_with_seed`](crate::ClusterImage::start_with_seed) tries
    /// many at low cost. Without effect in real time.
    #[must_use]
    pub fn permuted_tasks(mut self) -> Self {
        self.is_permuted = true;
        self
    }

    /// Compacts history that is older than `kept`, as `kstore-server` does; at most twice as much is kept. By default 128 MiB of
    /// history are kept, so that the memory of a cluster grows with its first writes, also of heartbeats.
    #[must_use]
    pub fn history(mut self, kept: Duration) -> Self {
        self.history = Some(kept);
        self
    }

    /// Injects faults after the manifests are applied. [`Cluster::set_faults`](crate::Cluster::set_faults) changes them later.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Serves an API that is off by default, as with kube-apiserver's flag `--runtime-config`: a group and version such as
    /// `certificates.k8s.io/v1beta1`. The feature gates of its kinds are on: with `scheduling.k8s.io/v1beta1`, the scheduler schedules
    /// gangs. Several calls add up.
    #[must_use]
    pub fn optional_api(mut self, name: &str) -> Self {
        self.apis.push(name.to_owned());
        self
    }

    /// Applies objects, as YAML or JSON, before the start returns; see [`Cluster::apply`](crate::Cluster::apply). Several calls add up.
    #[must_use]
    pub fn apply(mut self, manifest: &str) -> Self {
        self.manifests.push(manifest.to_owned());
        self
    }
}
