//! [`Cluster`]: store, apiserver, controllers, scheduler and simulated kubelets in memory, on one thread, under virtual time
//! and a seed. Composed like `kstore-server` does it, without sockets, signals and certificates.

use crate::Rest;
use crate::ground::{Ground, Storage};
use crate::panics_once::PanicsOnce;
use crate::refusals::Refusals;
use crate::schedule::Schedule;
use crate::webhooks::Webhooks;
use kstore_api::kind;
use kstore_apiserver::authn::UserInfo;
use kstore_apiserver::outbound::{Network, Outbound, ServiceBackends};
use kstore_apiserver::storage::SharedStorage;
use kstore_apiserver::token::Tokens;
use kstore_apiserver::{ApiServer, InProcess, LocalComponents, Options, ServiceRanges, limits};
use kstore_client::{ApiError, Client, DeleteParams, DynamicApi, Gvr, ListParams, Patch};
use kstore_controllers::Accounts;
use kstore_informer::{Supervisor, TaskGroup};
use kstore_kubelet_sim::{Handle, Identities, Simulator};
use kstore_nondet::Nondet;
use rcgen::KeyPair;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// When the controllers panic: within the rest of the others after their panics, which is half a second.
const PANIC_AFTER: Duration = Duration::from_millis(300);

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Everything random follows from it.
    pub seed: u64,
    /// Which loops run.
    pub loops: Loops,
    /// The simulated nodes.
    pub kubelets: kstore_kubelet_sim::Config,
    /// Where the apiserver keeps objects.
    pub storage: Storage,
    /// The networks of services.
    pub service_ranges: ServiceRanges,
    /// The addresses that controllers give away.
    pub networks: kstore_controllers::Networks,
    /// The scheduler panics at its first bind, the simulated nodes at their first patch, and the controllers while both rest.
    pub panics: bool,
    /// The seed also decides in which order tasks run that are ready.
    pub is_permuted: bool,
    /// Webhooks are called over the network of this machine, instead of [`Cluster::webhooks`], and there is a key for tokens of service
    /// accounts, which no seed determines. Only in real time, see [`in_real_time`].
    pub network: bool,
}

/// Which loops run beside the apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loops {
    /// Controllers, scheduler and kubelets.
    All,
    /// Controllers.
    Controllers,
    /// None: the API alone.
    None,
}

impl Setup {
    /// Everything, with three nodes.
    pub fn seed(seed: u64) -> Self {
        let (kubelets, storage) = (kstore_kubelet_sim::Config::default(), Storage::asked_for());
        let service_ranges = ServiceRanges::default();
        let (panics, is_permuted, network) = (false, false, false);
        let (loops, networks) = (Loops::All, kstore_controllers::Networks::default());
        Self { seed, loops, kubelets, storage, service_ranges, networks, panics, is_permuted, network }
    }

    /// The API alone.
    pub fn api_alone() -> Self {
        Self { loops: Loops::None, ..Self::seed(1) }
    }

    /// The API and controllers, without scheduler and nodes: pods are created and stay pending.
    pub fn controllers() -> Self {
        Self { loops: Loops::Controllers, ..Self::seed(1) }
    }

    /// With objects kept there, whatever the environment says.
    #[must_use]
    pub fn on(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// With addresses of services from there.
    #[must_use]
    pub fn service_ranges(mut self, ranges: &str) -> Self {
        self.service_ranges = ranges.parse().expect("ranges that a cluster can have");
        self
    }

    /// With a panic in each loop.
    #[must_use]
    pub fn panics(mut self) -> Self {
        self.panics = true;
        self
    }

    /// With tasks that run in an order which follows from the seed: the same seed permutes them the same way.
    #[must_use]
    pub fn permuted(mut self) -> Self {
        self.is_permuted = true;
        self
    }

    /// With webhooks called over the network of this machine, and a key for tokens.
    #[must_use]
    pub fn network(mut self) -> Self {
        self.network = true;
        self
    }

    /// With this many nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.kubelets.nodes = nodes;
        self
    }
}

