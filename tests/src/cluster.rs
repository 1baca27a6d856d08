//! [`Cluster`]: a whole control plane for tests: store, apiserver, controllers, scheduler and simulated
//! kubelets in memory, on one thread, under virtual time and a seed. `kstore-cluster` assembles it; here are its
//! fixtures: storages, webhooks, panics, and the record of refused requests.

use crate::Rest;
use crate::backing_store::{BackingStore, Storage};
use crate::initial::{self, InitialImage};
use crate::panics_once::PanicsOnce;
use crate::refusals::Refusals;
use crate::setup::{Loops, Setup};
use crate::tls_server::tls_for;
use crate::webhooks::Webhooks;
use kstore_access::token::Tokens;
use kstore_admission::PluginSwitches;
use kstore_api::gate;
use kstore_api::kind::{self, OptIn};
use kstore_apiserver::config::{
    AccessConfig, AdmissionConfig, AuthoritiesConfig, NetworkConfig, RegistryConfig,
};
use kstore_apiserver::{ApiServer, InProcess, ServerConfig};
use kstore_client::{ApiError, Client, DeleteParams, DynamicApi, Gvr, ListParams, Patch};
use kstore_cluster::{
    ClientParts, ClusterConfig, Components, ControlPlane, Middleware, Phases, server_without_listener,
};
use kstore_controllers::Accounts;
use kstore_informer::TaskGroup;
use kstore_kubelet_sim::Handle;
use kstore_nondet::Nondet;
use kstore_registry::outbound::{Network, Outbound, ServiceBackends};
use kstore_registry::service_ranges::ServiceRanges;
use kstore_registry::user::UserInfo;
use rcgen::KeyPair;
use rustls::ServerConfig as TlsConfig;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The user of clients for which a test names no user.
const ADMIN: &str = "kubernetes-admin";

/// The certificate authority of the cluster, which no test verifies.
const CA: &str = "test CA";

/// When the controllers panic: while the scheduler and the nodes pause for half a second after their own
/// panics.
const PANIC_AFTER: Duration = Duration::from_millis(300);

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
    plane: ControlPlane,
    backing_store: BackingStore,
    client: Client,
    refusals: Refusals,
    service_ranges: ServiceRanges,
    webhooks: Webhooks,
    outside: ExternalDependencies,
}

/// Code between the clients of a cluster and its API server: records the components' refused requests, and lets components panic.
struct Observer {
    refusals: Refusals,
    panics: bool,
}

impl Middleware for Observer {
    fn client(&self, parts: ClientParts<'_>) -> Client {
        let ClientParts { service, user, agent, schedule } = parts;
        let panics_at = match user {
            "system:kube-scheduler" => Some("Bind"),
            _ if user.starts_with("system:node:") && user.ends_with("-0") => Some("Patch"),
            _ => None,
        };
        // Tests may send requests that are refused: only the components' requests are recorded.
        let refusals = if user == ADMIN { Refusals::default() } else { self.refusals.clone() };
        let calls = PanicsOnce::new(service.clone(), panics_at.filter(|_| self.panics));
        let (calls, schedule) = (schedule.service(refusals.service(calls)), schedule.clone());
        Client::over(calls, agent).with_feed(move |request| {
            let (opening, schedule, refusals) = (service.watch(request), schedule.clone(), refusals.clone());
            async move {
                let stream = opening.await.inspect_err(|status| refusals.note_watch(status))?;
                Ok(schedule.stream(stream))
            }
        })
    }
}

