//! [`ControlPlane`]: a running control plane, and its assembly in the order in which the parts need each other.

use crate::attempts::LocalAttempts;
use crate::clients::Clients;
use crate::component::{Component, candidate, nodes_elector};
use crate::config::{ClusterConfig, ComponentCaches, Components};
use crate::phase::{Phase, Phases};
use crate::retention;
use crate::schedule::Schedule;
use crate::storage::Storage;
use crate::store_size;
use kstore_api::gate::GateSet;
use kstore_api::version::Minor;
use kstore_apiserver::{ApiServer, InProcess, ServerConfig, ServerImage};
use kstore_client::manifest::ManifestObject;
use kstore_client::{Client, ClientLease};
use kstore_controllers::Accounts;
use kstore_informer::metrics::Registry;
use kstore_informer::{Elector, ElectorOptions, Leadership};
use kstore_kubelet_sim::{ApiServerListener, Handle, Identities, Simulator};
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use kstore_scheduler::attempt::AttemptLog;
use kstore_storage::storage::SharedStorage;
use kstore_store::{NoSpaceReason, OpenError, Store};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// Host name in the identity of a candidate for a Lease if [`ClusterConfig::host`] is none.
const UNKNOWN_HOST: &str = "localhost";

/// The candidate for the Lease of simulated nodes in the process of an embedded store.
const OWN_NODES: &str = "embedded-store";
/// Duration of [`OWN_NODES`]' Lease without a renewal. It is long, since the API server ends with that process, so that no other process
/// waits for the Lease to end, and a machine that stands still for a while ends no simulation.
const OWN_NODES_LEASE: Duration = Duration::from_secs(60);
/// After this time without a renewal its nodes stop.
const OWN_NODES_RENEWAL: Duration = Duration::from_secs(45);
/// From one renewal to the next.
const OWN_NODES_RETRY: Duration = Duration::from_secs(5);

/// A control plane that starts.
// Boxed: the code of an async function is generated where it is awaited, so every program would compile the assembly again.
pub type Starting<'a> = Pin<Box<dyn Future<Output = Result<ControlPlane, StartError>> + Send + 'a>>;

/// Why a control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store did not open.
    #[error("the store cannot be opened: {0}")]
    Store(#[from] OpenError),
    /// The API server did not start.
    #[error(transparent)]
    ApiServer(#[from] kstore_apiserver::StartError),
}

/// A running control plane. It ends with [`ControlPlane::end`], in order, or when it is dropped, at once.
pub struct ControlPlane {
    clients: Clients,
    /// The API server without the middleware's layer.
    unlayered: ApiServer,
    store: Option<Store>,
    nondet: Nondet,
    metrics: Registry,
    phases: Phases,
    host: Option<String>,
    elects_leaders: bool,
    elects_nodes: bool,
    has_node_users: bool,
    /// The version of Kubernetes that the API server serves, and its feature gates.
    minor: Minor,
    gates: GateSet,
    /// The components that have not started.
    waiting: Components,
    running: RunningComponents,
    nodes: Handle,
    /// The caches of the components, perhaps from an image.
    caches: ComponentCaches,
    /// What the scheduler says about its attempts.
    attempts: AttemptLog,
    /// Number of images between this control plane and an original one; 0: it started from no image.
    generation: u64,
}

/// The components that run in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningComponents {
    pub(crate) controllers: bool,
    pub(crate) scheduler: bool,
    /// Number of simulated nodes.
    pub(crate) nodes: usize,
    node_prefix: String,
}

impl RunningComponents {
    pub(crate) fn is_any(&self) -> bool {
        self.controllers || self.scheduler || self.nodes > 0
    }

    pub(crate) fn node_names(&self) -> impl Iterator<Item = String> {
        (0..self.nodes).map(|nth| format!("{}{nth}", self.node_prefix))
    }
}