/// Runs `test` against a fresh cluster on a runtime of its own: one thread, paused time. Panics pass through. At the end it panics if
/// authorization refused a request of a component of the cluster.
pub fn simulate<T>(setup: Setup, test: impl AsyncFnOnce(&Cluster) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(against_cluster(setup, test))
}

/// As [`simulate`], with sockets, and while time passes as it does outside: what runs is not determined by the seed alone.
pub fn in_real_time<T>(setup: Setup, test: impl AsyncFnOnce(&Cluster) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime with I/O starts").block_on(against_cluster(setup, test))
}

async fn against_cluster<T>(setup: Setup, test: impl AsyncFnOnce(&Cluster) -> T) -> T {
    let cluster = Cluster::start(setup).await;
    let outcome = test(&cluster).await;
    cluster.stop().await;
    let refused = cluster.refusals.list();
    assert!(refused.is_empty(), "the control plane may not do what it does: {refused:#?}");
    outcome
}

/// A control plane in this process. See the module.
pub struct Cluster {
    ground: Ground,
    api: ApiServer,
    client: Client,
    refusals: Refusals,
    nodes: Handle,
    service_ranges: ServiceRanges,
    webhooks: Webhooks,
    outside: Outside,
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
    let door = api.in_process(user);
    let service = refusals.service(PanicsOnce::new(door.clone(), panics_at));
    let (service, schedule, refusals) = (schedule.service(service), schedule.clone(), refusals.clone());
    Client::over(service, agent).with_feed(move |request| {
        let (opening, schedule, refusals) = (door.watch(request), schedule.clone(), refusals.clone());
        async move {
            let stream = opening.await.inspect_err(|status| refusals.note_watch(status))?;
            Ok(schedule.stream(stream))
        }
    })
}

/// The clients of the controllers' accounts.
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

/// The clients of the simulated nodes.
fn node_identities(api: ApiServer, schedule: Schedule, refusals: Refusals, panics: bool) -> Identities {
    Identities::own(move |node| {
        let panics_at = Some("Patch").filter(|_| panics && node.ends_with("-0"));
        client_of((&api, &schedule, &refusals), UserInfo::node(node), node, panics_at)
    })
}

