//! Starts each part of a cluster with the function of its crate. `wiring` calls this in order and ends the
//! parts.

use crate::args::{
    ApiHere, Component, Durability, Engine, ExternalEtcd, History, LoopsConfig, Quota, Storage, StoreAlone,
};
use crate::authorities::{self, FollowedAuthorities};
use crate::etcd_listener::BoundEtcdListener;
use crate::hostname::hostname;
use crate::listen::RebindableListener;
use crate::metrics_server::WithMetricsServer;
use crate::phase::Phase;
use crate::telemetry::millis;
use crate::{
    audit, clients, election, encryption, external, load_report, no_space, pki, retention, salvage,
    token_signer,
};
use anyhow::{Context, anyhow};
use kstore_access::authz::Modes;
use kstore_apiserver::config::{NetworkConfig, StorageConfig};
use kstore_apiserver::{ApiServer, ServerConfig, StartError};
use kstore_client::{Client, ClientLease, Kubeconfig};
use kstore_controllers::{Accounts, Signing, TokenSigner};
use kstore_etcd::ExtraMetrics;
use kstore_informer::metrics::Registry;
use kstore_informer::{Elector, Fence};
use kstore_kubelet_sim::Identities;
use kstore_nondet::Nondet;
use kstore_pipeline::pipeline::{AnnotationCheck, LocalComponents};
use kstore_registry::outbound::{FrontProxy, Network, ServiceBackends};
use kstore_registry::user::UserInfo;
use kstore_storage::storage::embedded::Embedded;
use kstore_storage::storage::etcd::Etcd;
use kstore_storage::storage::{SharedStorage, Storage as _};
use kstore_store::{EngineKind, OpenError, Store};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Interval of syncs under `relaxed` durability.
const RELAXED: Duration = Duration::from_millis(100);

/// Inputs for the start of a cluster: configuration, listeners and certificates.
pub(crate) struct ClusterInputs<'a> {
    pub api: &'a ApiHere,
    pub loops: &'a LoopsConfig,
    /// The bound API listener.
    pub api_listener: ApiListener,
    /// The bound etcd listener, if the etcd API is served.
    pub etcd_listener: Option<BoundEtcdListener>,
    pub data_path: Option<PathBuf>,
    /// PEM of the authority by which pods verify the apiserver.
    pub ca_pem: String,
    /// Signer of CertificateSigningRequests; `None` if the authority's key is elsewhere.
    pub signing: Option<Signing>,
}

/// The bound listener of the Kubernetes API, with its certificates and the apiserver's configuration.
pub(crate) struct ApiListener {
    pub listener: TcpListener,
    /// Server certificate, and verification of client certificates.
    pub tls: Arc<rustls::ServerConfig>,
    /// The apiserver's configuration, without the other parts of the process.
    pub config: ServerConfig,
    /// The client certificate authorities that follow their files, if any.
    pub followed: Option<FollowedAuthorities>,
    /// Client certificate for aggregated API servers, if any.
    pub front_proxy: Option<FrontProxy>,
}