/// The state from which an API server starts.
#[derive(Clone, Default)]
pub(crate) struct Origin<'i> {
    /// The memory of another API server over a copy of its storage; `None`: the server reads the storage and creates the initial objects.
    pub(crate) image: Option<&'i ServerImage>,
    /// The caches with which the components start.
    pub(crate) caches: ComponentCaches,
    /// What a scheduler has recorded about the pods in the image.
    pub(crate) attempts: AttemptLog,
    pub(crate) generation: u64,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = self.store.as_ref().map(Store::revision);
        f.debug_struct("ControlPlane").field("revision", &revision).finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts storage and API server. On failure, or if the caller drops the future, all started tasks end.
    pub(crate) async fn assemble(
        origin: Origin<'_>,
        mut server: ServerConfig,
        config: ClusterConfig,
    ) -> Result<Self, StartError> {
        let ClusterConfig { storage, retention, components, middleware, metrics, phases, .. } = config;
        let unfinished = phases.drop_guard();
        let nondet = server.nondet.clone();
        let (storage, store) = storage.open(&nondet, config.explains_no_space).await?;
        if let Some(store) = &store {
            retention::keep_store(store, retention, nondet.clock, &metrics, &phases.core);
        }
        let schedule = match config.permutes_tasks {
            true => Schedule::permuted(nondet.rng.fork("schedule")),
            false => Schedule::fifo(),
        };
        server.stop = phases.listeners.stop();
        server.local_components = components.local();
        // Of another control plane only through an image: others with the same configuration have other pods.
        let has_attempts = components.scheduler.is_some() || !origin.attempts.is_empty();
        let attempts = has_attempts.then_some(origin.attempts);
        server.attempts = attempts.clone().map(|log| Arc::new(LocalAttempts(log)) as _);
        let (minor, gates) = (server.opt_in.minor(), server.opt_in.gates());
        let has_node_users = server.access.authorization.current().judge_nodes();
        let unlayered = start_server(schedule.storage(storage), server, origin.image, &phases.core).await?;
        let api = unlayered.clone().layered(|router| middleware.layer(router, store.as_ref()));
        let (shown, sized) = (metrics.clone(), store.clone());
        api.pipeline().metrics().append(move |page| {
            shown.render(page);
            sized.iter().for_each(|store| store_size::render(page, store.size()));
        });
        if let Some(host) = &config.host {
            let (identity, host) = (api.clone(), host.clone());
            phases.listeners.supervise("identity", &metrics, move |_| identity.keep_identity(host.clone()));
        }
        unfinished.disarm();
        Ok(Self {
            clients: Clients { api, middleware, schedule },
            unlayered,
            store,
            nondet,
            metrics,
            phases,
            host: config.host,
            elects_leaders: config.elects_leaders,
            elects_nodes: config.elects_nodes,
            has_node_users,
            minor,
            gates,
            waiting: components,
            running: RunningComponents::default(),
            nodes: Handle::ended(),
            caches: origin.caches,
            attempts: attempts.unwrap_or_default(),
            generation: origin.generation,
        })
    }

    /// Starts the components of the configuration that do not run yet, as clients of the API server.
    pub fn run_components(&mut self) {
        let (scheduler, nodes) = (self.waiting.scheduler.take(), self.waiting.nodes.take());
        if let Some(component) = self.take_controllers() {
            self.run(component);
        }
        if let Some(config) = scheduler {
            self.running.scheduler = true;
            self.run(self.scheduler(*config));
        }
        if let Some(config) = nodes {
            self.run_nodes(*config);
        }
    }

    /// The controllers as clients of this API server, each with its own service account.
    fn controllers(&self, config: kstore_controllers::Config) -> Component {
        let (accounts, metrics) = (self.accounts(), self.metrics.clone());
        let caches = self.caches.controllers.clone();
        let (minor, gates) = (self.minor, self.gates);
        let config = kstore_controllers::Config { accounts, metrics, caches, minor, gates, ..config };
        let user = UserInfo::new("system:kube-controller-manager", None::<&str>);
        Component::controllers(config, self.client(user, "controllers"), &self.nondet)
    }

    /// The scheduler as a client of this API server.
    fn scheduler(&self, config: kstore_scheduler::Config) -> Component {
        let (metrics, caches) = (self.metrics.clone(), self.caches.scheduler.clone());
        let (attempts, minor) = (self.attempts.clone(), self.minor);
        let config = kstore_scheduler::Config { metrics, caches, attempts, minor, ..config };
        let user = UserInfo::new("system:kube-scheduler", None::<&str>);
        Component::scheduler(config, self.client(user, "scheduler"), &self.nondet)
    }

    /// Runs controllers or scheduler until the loops end.
    fn run(&self, component: Component) {
        let elector = self.elects_leaders.then(|| {
            let host = self.host.as_deref().unwrap_or(UNKNOWN_HOST);
            let client = component.client().agent("leader-election");
            component.elector(&client, &candidate(host, &self.nondet), &self.metrics)
        });
        component.start(elector.flatten(), &self.phases.loops);
    }

    /// Runs the simulated nodes until the loops end.
    fn run_nodes(&mut self, config: kstore_kubelet_sim::Config) {
        const NAME: &str = "kubelet-sim";
        self.running.nodes = config.nodes;
        self.running.node_prefix.clone_from(&config.name_prefix);
        let identities = match self.has_node_users {
            true => self.clients.node_identities(),
            false => Identities::shared(),
        };
        let (metrics, caches) = (self.metrics.clone(), self.caches.nodes.clone());
        let api_server = self.api().stream_listener().map(|listener| {
            ApiServerListener::new(move |stream| {
                let client = stream.peer();
                listener.serve(Box::new(stream), client)
            })
        });
        let services = self.api().pipeline().registry().service_ranges().cidrs();
        let services: Vec<_> = services.iter().filter_map(|network| network.parse().ok()).collect();
        let egress = Arc::new(kstore_kubelet_sim::egress::Egress::clone(&config.egress).within(services));
        let config = kstore_kubelet_sim::Config { identities, metrics, caches, api_server, egress, ..config };
        let config = config.of_release(self.minor);
        let client = self.client(UserInfo::new("system:kstore:kubelet-sim", ["system:nodes"]), NAME);
        let simulation = config.has_sim_api.then(|| {
            let admin = UserInfo::new("system:kstore:nodes-file", ["system:masters"]);
            (self.client(admin, "nodes-file"), Arc::clone(&config.sim_objects))
        });
        let elector = (self.elects_nodes && config.has_sim_api).then(|| self.nodes_elector());
        let has_stages = !config.stages.is_empty();
        let (mut simulator, handle) = Simulator::new(client, self.nondet.clone(), config);
        if has_stages {
            let admin = UserInfo::new("system:kstore:stages", ["system:masters"]);
            simulator = simulator.with_stage_client(self.client(admin, "stages"));
        }
        self.nodes = handle;
        info!(component = NAME, elects = elector.is_some(), "component started");
        if let Some((client, objects)) = simulation {
            let stop = self.phases.loops.stop();
            self.phases.loops.spawn("sim-api", async move { install(&client, &objects, &stop).await });
        }
        let stop = self.phases.loops.stop();
        let Some(elector) = elector else { return self.phases.loops.spawn(NAME, simulator.run(stop)) };
        self.phases.loops.spawn(NAME, async move {
            let lead =
                |leadership: Leadership| simulator.fenced(leadership.fence()).run(leadership.lost().clone());
            // Boxed: the future contains that of all nodes.
            Box::pin(elector.run(stop, lead)).await;
        });
    }

    /// The candidate for the Lease of simulated nodes. A store of this process has no other server: what held the Lease before a restart
    /// was the same candidate, so the nodes continue at once.
    fn nodes_elector(&self) -> Elector<ClientLease> {
        let host = self.host.as_deref().unwrap_or(UNKNOWN_HOST);
        let options = match self.store {
            Some(_) => ElectorOptions {
                lease: OWN_NODES_LEASE,
                renew: OWN_NODES_RENEWAL,
                retry: OWN_NODES_RETRY,
                ..ElectorOptions::new(OWN_NODES)
            },
            None => ElectorOptions::new(&candidate(host, &self.nondet)),
        };
        // The role for NodeGroups may not be there yet.
        let admin = UserInfo::new("system:kstore:nodes-file", ["system:masters"]);
        nodes_elector(&self.client(admin, "leader-election"), options, &self.nondet, &self.metrics)
    }

    /// Starts another API server over the storage of this control plane: its store, or a further connection to an external storage. It
    /// ends with the control plane, and creates the initial objects that the storage lacks.
    ///
    /// # Errors
    /// The API server does not start.
    pub async fn start_server(
        &self,
        storage: Storage,
        server: ServerConfig,
    ) -> Result<ApiServer, StartError> {
        let (storage, _) = storage.open(&self.nondet, NoSpaceReason::to_string).await?;
        let server = ServerConfig { stop: self.phases.listeners.stop(), ..server };
        start_server(storage, server, None, &self.phases.core).await
    }

    /// Takes the controllers out of the components that [`Self::run_components`] starts: the caller runs them, for example in tests of
    /// their failures. `None` if they are not configured, or run already.
    pub fn take_controllers(&mut self) -> Option<Component> {
        let config = self.waiting.controllers.take()?;
        self.running.controllers = true;
        Some(self.controllers(*config))
    }
}

