//! [`Cluster`]: a whole control plane for tests: store, apiserver, controllers, scheduler and simulated
//! kubelets in memory, on one thread, under virtual time and a seed. Composed as in `kstore-server`, without
//! sockets, signals and certificates.

use crate::Rest;
use crate::backing_store::{BackingStore, Storage};
use crate::initial::{self, InitialImage};
use crate::panics_once::PanicsOnce;
use crate::refusals::Refusals;
use crate::webhooks::Webhooks;
use kstore_access::token::{Bound, LegacyClaims, Tokens};
use kstore_admission::admission::PluginSwitches;
use kstore_api::kind;
use kstore_apiserver::config::{
    AccessConfig, AdmissionConfig, AuthoritiesConfig, NetworkConfig, RegistryConfig,
};
use kstore_apiserver::{ApiServer, InProcess, ServerConfig, ServerImage};
use kstore_client::{ApiError, Client, DeleteParams, DynamicApi, Gvr, ListParams, Patch};
use kstore_controllers::{Accounts, TokenSigner, UnusedTokenPeriod};
use kstore_informer::{Supervisor, TaskGroup};
use kstore_kubelet_sim::{Handle, Identities, Simulator};
use kstore_nondet::Nondet;
use kstore_pipeline::pipeline::LocalComponents;
use kstore_registry::outbound::{Network, Outbound, ServiceBackends};
use kstore_registry::service_ranges::ServiceRanges;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::SharedStorage;
use kstore_testing::{Schedule, local_components, server_config};
use rcgen::KeyPair;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// When the controllers panic: while the scheduler and the nodes pause for half a second after their own
/// panics.
const PANIC_AFTER: Duration = Duration::from_millis(300);

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
    /// Whether webhooks are called over this machine's network instead of [`Cluster::webhooks`], and service
    /// account tokens are signed with a random key. Only in real time, see [`in_real_time`].
    pub network: bool,
    /// Whether the cluster may start with the initial objects that another one with this seed has created.
    pub shares_initial_objects: bool,
    /// Admission plugins that run in addition to the default ones.
    pub plugins: Vec<&'static str>,
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
            shares_initial_objects: true,
            plugins: Vec::new(),
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

    /// Enables admission plugins that are off by default.
    #[must_use]
    pub fn plugins(mut self, plugins: &[&'static str]) -> Self {
        self.plugins = plugins.to_vec();
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

/// Runs `test` against a fresh cluster on its own runtime, with one thread and paused time. Panics propagate.
/// At the end it panics if authorization refused a request of a component of the cluster.
pub fn simulate<T>(setup: Setup, test: impl AsyncFnOnce(&Cluster) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(against_cluster(setup, test))
}

/// Runs `test` like [`simulate`], but with sockets and in real time: the seed alone does not determine the
/// run.
pub fn in_real_time<T>(setup: Setup, test: impl AsyncFnOnce(&Cluster) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime with I/O starts").block_on(against_cluster(setup, test))
}

async fn against_cluster<T>(setup: Setup, test: impl AsyncFnOnce(&Cluster) -> T) -> T {
    let cluster = Cluster::start(setup).await;
    let outcome = test(&cluster).await;
    cluster.stop().await;
    let refused = cluster.refusals.list();
    assert!(refused.is_empty(), "authorization refused components of the cluster: {refused:#?}");
    outcome
}

/// A running control plane in this process.
pub struct Cluster {
    backing_store: BackingStore,
    api: ApiServer,
    client: Client,
    refusals: Refusals,
    nodes: Handle,
    service_ranges: ServiceRanges,
    webhooks: Webhooks,
    outside: ExternalDependencies,
    nondet: Nondet,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// A client of a user in this process.
fn client_of(
    (api, schedule, refusals): (&ApiServer, &Schedule, &Refusals),
    user: UserInfo,
    agent: &str,
    panics_at: Option<&'static str>,
) -> Client {
    let in_process = api.in_process(user);
    let service = refusals.service(PanicsOnce::new(in_process.clone(), panics_at));
    let (service, schedule, refusals) = (schedule.service(service), schedule.clone(), refusals.clone());
    Client::over(service, agent).with_feed(move |request| {
        let (opening, schedule, refusals) = (in_process.watch(request), schedule.clone(), refusals.clone());
        async move {
            let stream = opening.await.inspect_err(|status| refusals.note_watch(status))?;
            Ok(schedule.stream(stream))
        }
    })
}

/// Clients with the controllers' service accounts.
fn accounts(api: ApiServer, schedule: Schedule, refusals: Refusals) -> Accounts {
    Accounts::own(move |account| {
        client_of(
            (&api, &schedule, &refusals),
            UserInfo::service_account("kube-system", account),
            account,
            None,
        )
    })
}

/// Clients of the simulated nodes.
fn node_identities(api: ApiServer, schedule: Schedule, refusals: Refusals, panics: bool) -> Identities {
    Identities::own(move |node| {
        let panics_at = Some("Patch").filter(|_| panics && node.ends_with("-0"));
        client_of((&api, &schedule, &refusals), UserInfo::node(node), node, panics_at)
    })
}

impl Cluster {
    /// Starts a cluster on the current runtime, which should be single-threaded and paused. On return the API
    /// answers, and the loops have started.
    #[expect(
        clippy::too_many_lines,
        reason = "the composition, in the order in which its parts need each other"
    )]
    pub async fn start(setup: Setup) -> Self {
        let nondet = Nondet::simulated(setup.seed);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let initial = initial::image(&setup);
        let nondet = match &initial {
            // Other random values than those in the initial objects.
            Some(_) => Nondet { rng: nondet.rng.fork("initial"), ..nondet },
            None => nondet,
        };
        let image = initial.as_ref().map(|initial| &initial.store);
        let backing_store = BackingStore::new(setup.storage, image, &nondet, &stop, &tasks).await;
        // All clusters of a real etcd share its revisions: a server there reads everything itself.
        let memory = initial.as_ref().filter(|_| setup.storage != Storage::RealEtcd);
        let memory = memory.map(|initial| &initial.server);
        let schedule = match setup.is_permuted {
            true => Schedule::permuted(nondet.rng.fork("schedule")),
            false => Schedule::fifo(),
        };
        let local = local_components(setup.loops != Loops::None, setup.loops == Loops::All);
        let (webhooks, refusals) = (Webhooks::default(), Refusals::default());
        let plugins =
            || PluginSwitches { enabled: setup.plugins.iter().copied().collect(), ..Default::default() };
        let outside = match setup.network {
            true => ExternalDependencies {
                outbound: Arc::new(Network::new(ServiceBackends::default())),
                tokens: Some(Arc::new(tokens())),
                plugins: plugins(),
            },
            false => ExternalDependencies {
                outbound: Arc::new(webhooks.clone()),
                tokens: None,
                plugins: plugins(),
            },
        };
        let api = apiserver(
            (schedule.storage(backing_store.storage()), memory),
            (setup.service_ranges, local, &outside),
            &nondet,
            &stop,
            &tasks,
        )
        .await;
        let user = |name: &str, group: Option<&str>| UserInfo::new(name, group);
        let client_panicking = |user, agent, method: Option<&'static str>| {
            client_of((&api, &schedule, &refusals), user, agent, method.filter(|_| setup.panics))
        };
        let client = |user, agent| client_panicking(user, agent, None);
        let kubelet = user("system:kstore:kubelet-sim", Some("system:nodes"));
        let kubelet = client(kubelet, "kubelet-sim");
        // All loops share one metrics page.
        let metrics = setup.kubelets.metrics.clone();
        let identities = node_identities(api.clone(), schedule.clone(), refusals.clone(), setup.panics);
        let kubelets = kstore_kubelet_sim::Config { identities, ..setup.kubelets };
        let (simulator, nodes) = Simulator::new(kubelet, nondet.clone(), kubelets);
        if setup.loops != Loops::None {
            tasks.spawn(api.keep_identity("control-plane".to_owned()));
            let controllers = client(user("system:kube-controller-manager", None), "controllers");
            let config = kstore_controllers::Config {
                root_ca: "test CA".to_owned(),
                accounts: accounts(api.clone(), schedule.clone(), refusals.clone()),
                networks: setup.networks,
                unused_tokens: setup.unused_tokens,
                token_signer: outside.tokens.as_ref().map(token_signer),
                metrics: metrics.clone(),
                ..Default::default()
            };
            let (random, panics) = (nondet.clone(), setup.panics);
            let run = move |stop| {
                kstore_controllers::run(controllers.clone(), random.clone(), config.clone(), stop)
            };
            if panics {
                let supervisor = Supervisor::new("panicking-controllers", &metrics);
                tasks.spawn(supervisor.run(stop.clone(), with_panic(run)));
            } else {
                tasks.spawn(run(stop.clone()));
            }
        }
        if setup.loops == Loops::All {
            let scheduler = user("system:kube-scheduler", None);
            let scheduler = client_panicking(scheduler, "scheduler", Some("Bind"));
            let config = kstore_scheduler::Config { metrics, ..Default::default() };
            tasks.spawn(kstore_scheduler::run(scheduler, nondet.clone(), config, stop.clone()));
            tasks.spawn(simulator.run(stop.clone()));
        }
        // Tests may send requests that are refused: only the components' requests are recorded.
        let client = client_of((&api, &schedule, &Refusals::default()), admin(), "kubectl", None);
        Self {
            backing_store,
            client,
            refusals,
            api,
            nodes,
            service_ranges: setup.service_ranges,
            webhooks,
            outside,
            nondet,
            stop,
            tasks,
        }
    }

    /// The cluster's objects, from which others start.
    pub(crate) fn initial_image(&self) -> InitialImage {
        // Taken before the store's image, so that the store has the history of everything that the server has
        // not seen yet.
        let server = self.api.image();
        InitialImage { store: self.backing_store.image(), server }
    }

    /// Ends all tasks and closes the store.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.backing_store.close().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Clients for further controllers, with the same accounts as the cluster's controllers.
    pub fn accounts(&self) -> Accounts {
        accounts(self.api.clone(), Schedule::fifo(), self.refusals.clone())
    }

    /// The administrator's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The REST and gRPC APIs as a tower service, for the administrator.
    pub fn in_process(&self) -> InProcess {
        self.api.in_process(admin())
    }

    /// The apiserver.
    pub fn apiserver(&self) -> &ApiServer {
        &self.api
    }

    /// Starts another apiserver on the same store, without a cached history, and returns its REST and gRPC
    /// APIs for the administrator. It ends with the cluster.
    pub async fn another_apiserver(&self) -> InProcess {
        self.apiserver_with(self.service_ranges).await
    }

    /// Starts another apiserver, like [`Cluster::another_apiserver`], with other networks of Service
    /// addresses.
    pub async fn apiserver_with(&self, ranges: ServiceRanges) -> InProcess {
        let (nondet, stop, tasks) = (&self.nondet, &self.stop, &self.tasks);
        let local = LocalComponents::default();
        apiserver((self.backing_store.storage(), None), (ranges, local, &self.outside), nondet, stop, tasks)
            .await
            .in_process(admin())
    }

    /// The REST API, as the administrator.
    pub fn rest(&self) -> Rest {
        Rest::new(self.in_process())
    }

    /// The REST API, as another user.
    pub fn rest_as(&self, user: UserInfo) -> Rest {
        Rest::new(self.api.in_process(user))
    }

    /// The cluster's webhook servers.
    pub fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    /// The storage below the apiservers.
    pub fn store(&self) -> &BackingStore {
        &self.backing_store
    }

    /// Handle to inject faults into nodes.
    pub fn nodes(&self) -> &Handle {
        &self.nodes
    }

    /// Virtual time and seeded randomness.
    pub fn nondet(&self) -> &Nondet {
        &self.nondet
    }

    /// The calls of a resource by its plural name.
    pub fn resource(&self, plural: &str) -> DynamicApi {
        let row = kind::stored().find(|row| row.plural == plural).expect("a stored resource has this plural");
        self.client.dynamic(Gvr::new(row.group, row.version, row.plural))
    }

    fn resource_of(&self, object: &Value) -> DynamicApi {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let row = kind::lookup_api_version(text("apiVersion"), text("kind"))
            .expect("the manifest's kind is in the table");
        self.client.dynamic(Gvr::new(row.group, row.version, row.plural))
    }

    /// Creates an object in the namespace of its metadata, or in `default`.
    pub async fn create(&self, object: Value) -> Value {
        self.try_create(object).await.expect("the object is accepted")
    }

    /// Creates an object like [`Cluster::create`], or returns the error.
    pub async fn try_create(&self, object: Value) -> Result<Value, ApiError> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        self.resource_of(&object).create(&namespace, &object).await
    }

    /// The newest state of an object, if it exists.
    pub async fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        match self.resource(plural).get(namespace, name).await {
            Ok(object) => Some(object),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("get {plural} {namespace}/{name}: {error}"),
        }
    }

    /// All objects of a resource in a namespace, or in all namespaces if it is empty, in key order.
    pub async fn list(&self, plural: &str, namespace: &str) -> Vec<Value> {
        self.resource(plural).list(namespace, &ListParams::default()).await.expect("a list is answered").0
    }

    /// Applies a merge patch to an object in namespace `default`.
    pub async fn merge(&self, plural: &str, name: &str, patch: Value) -> Value {
        let done = self.resource(plural).patch("default", name, "", &Patch::Merge(patch)).await;
        done.expect("the patch is accepted")
    }

    /// Applies a strategic merge patch to an object in namespace `default`.
    pub async fn strategic(&self, plural: &str, name: &str, patch: Value) -> Value {
        let done = self.resource(plural).patch("default", name, "", &Patch::Strategic(patch)).await;
        done.expect("the patch is accepted")
    }

    /// Deletes an object in namespace `default`.
    pub async fn delete(&self, plural: &str, name: &str, params: DeleteParams) {
        self.resource(plural).delete("default", name, &params).await.expect("the deletion is accepted");
    }
}