impl Cluster {
    /// Starts a cluster on the current runtime, which should be single-threaded and paused. On return the API
    /// answers, and the loops have started.
    pub async fn start(setup: Setup) -> Self {
        let nondet = Nondet::simulated(setup.seed);
        let initial = initial::image(&setup);
        let nondet = match &initial {
            // Other random values than those in the initial objects.
            Some(_) => Nondet { rng: nondet.rng.fork("initial"), ..nondet },
            None => nondet,
        };
        let phases = Phases::default();
        let image = initial.as_ref().map(|initial| &initial.store);
        let backing_store = BackingStore::new(setup.storage, image, &nondet, &phases.core).await;
        let (webhooks, refusals) = (Webhooks::default(), Refusals::default());
        let outside = ExternalDependencies::of(&setup, &webhooks);
        let middleware = Observer { refusals: refusals.clone(), panics: setup.panics };
        let config = ClusterConfig {
            storage: backing_store.storage(),
            components: components(&setup, &outside),
            host: (setup.loops != Loops::None).then(|| "control-plane".to_owned()),
            permutes_tasks: setup.is_permuted,
            middleware: Arc::new(middleware),
            // All loops share one metrics page.
            metrics: setup.kubelets.metrics.clone(),
            phases,
            ..ClusterConfig::default()
        };
        let server = outside.server_config(&nondet, setup.service_ranges);
        let start = match &initial {
            // All clusters of a real etcd share its revisions: a server there reads everything itself.
            Some(initial) if setup.storage != Storage::RealEtcd => {
                ControlPlane::start_api_from(&initial.server, server, config)
            }
            _ => ControlPlane::start_api(server, config),
        };
        let mut plane = start.await.expect("a store in memory is readable");
        if setup.panics
            && let Some(controllers) = plane.take_controllers()
        {
            let run = with_panic(move |stop| controllers.work(None, stop));
            plane.phases().loops.supervise("panicking-controllers", plane.metrics(), run);
        }
        plane.run_components();
        let client = plane.client(admin(), "kubectl");
        let service_ranges = setup.service_ranges;
        Self { plane, backing_store, client, refusals, service_ranges, webhooks, outside }
    }

    /// The cluster's objects, from which others start.
    pub(crate) fn initial_image(&self) -> InitialImage {
        // Taken before the store's image, so that the store has the history of everything that the server has
        // not seen yet.
        let server = self.plane.api().image();
        InitialImage { store: self.backing_store.image(), server }
    }

    /// Ends all tasks and closes the store.
    pub async fn stop(&self) {
        self.plane.end(None).await;
        self.backing_store.ended().await;
    }

    /// Clients for further controllers, with the same accounts as the cluster's controllers.
    pub fn accounts(&self) -> Accounts {
        self.plane.accounts()
    }

    /// The administrator's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client of another user.
    pub fn client_as(&self, user: UserInfo) -> Client {
        self.plane.client(user, "kstore-tests")
    }

    /// The REST and gRPC APIs as a tower service, for the administrator.
    pub fn in_process(&self) -> InProcess {
        self.plane.service(admin())
    }

    /// The apiserver.
    pub fn apiserver(&self) -> &ApiServer {
        self.plane.api()
    }

    /// Starts another apiserver on the same store, without a cached history, and returns its REST and gRPC
    /// APIs for the administrator. It ends with the cluster.
    pub async fn another_apiserver(&self) -> InProcess {
        self.apiserver_with(self.service_ranges).await
    }

    /// Starts another apiserver, like [`Cluster::another_apiserver`], with other networks of Service
    /// addresses.
    pub async fn apiserver_with(&self, ranges: ServiceRanges) -> InProcess {
        let server = self.outside.server_config(self.nondet(), ranges);
        let started = self.plane.start_server(self.backing_store.storage(), server).await;
        started.expect("a store in memory is readable").in_process(admin())
    }

    /// The REST API, as the administrator.
    pub fn rest(&self) -> Rest {
        Rest::new(self.in_process())
    }

    /// The REST API, as another user.
    pub fn rest_as(&self, user: UserInfo) -> Rest {
        Rest::new(self.plane.service(user))
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
        self.plane.nodes()
    }

    /// Virtual time and seeded randomness.
    pub fn nondet(&self) -> &Nondet {
        self.plane.nondet()
    }

    /// The calls of a resource by its plural name.
    pub fn resource(&self, plural: &str) -> DynamicApi {
        let row = kind::stored().find(|row| row.plural == plural).expect("a stored resource has this plural");
        self.client.dynamic(Gvr::new(row.group, row.version, row.plural))
    }