/// Starts the store, the apiserver and the configured loops. Returns when the API answers; the store closes
/// when `core` ends.
pub(crate) async fn everything(
    parts: ClusterInputs<'_>,
    core: &Phase,
    listeners: &Phase,
    loops: &Phase,
) -> anyhow::Result<ApiServer> {
    let ClusterInputs {
        api: flags,
        api_listener: ApiListener { listener, tls, config, followed, front_proxy },
        ..
    } = parts;
    let (nondet, modes, tokens) =
        (config.nondet.clone(), config.access.authorization.clone(), config.access.tokens.clone());
    let backends = &flags.service_backends;
    let outbound = WithMetricsServer::new(network(front_proxy, backends), flags.metrics, backends);
    let encryption = encryption::open(flags, core, &nondet).await?;
    if let Some(audit) = &config.audit {
        audit::flush_at_end(core, audit.clone());
    }
    let config = ServerConfig {
        stop: listeners.stop(),
        network: NetworkConfig { outbound: Arc::new(outbound.clone()), ..config.network },
        storage: StorageConfig { encryption, ..config.storage },
        local_components: local_components(parts.loops),
        ..config
    };
    // The follower ends when the storage closes, which happens when `core` ends. If the follower ends
    // earlier, the process must stop.
    let (metrics, follow) = (Registry::new(), |task| core.spawn("watch-cache", task));
    let api = match &flags.storage {
        Storage::External { etcd, .. } => {
            let storage = external_storage(etcd, core, &nondet)?;
            let start = start_apiserver(storage, config, follow);
            noting_wait(start, etcd).await.with_context(|| unreachable_etcd(etcd))?
        }
        Storage::Memory | Storage::Disk { .. } => {
            let store_config = store_config(&flags.storage, flags.quota, parts.data_path.as_deref());
            let store = open_store(store_config, flags.storage.salvages(), &nondet).await?;
            let embedded = Arc::new(Embedded::explaining(store.clone(), no_space::explain));
            let api = start_apiserver(embedded, config, follow).await?;
            if let Some(listener) = parts.etcd_listener {
                open_etcd(listeners, &store, listener, &metrics);
            }
            keep_store(core, store, flags.history, &nondet, &metrics);
            api
        }
    };
    outbound.begin(|| clients::client(&api, pki::METRICS_SERVER));
    info!(address = %listener.local_addr()?, "apiserver listening");
    describe_server(listeners, &api, followed, &metrics);
    serve_api(listeners, &api, listener, tls, &metrics)?;
    let loops = LoopStarter {
        config: parts.loops,
        nondet,
        ca_pem: &parts.ca_pem,
        signing: parts.signing,
        token_signer: tokens.map(token_signer::of_server),
        metrics: metrics.clone(),
        announces_nodes: false,
        phase: loops,
    };
    api.pipeline().metrics().append(move |page| metrics.render(page));
    // Several processes may share an external etcd, and each may run these components.
    let elects = parts.loops.leader_elect.unwrap_or(flags.storage.external().is_some());
    loops.start_beside(&api, node_identities(&api, &modes), elects);
    Ok(api)
}

/// The network of outbound calls, which shows the front proxy certificate to aggregated API servers.
fn network(front_proxy: Option<FrontProxy>, backends: &ServiceBackends) -> Network {
    match front_proxy {
        Some(front_proxy) => Network::with_front_proxy(backends.clone(), front_proxy),
        None => Network::new(backends.clone()),
    }
}

/// Identities of the simulated nodes: one user per node where the Node authorizer is active, else one user
/// for all.
fn node_identities(api: &ApiServer, modes: &Modes) -> Identities {
    if !modes.current().judge_nodes() {
        return Identities::shared();
    }
    let api = api.clone();
    Identities::own(move |node| Client::over(api.in_process(UserInfo::node(node)), node))
}

/// Opens the store and logs its revision, its size and a reason for refused writes.
async fn open_store(config: kstore_store::Config, salvages: bool, nondet: &Nondet) -> anyhow::Result<Store> {
    let began = Instant::now();
    let dir = config.dir.as_ref().map(|dir| tracing::field::display(dir.display()));
    let store = match Store::open(config.clone(), nondet.clone()).await {
        Err(error @ (OpenError::Damaged { .. } | OpenError::EngineLost { .. })) => {
            if !salvages {
                return Err(error).context("to continue with the readable part of the store, add --salvage");
            }
            salvage::replace(&config, &error, nondet).await?;
            Store::open(config.clone(), nondet.clone()).await?
        }
        Err(OpenError::OtherEngine { dir, found }) => {
            let start = format!("start with --engine {found}");
            return Err(OpenError::OtherEngine { dir, found }).context(start);
        }
        opened => opened?,
    };
    let (revision, keys) = (store.revision(), store.metrics().keys);
    info!(%revision, keys, dir, ms = millis(began), "store opened");
    if let Some(reason) = store.no_space_reason() {
        warn!(reason = no_space::explain(&reason), "the store refuses writes");
    }
    Ok(store)
}

/// Starts the apiserver on a storage.
async fn start_apiserver(
    storage: SharedStorage,
    config: ServerConfig,
    follow: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) + Send,
) -> Result<ApiServer, StartError> {
    let began = Instant::now();
    let report = load_report::begin(Arc::clone(&config.storage.load_progress));
    let api = ApiServer::start(storage, config, follow).await?;
    drop(report);
    info!(ms = millis(began), "apiserver started: objects loaded, initial objects created");
    Ok(api)
}

