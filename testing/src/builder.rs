//! The start of the components of a cluster that a [`Builder`] describes, over a store.

use crate::client::client;
use crate::cluster::{Cluster, Parts};
use crate::components::Builder;
use crate::faults::{FaultInjector, Faults};
use crate::limits::CONNECTIONS;
use crate::schedule::Schedule;
use crate::server_config::{local_components, server_config};
use kstore_access::token::Tokens;
use kstore_apiserver::config::{AccessConfig, NetworkConfig};
use kstore_apiserver::{ApiServer, ServerConfig, ServerImage};
use kstore_client::manifest::ApplyError;
use kstore_controllers::Accounts;
use kstore_informer::metrics::Registry;
use kstore_kubelet_sim::{Handle, Identities, Simulator};
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::embedded::Embedded;
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

impl Builder {
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