/// Installs the API of simulations with its objects, and waits for `stop`: a task of a phase must not end before.
async fn install(client: &Client, objects: &[ManifestObject], stop: &CancellationToken) {
    let installed = stop.run_until_cancelled(kstore_kubelet_sim::sim_api::install(client, objects)).await;
    if let Some(Err(error)) = installed {
        error!(%error, "the objects of a simulation are not applied");
    }
    stop.cancelled().await;
}

/// Starts an API server, whose watch cache follows the storage until that closes.
async fn start_server(
    storage: SharedStorage,
    server: ServerConfig,
    image: Option<&ServerImage>,
    core: &Phase,
) -> Result<ApiServer, StartError> {
    let follow = |task| core.spawn("watch-cache", task);
    Ok(match image {
        None => ApiServer::start(storage, server, follow).await?,
        Some(image) => ApiServer::start_from(image, storage, server, follow).await?,
    })
}

impl ControlPlane {
    /// The API server. [`ApiServer::for_peer`] and [`ApiServer::in_process`] are its HTTP service, REST and gRPC, for requests that other
    /// listeners accept; [`ApiServer::serve`] accepts connections itself, as a task of [`Phases::listeners`].
    pub fn api(&self) -> &ApiServer {
        &self.clients.api
    }

    /// The REST and gRPC APIs as a tower service, for a user.
    pub fn service(&self, user: UserInfo) -> InProcess {
        self.clients.api.in_process(user)
    }