/// Opens an external etcd; the connection closes when `core` ends.
fn external_storage(
    etcd: &ExternalEtcd,
    core: &Phase,
    nondet: &Nondet,
) -> anyhow::Result<Arc<dyn kstore_storage::storage::Storage>> {
    let (config, network) = external::open(etcd)?;
    let (storage, work) = Etcd::new(&config, Arc::new(network), &nondet.rng)?;
    core.spawn("external-etcd", work);
    let (closing, stop) = (storage.clone(), core.stop());
    core.spawn("external-etcd-end", async move {
        stop.cancelled().await;
        closing.close().await;
    });
    Ok(storage)
}

/// Waits for a start on an external etcd, and says so if it takes long.
async fn noting_wait<T>(start: impl Future<Output = T>, etcd: &ExternalEtcd) -> T {
    /// A start on an etcd that answers takes a fraction of it.
    const SILENCE: Duration = Duration::from_secs(2);
    let mut start = std::pin::pin!(start);
    match tokio::time::timeout(SILENCE, &mut start).await {
        Ok(started) => started,
        Err(_) => {
            let servers: Vec<_> = etcd.servers.iter().map(ToString::to_string).collect();
            warn!(servers = servers.join(","), "still waiting for the etcd");
            start.await
        }
    }
}

fn unreachable_etcd(etcd: &ExternalEtcd) -> String {
    let servers: Vec<_> = etcd.servers.iter().map(ToString::to_string).collect();
    format!("cannot start on the etcd at {}", servers.join(", "))
}

/// Starts a store with the etcd API and nothing of Kubernetes.
pub(crate) async fn store_only(
    flags: &StoreAlone,
    data_path: Option<&Path>,
    mut listener: BoundEtcdListener,
    nondet: &Nondet,
    (core, listeners): (&Phase, &Phase),
) -> anyhow::Result<()> {
    let config = store_config(&flags.storage, flags.quota, data_path);
    let store = open_store(config, flags.storage.salvages(), nondet).await?;
    let metrics = Registry::new();
    let shown = metrics.clone();
    listener.options.extra_metrics = ExtraMetrics::new(move |page| shown.render(page));
    open_etcd(listeners, &store, listener, &metrics);
    keep_store(core, store, flags.history, nondet, &metrics);
    Ok(())
}

/// Keeps the objects that describe the server up to date: its Lease, and the authorities that it trusts.
fn describe_server(
    listeners: &Phase,
    api: &ApiServer,
    followed: Option<FollowedAuthorities>,
    metrics: &Registry,
) {
    let identity = api.clone();
    listeners.supervise("identity", metrics, move |_| identity.keep_identity(hostname()));
    if let Some(followed) = followed {
        let publisher = api.clone();
        listeners.supervise("authorities", metrics, move |tasks| {
            authorities::publish_changes(publisher.clone(), followed.clone(), tasks.stop().clone())
        });
    }
}

/// Serves the REST and gRPC APIs on the API listener.
fn serve_api(
    listeners: &Phase,
    api: &ApiServer,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    metrics: &Registry,
) -> anyhow::Result<()> {
    let (api, mut rebindable) = (api.clone(), RebindableListener::new(listener)?);
    listeners.supervise("apiserver", metrics, move |_| {
        let (api, tls, listener) = (api.clone(), tls.clone(), rebindable.next());
        async move {
            if let Some(listener) = listener.await {
                api.serve(listener, tls).await;
            }
        }
    });
    Ok(())
}

fn open_etcd(listeners: &Phase, store: &Store, bound: BoundEtcdListener, metrics: &Registry) {
    info!(url = bound.options.advertised, "etcd API listening");
    let (store, options, listener) = (store.clone(), bound.options, Arc::new(Mutex::new(bound.listener)));
    listeners.supervise("etcd", metrics, move |tasks| {
        let (store, options, listener) = (store.clone(), options.clone(), Arc::clone(&listener));
        async move {
            let next = listener.lock().await.next().await;
            if let Some(listener) = next {
                kstore_etcd::serve(store, listener, options, tasks.stop().clone()).await;
            }
        }
    });
}