impl Cluster {
    /// Starts a cluster on the current runtime, which should be single-threaded and paused. The API answers on return; the
    /// loops have only begun.
    #[expect(
        clippy::too_many_lines,
        reason = "the composition, in the order in which its parts need each other"
    )]
    pub async fn start(setup: Setup) -> Self {
        let nondet = Nondet::simulated(setup.seed);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let ground = Ground::new(setup.storage, &nondet, &stop, &tasks).await;
        let schedule = match setup.is_permuted {
            true => Schedule::permuted(nondet.rng.fork("schedule")),
            false => Schedule::fifo(),
        };
        let local = match setup.loops {
            Loops::All => LocalComponents::ALL,
            Loops::Controllers => LocalComponents { controllers: true, ..LocalComponents::default() },
            Loops::None => LocalComponents::default(),
        };
        let (webhooks, refusals) = (Webhooks::default(), Refusals::default());
        let outside = match setup.network {
            true => Outside {
                outbound: Arc::new(Network::new(ServiceBackends::default())),
                tokens: Some(Arc::new(tokens())),
            },
            false => Outside { outbound: Arc::new(webhooks.clone()), tokens: None },
        };
        let api = apiserver(
            schedule.storage(ground.storage()),
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
        // One page for all loops.
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
        // Tests may ask for what they are refused: only the components are watched.
        let client = client_of((&api, &schedule, &Refusals::default()), admin(), "kubectl", None);
        Self {
            ground,
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

    /// Ends every task and closes the store.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.ground.close().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Clients for further controllers, which act as the accounts that those of the cluster have.
    pub fn accounts(&self) -> Accounts {
        accounts(self.api.clone(), Schedule::fifo(), self.refusals.clone())
    }

    /// The administrator's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Both doors as a tower service, for the administrator.
    pub fn doors(&self) -> InProcess {
        self.api.in_process(admin())
    }

    /// The apiserver.
    pub fn apiserver(&self) -> &ApiServer {
        &self.api
    }

    /// Both doors of one more apiserver on the same store, which knows no history but what it reads. Ends with the cluster.
    pub async fn another_apiserver(&self) -> InProcess {
        self.apiserver_with(self.service_ranges).await
    }

    /// As [`Cluster::another_apiserver`], told to give services addresses from other networks.
    pub async fn apiserver_with(&self, ranges: ServiceRanges) -> InProcess {
        let (nondet, stop, tasks) = (&self.nondet, &self.stop, &self.tasks);
        let local = LocalComponents::default();
        apiserver(self.ground.storage(), (ranges, local, &self.outside), nondet, stop, tasks)
            .await
            .in_process(admin())
    }

    /// The REST door, for the administrator.
    pub fn rest(&self) -> Rest {
        Rest::new(self.doors())
    }

    /// The REST door, for somebody else.
    pub fn rest_as(&self, user: UserInfo) -> Rest {
        Rest::new(self.api.in_process(user))
    }

    /// The webhook servers of this cluster.
    pub fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    /// What is under everything.
    pub fn store(&self) -> &Ground {
        &self.ground
    }

    /// Inflicts faults on nodes.
    pub fn nodes(&self) -> &Handle {
        &self.nodes
    }

    /// Virtual time and seeded chance.
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

    /// Creates an object in the namespace that its metadata names, else `default`.
    pub async fn create(&self, object: Value) -> Value {
        self.try_create(object).await.expect("the object is accepted")
    }

    /// See [`Cluster::create`].
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

    /// All objects of a resource in a namespace, or everywhere if it is empty, in key order.
    pub async fn list(&self, plural: &str, namespace: &str) -> Vec<Value> {
        self.resource(plural).list(namespace, &ListParams::default()).await.expect("a list is answered").0
    }

    /// Patches an object in namespace `default` by merge.
    pub async fn merge(&self, plural: &str, name: &str, patch: Value) -> Value {
        let done = self.resource(plural).patch("default", name, "", &Patch::Merge(patch)).await;
        done.expect("the patch is accepted")
    }

    /// Patches an object in namespace `default` strategically.
    pub async fn strategic(&self, plural: &str, name: &str, patch: Value) -> Value {
        let done = self.resource(plural).patch("default", name, "", &Patch::Strategic(patch)).await;
        done.expect("the patch is accepted")
    }

    /// Deletes an object in namespace `default`.
    pub async fn delete(&self, plural: &str, name: &str, params: DeleteParams) {
        self.resource(plural).delete("default", name, &params).await.expect("the deletion is accepted");
    }
}

/// The generations of a component with one more task, which panics in the first of them while pods are being started.
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

/// What apiservers of a cluster share that comes from outside.
struct Outside {
    /// The way to webhooks.
    outbound: Arc<dyn Outbound>,
    /// The key for tokens of service accounts.
    tokens: Option<Arc<Tokens>>,
}

fn tokens() -> Tokens {
    let key = KeyPair::generate().expect("the machine has randomness");
    Tokens::new(&key.serialize_der()).expect("the key is of the curve P-256")
}

async fn apiserver(
    storage: SharedStorage,
    (service_ranges, local_components, outside): (ServiceRanges, LocalComponents, &Outside),
    nondet: &Nondet,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> ApiServer {
    let advertised = "192.0.2.1:6443".to_owned();
    let options = Options {
        nondet: nondet.clone(),
        stop: stop.clone(),
        advertised,
        client_ca: Some("test CA".to_owned()),
        front_proxy_ca: None,
        tokens: outside.tokens.clone(),
        service_ranges,
        local_components,
        anonymous: true,
        outbound: Arc::clone(&outside.outbound),
        settings: kstore_apiserver::Settings::default(),
        connections: limits::CONNECTIONS,
    };
    let follow = |task| drop(tasks.spawn(task));
    ApiServer::start(storage, options, follow).await.expect("a store in memory is readable")
}

pub(crate) fn admin() -> UserInfo {
    UserInfo::new("kubernetes-admin", ["system:masters"])
}
