//! [`Builder`]: what a cluster consists of, and how it is started.

use crate::cluster::{Cluster, Parts};
use crate::faults::{Edge, Faults};
use crate::initial;
use crate::limits::CONNECTIONS;
use kstore_apiserver::authn::UserInfo;
use kstore_apiserver::outbound::{Network, Outbound, ServiceBackends};
use kstore_apiserver::storage::embedded::Embedded;
use kstore_apiserver::token::Tokens;
use kstore_apiserver::{
    ApiServer, InProcess, LocalComponents, Options, ServerImage, ServiceRanges, Settings,
};
use kstore_client::Client;
use kstore_client::manifest::ApplyError;
use kstore_controllers::Accounts;
use kstore_informer::metrics::Registry;
use kstore_kubelet_sim::{Handle, Identities, Simulator};
use kstore_nondet::Nondet;
use kstore_store::{Config, Store};
use std::sync::Arc;
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
    /// An object of [`Builder::apply`] was refused.
    #[error("the manifests of the builder cannot be applied: {0}")]
    Apply(#[from] ApplyError),
}

/// What a cluster begins with.
pub(crate) struct Origin<'i> {
    pub(crate) store: Store,
    /// What an API server has in memory of `store`; without it, the server reads and prepares the store.
    pub(crate) image: Option<&'i ServerImage>,
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// How many forks lie between the cluster and one that was started.
    pub(crate) generation: u64,
    pub(crate) faults: Option<Faults>,
}

/// A cluster that has not started yet. By default it has controllers, a scheduler and one simulated node, in real time.
#[derive(Clone, Debug)]
pub struct Builder {
    nodes: usize,
    controllers: bool,
    scheduler: bool,
    /// The seed of virtual time; `None`: real time.
    pub(crate) seed: Option<u64>,
    manifests: Vec<String>,
    faults: Option<Faults>,
}

impl Default for Builder {
    fn default() -> Self {
        Self { nodes: 1, controllers: true, scheduler: true, seed: None, manifests: Vec::new(), faults: None }
    }
}

impl Builder {
    /// Simulated nodes `node-0`, `node-1`, …. Without nodes, pods stay Pending.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Without controllers nothing acts on workloads, namespaces never end, and nothing is garbage collected.
    #[must_use]
    pub fn controllers(mut self, run: bool) -> Self {
        self.controllers = run;
        self
    }

    /// Without a scheduler, pods get a node only from the test.
    #[must_use]
    pub fn scheduler(mut self, run: bool) -> Self {
        self.scheduler = run;
        self
    }

    /// The API server alone: what envtest starts. The test writes statuses and deletes dependents itself.
    #[must_use]
    pub fn api_only(self) -> Self {
        self.nodes(0).controllers(false).scheduler(false)
    }