/// Compacts the store until `core` ends, then closes it.
fn keep_store(core: &Phase, store: Store, history: History, nondet: &Nondet, metrics: &Registry) {
    start_retention(core, &store, history, nondet, metrics);
    let stop = core.stop();
    core.spawn("store", async move {
        stop.cancelled().await;
        store.close().await;
    });
}

/// Which components run in this process beside the apiserver.
fn local_components(loops: &LoopsConfig) -> LocalComponents {
    let runs = |component| loops.components.contains(&component);
    let kubelets = runs(Component::KubeletSim);
    let annotations = kubelets.then_some(AnnotationCheck {
        prefix: kstore_kubelet_sim::behavior::ANNOTATION_PREFIX,
        problems: kstore_kubelet_sim::behavior::problems,
    });
    LocalComponents { controllers: runs(Component::Controllers), kubelets, annotations }
}

/// Starts the configured loops as clients of the apiserver that the kubeconfig names.
pub(crate) async fn loops_only(
    loops: &LoopsConfig,
    kubeconfig: &Path,
    nondet: &Nondet,
    phase: &Phase,
) -> anyhow::Result<()> {
    let config = Kubeconfig::read(kubeconfig).map_err(|error| anyhow!("cannot use --kubeconfig: {error}"))?;
    for component in &loops.components {
        let identity = clients::identity(*component);
        let client = Client::connect(&config, identity.file).await?;
        let accounts = clients::service_accounts(&config, &client)?;
        let accounts = Accounts::own(move |account| accounts.client(account));
        // A separate connection: other requests must not delay the renewal of the Lease.
        let lease_client = match loops.leader_elect {
            Some(false) => None,
            Some(true) | None => Some(Client::connect_lazy(&config, "leader-election")?),
        };
        let ca_pem = config.ca.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let starter = LoopStarter {
            config: loops,
            nondet: nondet.clone(),
            ca_pem: &ca_pem,
            signing: None,
            token_signer: None,
            metrics: Registry::new(),
            announces_nodes: true,
            phase,
        };
        // Nodes in another process share one certificate and therefore one user.
        starter.start(*component, client, accounts, Identities::shared(), lease_client.as_ref());
    }
    Ok(())
}

/// Starts loops with their shared configuration.
struct LoopStarter<'a> {
    config: &'a LoopsConfig,
    nondet: Nondet,
    ca_pem: &'a str,
    signing: Option<Signing>,
    /// Signer of tokens for Secrets; `None` if the key is elsewhere.
    token_signer: Option<TokenSigner>,
    /// Registry of their metrics.
    metrics: Registry,
    /// Whether standard output says when the simulated nodes are up.
    announces_nodes: bool,
    phase: &'a Phase,
}

