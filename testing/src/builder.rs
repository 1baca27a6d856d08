//! [`Builder`]: chooses the components of a cluster and starts it.

use crate::cluster::{Cluster, Parts};
use crate::faults::{FaultInjector, Faults};
use crate::initial;
use crate::limits::CONNECTIONS;
use crate::schedule::Schedule;
use crate::server_config::{local_components, server_config};
use kstore_api::kind::OptIn;
use kstore_apiserver::authn::UserInfo;
use kstore_apiserver::config::{AccessConfig, NetworkConfig};
use kstore_apiserver::storage::embedded::Embedded;
use kstore_apiserver::token::Tokens;
use kstore_apiserver::{ApiServer, InProcess, ServerConfig, ServerImage};
use kstore_client::Client;
use kstore_client::manifest::ApplyError;
use kstore_controllers::Accounts;
use kstore_informer::metrics::Registry;
use kstore_kubelet_sim::{Handle, Identities, Simulator};
use kstore_nondet::Nondet;
use kstore_store::{Config, Revision, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store did not open.
    #[error("the store cannot be opened: {0}")]
    Store(#[from] kstore_store::OpenError),
    /// The API server did not start.
    #[error(transparent)]
    ApiServer(#[from] kstore_apiserver::StartError),
    /// A name of [`Builder::optional_api`] stands for no API.
    #[error(transparent)]
    Api(#[from] kstore_api::kind::opt_in::UnknownApi),
    /// An object of [`Builder::apply`] was refused.
    #[error("the manifests of the builder cannot be applied: {0}")]
    Apply(#[from] ApplyError),
}

/// State from which a cluster starts: a store and, for a start from an image, the state of the API server in that image.
pub(crate) struct ClusterOrigin<'i> {
    pub(crate) store: Store,
    /// In-memory state of an API server over `store`; `None`: the server reads the store and creates the initial objects.
    pub(crate) image: Option<&'i ServerImage>,
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// Number of forks between the cluster and an original one; 0: it is no fork.
    pub(crate) generation: u64,
    pub(crate) faults: Option<Faults>,
}

/// A cluster that has not started yet. By default it has controllers, a scheduler and one simulated node, in real time.
#[derive(Clone, Debug)]
pub struct Builder {
    nodes: usize,
    /// Patterns of images that do not exist.
    missing_images: Vec<String>,
    controllers: bool,
    scheduler: bool,
    /// The seed of virtual time; `None`: real time.
    pub(crate) seed: Option<u64>,
    /// Whether the seed also permutes the order of ready tasks.
    is_permuted: bool,
    /// How long history is kept; `None`: for ever.
    history: Option<Duration>,
    manifests: Vec<String>,
    faults: Option<Faults>,
    /// Optional APIs that the server serves.
    apis: Vec<String>,
    /// The optional APIs of these names.
    opt_in: OptIn,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            nodes: 1,
            missing_images: Vec::new(),
            controllers: true,
            scheduler: true,
            seed: None,
            is_permuted: false,
            history: None,
            manifests: Vec::new(),
            faults: None,
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

    /// Selects the API server alone, as envtest does. The test must write statuses and delete dependents itself.
    #[must_use]
    pub fn api_only(self) -> Self {
        self.nodes(0).controllers(false).scheduler(false)
    }

    /// Selects virtual time: the cluster's clock starts at 2026-01-01T00:00:00Z and follows tokio's clock, and all random values follow from
    /// `seed`. With `#[tokio::test(start_paused = true)]`, time passes only while every task waits. An hour then takes only as long as its
    /// work, and the same seed gives the same revisions. Service account tokens are not issued, because their keys would be random.
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

    /// Compacts history that is older than `kept`, as `kstore-server` does; at most twice as much is kept. By default all history is kept,
    /// so that the memory of a cluster grows with every write, also of heartbeats.
    #[must_use]
    pub fn history(mut self, kept: Duration) -> Self {
        self.history = Some(kept);
        self
    }

    /// Injects faults after the manifests are applied. [`Cluster::set_faults`] changes them later.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Serves an API that is off by default, as with kube-apiserver's flag `--runtime-config`: a group and version such as
    /// `certificates.k8s.io/v1beta1`. The feature gates of its kinds are on. Several calls add up.
    #[must_use]
    pub fn optional_api(mut self, name: &str) -> Self {
        self.apis.push(name.to_owned());
        self
    }

    /// Applies objects, as YAML or JSON, before the start returns; see [`Cluster::apply`]. Several calls add up.
    #[must_use]
    pub fn apply(mut self, manifest: &str) -> Self {
        self.manifests.push(manifest.to_owned());
        self
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes
    }

    pub(crate) fn has_scheduler(&self) -> bool {
        self.scheduler
    }

    /// Whether anything but the API server runs.
    pub(crate) fn has_components(&self) -> bool {
        self.controllers || self.scheduler || self.nodes > 0
    }

    /// Starts the cluster on the current tokio runtime. On return the API serves requests and all manifests are applied; nodes and
    /// controllers may still be starting.
    ///
    /// # Panics
    /// If it cannot start; [`Self::try_start`] returns the error.
    pub async fn start(self) -> Cluster {
        self.try_start().await.unwrap_or_else(|error| panic!("the cluster cannot start: {error}"))
    }

    /// Starts the cluster like [`Self::start`], but returns the error.
    ///
    /// # Errors
    /// The API server refuses a manifest, or the store or the API server cannot start. Everything that had started is stopped.
    pub async fn try_start(self) -> Result<Cluster, StartError> {
        let (manifests, faults) = (self.manifests.clone(), self.faults.clone());
        let opt_in = OptIn::apis(self.apis.iter().map(String::as_str))?;
        let builder = Self { opt_in, ..self };
        // The shared image has no optional kinds.
        let cluster = match builder.apis.is_empty() {
            true => initial::image(builder.seed).await?.start_as(builder).await?,
            false => builder.start_empty().await?,
        };
        for manifest in &manifests {
            if let Err(error) = cluster.apply(manifest).await {
                cluster.stop().await;
                return Err(error.into());
            }
        }
        cluster.set_faults(faults);
        Ok(cluster)
    }

    /// A builder of an API server alone, in virtual time with this seed or in real time.
    pub(crate) fn bare(seed: Option<u64>) -> Self {
        Self { seed, ..Self::default().api_only() }
    }

    /// Starts the cluster with an empty store, in which the API server creates the initial objects. Does not apply manifests.
    pub(crate) async fn start_empty(self) -> Result<Cluster, StartError> {
        let nondet = self.seed.map_or_else(Nondet::real, Nondet::simulated);
        let store = Store::open(Config::memory(), nondet.clone()).await?;
        let origin = ClusterOrigin { store, image: None, tokens: None, generation: 0, faults: None };
        Ok(self.assemble(nondet, origin).await?)
    }

    /// Starts the components of a cluster over a store. On failure, or if the caller drops the future, all started components end.
    pub(crate) async fn assemble(
        self,
        nondet: Nondet,
        origin: ClusterOrigin<'_>,
    ) -> Result<Cluster, kstore_apiserver::StartError> {
        let ClusterOrigin { store, image, tokens, generation, faults } = origin;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        // Stops the started tasks on every early return and if the caller drops this future, until the cluster owns the token.
        let unfinished = stop.clone().drop_guard();
        tasks.spawn(close_when_stopped(store.clone(), stop.clone()));
        let config = self.server_config(&nondet, &stop, tokens.clone());
        if let Some(kept) = self.history {
            tasks.spawn(compact_history(store.clone(), kept, stop.clone()));
        }
        let schedule = match self.is_permuted && self.seed.is_some() {
            true => Schedule::permuted(nondet.rng.fork("schedule")),
            false => Schedule::fifo(),
        };
        let storage = schedule.storage(Arc::new(Embedded::new(store.clone())));
        let spawn = |task| drop(tasks.spawn(task));
        let api = match image {
            None => ApiServer::start(storage, config, spawn).await?,
            Some(image) => ApiServer::start_from(image, storage, config, spawn).await?,
        };
        let injector = FaultInjector::new(store.clone(), faults);
        let api = api.layered(|router| injector.layer(router));
        let metrics = Registry::new();
        let access = Access { api: &api, injector: &injector, schedule: &schedule };
        let (simulator, nodes) = self.start_components(access, &nondet, &metrics, &stop, &tasks);
        if self.nodes > 0 {
            tasks.spawn(simulator.run(stop.clone()));
        }
        unfinished.disarm();
        let parts = Parts {
            builder: self,
            nondet,
            api,
            injector,
            schedule,
            nodes,
            store,
            tokens,
            generation,
            metrics,
            stop,
            tasks,
        };
        Ok(Cluster::new(parts))
    }

    /// Starts controllers and scheduler, and returns the simulator of the nodes, which the caller starts.
    fn start_components(
        &self,
        access: Access<'_>,
        nondet: &Nondet,
        metrics: &Registry,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> (Simulator, Handle) {
        let Access { api, injector, schedule } = access;
        let client = |user: &str, group: Option<&str>, agent: &str| {
            client(&api.in_process(UserInfo::new(user, group)), (injector, schedule), user, agent)
        };
        if self.controllers {
            let client = client("system:kube-controller-manager", None, "controllers");
            let accounts = accounts(api.clone(), injector.clone(), schedule.clone());
            let metrics = metrics.clone();
            let config = kstore_controllers::Config { accounts, metrics, ..Default::default() };
            tasks.spawn(kstore_controllers::run(client, nondet.clone(), config, stop.clone()));
        }
        if self.scheduler {
            let client = client("system:kube-scheduler", None, "scheduler");
            let config = kstore_scheduler::Config { metrics: metrics.clone(), ..Default::default() };
            tasks.spawn(kstore_scheduler::run(client, nondet.clone(), config, stop.clone()));
        }
        let metrics = metrics.clone();
        let identities = node_identities(api.clone(), injector.clone(), schedule.clone());
        let (nodes, missing_images) = (self.nodes, self.missing_images.clone());
        let config =
            kstore_kubelet_sim::Config { nodes, missing_images, identities, metrics, ..Default::default() };
        let kubelet = client("system:kstore:kubelet-sim", Some("system:nodes"), "kubelet-sim");
        Simulator::new(kubelet, nondet.clone(), config)
    }

    /// The API server's configuration.
    fn server_config(
        &self,
        nondet: &Nondet,
        stop: &CancellationToken,
        tokens: Option<Arc<Tokens>>,
    ) -> ServerConfig {
        let config = server_config(nondet, stop, local_components(self.controllers, self.nodes > 0));
        ServerConfig {
            network: NetworkConfig { connections: CONNECTIONS, ..config.network },
            access: AccessConfig { tokens, ..config.access },
            opt_in: self.opt_in.clone(),
            ..config
        }
    }
}

/// Closes the store when the cluster stops. The watch cache watches the store, and keeps it in memory, until the store is closed.
async fn close_when_stopped(store: Store, stop: CancellationToken) {
    stop.cancelled().await;
    store.close().await;
}

/// In-process API clients of the simulated nodes, each with its node's identity.
fn node_identities(api: ApiServer, injector: FaultInjector, schedule: Schedule) -> Identities {
    Identities::own(move |node| {
        let user = UserInfo::node(node);
        let name = user.username.clone();
        client(&api.in_process(user), (&injector, &schedule), &name, node)
    })
}

/// In-process API clients of the controllers, each with its own service account.
fn accounts(api: ApiServer, injector: FaultInjector, schedule: Schedule) -> Accounts {
    Accounts::own(move |account| {
        let user = UserInfo::service_account("kube-system", account);
        let name = user.username.clone();
        client(&api.in_process(user), (&injector, &schedule), &name, account)
    })
}

/// The ways of clients to the API: its server, injected faults and the order of tasks.
#[derive(Clone, Copy)]
struct Access<'a> {
    api: &'a ApiServer,
    injector: &'a FaultInjector,
    schedule: &'a Schedule,
}

/// An in-process API client, whose watches share the memory of the watch cache.
pub(crate) fn client(
    service: &InProcess,
    (injector, schedule): (&FaultInjector, &Schedule),
    user: &str,
    agent: &str,
) -> Client {
    let (feed, injector, user) = (service.clone(), injector.clone(), user.to_owned());
    let transport = match schedule.is_fifo() {
        true => Client::over(service.clone(), agent),
        false => Client::over(schedule.service(service.clone()), agent),
    };
    let schedule = schedule.clone();
    transport.with_feed(move |request| {
        let (injector, user, headers) =
            (injector.clone(), user.clone(), request.metadata().clone().into_headers());
        let (opening, schedule) = (feed.watch(request), schedule.clone());
        async move { Ok(schedule.stream(injector.watch(&user, headers, opening).await?)) }
    })
}

/// Compacts history that is older than `kept`, until the cluster stops. The states before the newest revision stay readable.
async fn compact_history(store: Store, kept: Duration, stop: CancellationToken) {
    let mut past = store.revision();
    while stop.run_until_cancelled(tokio::time::sleep(kept)).await.is_some() {
        let now = store.revision();
        let compacted = Revision(past.0.min(now.0.saturating_sub(1)));
        if compacted > store.compacted() {
            // Fails only if the store has closed, with the cluster.
            let _ = store.compact(compacted).await;
        }
        past = now;
    }
}

/// A new signing key for service account tokens; `None` if key generation fails.
pub(crate) fn tokens() -> Option<Tokens> {
    let key = rcgen::KeyPair::generate().ok()?;
    Tokens::new(&key.serialize_der()).ok()
}