    /// The cluster's clock follows tokio's, beginning at 2026-01-01T00:00:00Z, and everything random follows from `seed`. With
    /// `#[tokio::test(start_paused = true)]` time passes only while every task waits: an hour takes as long as its work does, and the same seed
    /// gives the same revisions. No tokens of service accounts are issued: their keys would be random.
    #[must_use]
    pub fn virtual_time(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Faults that are in force after the manifests were applied; see [`Cluster::set_faults`] to change them later.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Objects that exist before the test begins, as YAML or JSON; see [`Cluster::apply`]. Call it once for each text.
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

    /// Starts the cluster on the current tokio runtime. On return the API serves every request, and all manifests are applied; nodes and
    /// controllers have only begun.
    ///
    /// # Panics
    /// If it cannot start; [`Self::try_start`] returns the error.
    pub async fn start(self) -> Cluster {
        self.try_start().await.unwrap_or_else(|error| panic!("the cluster cannot start: {error}"))
    }

    /// As [`Self::start`].
    ///
    /// # Errors
    /// If a manifest is refused, or the machine has no memory or randomness left. What had started has ended.
    pub async fn try_start(self) -> Result<Cluster, StartError> {
        let (manifests, faults) = (self.manifests.clone(), self.faults.clone());
        let image = initial::image(self.seed).await?;
        let cluster = image.start_as(self).await?;
        for manifest in &manifests {
            if let Err(error) = cluster.apply(manifest).await {
                cluster.stop().await;
                return Err(error.into());
            }
        }
        cluster.set_faults(faults);
        Ok(cluster)
    }

    /// An API server alone, in virtual time of this seed or in real time.
    pub(crate) fn bare(seed: Option<u64>) -> Self {
        Self { seed, ..Self::default().api_only() }
    }

    /// Starts the cluster over an empty store, in which the API server creates the initial objects. Applies no manifest.
    pub(crate) async fn start_empty(self) -> Result<Cluster, StartError> {
        let nondet = self.seed.map_or_else(Nondet::real, Nondet::simulated);
        let store = Store::open(Config::memory(), nondet.clone()).await?;
        let origin = Origin { store, image: None, tokens: None, generation: 0, faults: None };
        Ok(self.assemble(nondet, origin).await?)
    }

    /// Starts the parts of a cluster over a store. If it fails, or the future is dropped, everything that has started ends.
    pub(crate) async fn assemble(
        self,
        nondet: Nondet,
        origin: Origin<'_>,
    ) -> Result<Cluster, kstore_apiserver::StartError> {
        let Origin { store, image, tokens, generation, faults } = origin;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        // Until the cluster owns the token: every early return, and a caller that drops this future, ends what has started.
        let unfinished = stop.clone().drop_guard();
        tasks.spawn(close_when_stopped(store.clone(), stop.clone()));
        let options = self.options(&nondet, &stop, tokens.clone());
        let storage = Arc::new(Embedded::new(store.clone()));
        let spawn = |task| drop(tasks.spawn(task));
        let api = match image {
            None => ApiServer::start(storage, options, spawn).await?,
            Some(image) => ApiServer::start_from(image, storage, options, spawn).await?,
        };
        let edge = Edge::new(store.clone(), faults);
        let api = api.layered(|router| edge.layer(router));
        let metrics = Registry::new();
        let (simulator, nodes) = self.start_components((&api, &edge), &nondet, &metrics, &stop, &tasks);
        if self.nodes > 0 {
            tasks.spawn(simulator.run(stop.clone()));
        }
        unfinished.disarm();
        let parts = Parts {
            builder: self,
            nondet,
            api,
            edge,
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

    /// Starts controllers and scheduler; returns the nodes, which do not run yet.
    fn start_components(
        &self,
        (api, edge): (&ApiServer, &Edge),
        nondet: &Nondet,
        metrics: &Registry,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> (Simulator, Handle) {
        let client = |user: &str, group: Option<&str>, agent: &str| {
            client(&api.in_process(UserInfo::new(user, group)), edge, user, agent)
        };
        if self.controllers {
            let client = client("system:kube-controller-manager", None, "controllers");
            let accounts = accounts(api.clone(), edge.clone());
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
        let identities = node_identities(api.clone(), edge.clone());
        let config =
            kstore_kubelet_sim::Config { nodes: self.nodes, identities, metrics, ..Default::default() };
        let kubelet = client("system:kstore:kubelet-sim", Some("system:nodes"), "kubelet-sim");
        Simulator::new(kubelet, nondet.clone(), config)
    }

    fn options(&self, nondet: &Nondet, stop: &CancellationToken, tokens: Option<Arc<Tokens>>) -> Options {
        let outbound: Arc<dyn Outbound> = Arc::new(Network::new(ServiceBackends::default()));
        Options {
            nondet: nondet.clone(),
            stop: stop.clone(),
            // An address for documentation: a listener comes later, if at all.
            advertised: "192.0.2.1:6443".to_owned(),
            client_ca: None,
            front_proxy_ca: None,
            tokens,
            service_ranges: ServiceRanges::default(),
            local_components: LocalComponents {
                controllers: self.controllers,
                scheduler: self.scheduler,
                kubelets: self.nodes > 0,
            },
            anonymous: true,
            outbound,
            settings: Settings::default(),
            connections: CONNECTIONS,
        }
    }
}

/// Closes the store at the end of the cluster: the watch cache follows the store until then, and holds all its memory.
async fn close_when_stopped(store: Store, stop: CancellationToken) {
    stop.cancelled().await;
    store.close().await;
}

/// The clients of the nodes.
fn node_identities(api: ApiServer, edge: Edge) -> Identities {
    Identities::own(move |node| {
        let user = UserInfo::node(node);
        let name = user.username.clone();
        client(&api.in_process(user), &edge, &name, node)
    })
}

/// A client without a wire for the account of each controller.
fn accounts(api: ApiServer, edge: Edge) -> Accounts {
    Accounts::own(move |account| {
        let user = UserInfo::service_account("kube-system", account);
        let name = user.username.clone();
        client(&api.in_process(user), &edge, &name, account)
    })
}

/// A client without a wire: its watches share the memory of the watch cache.
pub(crate) fn client(service: &InProcess, edge: &Edge, user: &str, agent: &str) -> Client {
    let (feed, edge, user) = (service.clone(), edge.clone(), user.to_owned());
    Client::over(service.clone(), agent).with_feed(move |request| {
        let (edge, user, headers) = (edge.clone(), user.clone(), request.metadata().clone().into_headers());
        let opening = feed.watch(request);
        async move { edge.watch(&user, headers, opening).await }
    })
}

/// A new key for tokens of service accounts; `None` if the machine cannot make one.
pub(crate) fn tokens() -> Option<Tokens> {
    let key = rcgen::KeyPair::generate().ok()?;
    Tokens::new(&key.serialize_der()).ok()
}