impl LoopStarter<'_> {
    /// Starts all configured loops as clients of the apiserver in this process. With `elects`, they work only while they
    /// hold their Leases.
    fn start_beside(&self, api: &ApiServer, identities: Identities, elects: bool) {
        let of_account = api.clone();
        let accounts = Accounts::own(move |account| {
            Client::over(of_account.in_process(UserInfo::service_account("kube-system", account)), account)
        });
        for component in &self.config.components {
            let client = clients::client(api, clients::identity(*component));
            let lease_client = elects.then(|| client.agent("leader-election"));
            self.start(*component, client, accounts.clone(), identities.clone(), lease_client.as_ref());
        }
    }

    /// A candidate for the Lease of the component, through `client`; `None` if it has no Lease.
    fn elector(&self, component: Component, client: &Client) -> Option<Elector<ClientLease>> {
        let lease = ClientLease::new(client, election::NAMESPACE, election::lease_of(component)?);
        let elector = Elector::new(lease, &election::identity(&self.nondet), &self.nondet);
        Some(elector.metrics(&self.metrics))
    }

    /// Starts a component; with `lease_client`, it works only while it holds its Lease.
    fn start(
        &self,
        component: Component,
        client: Client,
        accounts: Accounts,
        identities: Identities,
        lease_client: Option<&Client>,
    ) {
        let (nondet, stop, metrics) = (self.nondet.clone(), self.phase.stop(), self.metrics.clone());
        let elector = lease_client.and_then(|client| self.elector(component, client));
        info!(component = component.name(), elects = elector.is_some(), "component started");
        match component {
            Component::Apiserver | Component::Store => unreachable!("{component:?} does not run as a loop"),
            Component::Controllers => {
                let config = self.controllers();
                let work = move |fence: Option<Fence>, stop| {
                    let client = election::fenced(&client, fence.as_ref());
                    let accounts = accounts.clone();
                    let accounts = accounts.map(move |client| election::fenced(&client, fence.as_ref()));
                    let config = kstore_controllers::Config { accounts, ..config.clone() };
                    kstore_controllers::run(client, nondet.clone(), config, stop)
                };
                self.phase.spawn("controllers", election::run(elector, stop, work));
            }
            Component::Scheduler => {
                let work = move |fence: Option<Fence>, stop| {
                    let client = election::fenced(&client, fence.as_ref());
                    let config = kstore_scheduler::Config { metrics: metrics.clone(), ..Default::default() };
                    kstore_scheduler::run(client, nondet.clone(), config, stop)
                };
                self.phase.spawn("scheduler", election::run(elector, stop, work));
            }
            Component::KubeletSim => {
                let nodes = self.config.nodes as usize;
                let missing_images = self.config.missing_images.clone();
                let config = kstore_kubelet_sim::Config {
                    nodes,
                    missing_images,
                    identities,
                    metrics,
                    ..Default::default()
                };
                if self.announces_nodes {
                    let announced = announce_nodes(config.clone(), stop.clone());
                    self.phase.spawn("kubelet-sim-announcement", announced);
                }
                self.phase.spawn("kubelet-sim", kstore_kubelet_sim::run(client, nondet, config, stop));
            }
        }
    }
}

/// Says when the simulated nodes of a process without an API server are up, and what to do with them.
async fn announce_nodes(config: kstore_kubelet_sim::Config, stop: CancellationToken) {
    let registered = tokio::select! {
        biased;
        () = stop.cancelled() => false,
        () = config.registered.cancelled() => config.nodes > 0,
    };
    if registered {
        let (first, last) = (config.node_name(0), config.node_name(config.nodes - 1));
        // The reader of standard output may have exited; the nodes run on.
        let _ = writeln!(std::io::stdout(), "kstore simulates {} nodes ({first} to {last})", config.nodes);
    }
    stop.cancelled().await;
}

impl LoopStarter<'_> {
    /// The controllers' configuration, without accounts.
    fn controllers(&self) -> kstore_controllers::Config {
        kstore_controllers::Config {
            root_ca: self.ca_pem.to_owned(),
            controllers: self.config.controllers.clone(),
            networks: self.config.networks.clone(),
            signing: self.signing.clone(),
            token_signer: self.token_signer.clone(),
            metrics: self.metrics.clone(),
            ..Default::default()
        }
    }
}

fn start_retention(core: &Phase, store: &Store, history: History, nondet: &Nondet, metrics: &Registry) {
    if history != History::All {
        let (store, clock) = (store.clone(), nondet.clock);
        core.supervise("retention", metrics, move |tasks| {
            retention::run(store.clone(), history, clock, tasks.stop().clone())
        });
    }
}

fn store_config(storage: &Storage, quota: Quota, data_dir: Option<&Path>) -> kstore_store::Config {
    let mut config = match (storage, data_dir) {
        (Storage::Disk { durability, engine, .. }, Some(dir)) => {
            let mut config = kstore_store::Config::durable(dir);
            config.durability = match durability {
                Durability::Sync => kstore_store::Durability::Sync,
                Durability::Relaxed => kstore_store::Durability::Relaxed { interval: RELAXED },
            };
            config.engine = match engine {
                Engine::Segments => EngineKind::Segments,
                Engine::Sled => EngineKind::Sled,
            };
            config
        }
        (Storage::Memory | Storage::External { .. }, _) | (Storage::Disk { .. }, None) => {
            kstore_store::Config::memory()
        }
    };
    match quota {
        Quota::Default => {}
        Quota::Bytes(bytes) => config.limits.quota_bytes = Some(bytes),
        Quota::None => config.limits.quota_bytes = None,
    }
    config
}