    fn resource_of(&self, object: &Value) -> DynamicApi {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let row = kind::known(text("apiVersion"), text("kind")).expect("the manifest's kind is in the table");
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
    /// Whether objects that cannot be read are reported, and may be deleted.
    unsafe_deletion: bool,
    /// The version of Kubernetes, with optional kinds.
    opt_in: OptIn,
    /// TLS of the API server for simulated pods, and its authority as PEM.
    certificate: Option<(Arc<TlsConfig>, String)>,
}

impl ExternalDependencies {
    fn of(setup: &Setup, webhooks: &Webhooks) -> Self {
        let plugins =
            PluginSwitches { enabled: setup.plugins.iter().copied().collect(), ..Default::default() };
        let names = [
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "10.96.0.1",
            "192.0.2.1",
        ];
        let outbound: Arc<dyn Outbound> = match setup.network {
            true => Arc::new(Network::new(ServiceBackends::default())),
            false => Arc::new(webhooks.clone()),
        };
        Self {
            outbound,
            tokens: setup.network.then(|| Arc::new(tokens())),
            plugins,
            unsafe_deletion: setup.unsafe_deletion,
            opt_in: opt_in(setup),
            certificate: setup.has_certificate.then(|| tls_for(&names)),
        }
    }

    /// The authority that pods trust.
    fn root_ca(&self) -> &str {
        self.certificate.as_ref().map_or(CA, |(_, authority)| authority)
    }

    /// The configuration of an API server without components beside it.
    fn server_config(&self, nondet: &Nondet, service_ranges: ServiceRanges) -> ServerConfig {
        let config = server_without_listener(nondet);
        ServerConfig {
            network: NetworkConfig {
                outbound: Arc::clone(&self.outbound),
                streams: self.certificate.as_ref().map(|(tls, _)| Arc::clone(tls)),
                ..config.network
            },
            authorities: AuthoritiesConfig { client_ca: Some(CA.to_owned()), ..config.authorities },
            access: AccessConfig { tokens: self.tokens.clone(), ..config.access },
            admission: AdmissionConfig { switches: self.plugins.clone(), ..config.admission },
            registry: RegistryConfig {
                service_ranges,
                unsafe_deletion: self.unsafe_deletion,
                ..config.registry
            },
            opt_in: self.opt_in.clone(),
            ..config
        }
    }
}

/// The optional kinds that the setup selects.
fn opt_in(setup: &Setup) -> OptIn {
    const APIS: [&str; 2] = ["scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"];
    let is_on = |name: &str| gate::find(setup.minor, name).is_some_and(|gate| gate.is_on);
    match setup.gangs {
        true => OptIn::of(setup.minor, &APIS.map(|api| (api, true)).into(), |name| {
            name == "GenericWorkload" || is_on(name)
        }),
        false => OptIn::version(setup.minor),
    }
}

/// The components that the setup selects.
fn components(setup: &Setup, outside: &ExternalDependencies) -> Components {
    let controllers = || kstore_controllers::Config {
        root_ca: outside.root_ca().to_owned(),
        networks: setup.networks.clone(),
        unused_tokens: setup.unused_tokens,
        token_signer: outside.tokens.clone().map(kstore_cluster::token_signer),
        ..Default::default()
    };
    let is_whole = setup.loops == Loops::All;
    Components {
        controllers: (setup.loops != Loops::None).then(|| Box::new(controllers())),
        scheduler: is_whole.then(|| {
            let gates = kstore_scheduler::Gates { schedules_gangs: setup.gangs, ..Default::default() };
            Box::new(kstore_scheduler::Config::gated(gates))
        }),
        nodes: is_whole.then(|| Box::new(setup.kubelets.clone())),
    }
}

fn tokens() -> Tokens {
    let key = KeyPair::generate().expect("the machine has randomness");
    Tokens::new(&key.serialize_der()).expect("the key is of the curve P-256")
}

pub(crate) fn admin() -> UserInfo {
    UserInfo::new(ADMIN, ["system:masters"])
}