    /// A client in this process, made by the middleware.
    pub fn client(&self, user: UserInfo, agent: &str) -> Client {
        self.clients.client(user, agent)
    }

    /// Clients with the controllers' service accounts.
    pub fn accounts(&self) -> Accounts {
        self.clients.accounts()
    }

    /// The store in this process; `None` if the storage is outside.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Stops and resumes simulated nodes. Refuses every request if there are none.
    pub fn nodes(&self) -> &Handle {
        &self.nodes
    }

    /// Clock and random generator.
    pub fn nondet(&self) -> &Nondet {
        &self.nondet
    }

    /// The metrics of the components.
    pub fn metrics(&self) -> &Registry {
        &self.metrics
    }

    /// The phases in which the control plane ends, for tasks that end with it.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Number of images between this control plane and an original one.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn caches(&self) -> &ComponentCaches {
        &self.caches
    }

    /// What a scheduler has recorded about pods of this control plane, or of the one whose image it started from.
    pub(crate) fn attempts(&self) -> &AttemptLog {
        &self.attempts
    }

    pub(crate) fn unlayered(&self) -> &ApiServer {
        &self.unlayered
    }

    pub(crate) fn running(&self) -> &RunningComponents {
        &self.running
    }

    /// Ends the control plane in order: listeners close, components finish their current work, the storage closes. Tasks that still run
    /// at `deadline` are left behind; without one, no task runs on return.
    pub async fn end(&self, deadline: Option<Instant>) {
        self.phases.end(deadline).await;
    }
}

impl Drop for ControlPlane {
    /// Tells all tasks to end, without waiting; [`ControlPlane::end`] waits.
    fn drop(&mut self) {
        self.phases.cancel();
    }
}