/// Starts generations of a component with an additional task that panics in the first one, while pods are
/// being started.
fn with_panic<F>(run: impl Fn(CancellationToken) -> F) -> impl FnMut(TaskGroup) -> F {
    let mut is_first = true;
    move |tasks| {
        if std::mem::take(&mut is_first) {
            tasks.spawn(async {
                tokio::time::sleep(PANIC_AFTER).await;
                panic!("a bug that the controllers meet once");
            });
        }
        run(tasks.stop().clone())
    }
}

/// External dependencies and settings that the cluster's apiservers share.
struct ExternalDependencies {
    /// The network to webhooks.
    outbound: Arc<dyn Outbound>,
    /// The key of service account tokens.
    tokens: Option<Arc<Tokens>>,
    /// The admission plugins.
    plugins: PluginSwitches,
}

fn tokens() -> Tokens {
    let key = KeyPair::generate().expect("the machine has randomness");
    Tokens::new(&key.serialize_der()).expect("the key is of the curve P-256")
}

fn token_signer(tokens: &Arc<Tokens>) -> TokenSigner {
    let tokens = Arc::clone(tokens);
    TokenSigner::new(move |token| {
        let account = Bound { name: token.account.clone(), uid: token.account_uid.clone() };
        let claims = LegacyClaims::new(&token.namespace, &token.secret, &account);
        tokens.sign_legacy(&claims).map_err(|error| error.to_string())
    })
}

async fn apiserver(
    (storage, image): (SharedStorage, Option<&ServerImage>),
    (service_ranges, local_components, outside): (ServiceRanges, LocalComponents, &ExternalDependencies),
    nondet: &Nondet,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> ApiServer {
    let config = server_config(nondet, stop, local_components);
    let config = ServerConfig {
        network: NetworkConfig { outbound: Arc::clone(&outside.outbound), ..config.network },
        authorities: AuthoritiesConfig { client_ca: Some("test CA".to_owned()), ..config.authorities },
        access: AccessConfig { tokens: outside.tokens.clone(), ..config.access },
        admission: AdmissionConfig { switches: outside.plugins.clone(), ..config.admission },
        registry: RegistryConfig { service_ranges, ..config.registry },
        ..config
    };
    let follow = |task| drop(tasks.spawn(task));
    let api = match image {
        None => ApiServer::start(storage, config, follow).await,
        Some(image) => ApiServer::start_from(image, storage, config, follow).await,
    };
    api.expect("a store in memory is readable")
}

pub(crate) fn admin() -> UserInfo {
    UserInfo::new("kubernetes-admin", ["system:masters"])
}
