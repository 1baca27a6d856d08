//! The start of each part of a cluster. `wiring` calls these functions, and owns the order of start and end.

use crate::args::{Api, Component, Config, Durability, Engine, ExternalEtcd, History, Quota, Storage};
use crate::etcd_door::OpenDoor;
use crate::listen::Rebindable;
use crate::metrics_server::WithMetricsServer;
use crate::phase::Phase;
use crate::pki::{self, Identity};
use crate::telemetry::millis;
use crate::{audit, external, retention, salvage, wiring};
use anyhow::{Context, anyhow};
use kstore_apiserver::authn::UserInfo;
use kstore_apiserver::outbound::{FrontProxy, Network, ServiceBackends};
use kstore_apiserver::storage::embedded::Embedded;
use kstore_apiserver::storage::etcd::Etcd;
use kstore_apiserver::storage::{SharedStorage, Storage as _};
use kstore_apiserver::token::Tokens;
use kstore_apiserver::{ApiServer, LocalComponents, Options, Settings, StartError};
use kstore_client::{Client, ConnectError, Kubeconfig, ServiceAccounts};
use kstore_controllers::{Accounts, Signing};
use kstore_etcd::ExtraMetrics;
use kstore_informer::metrics::Registry;
use kstore_kubelet_sim::Identities;
use kstore_nondet::Nondet;
use kstore_store::{EngineKind, OpenError, Store};
use rustls::ServerConfig;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

/// How often `relaxed` durability syncs.
const RELAXED: Duration = Duration::from_millis(100);

/// The inputs for the parts of a cluster: configuration, listeners, directories and certificates.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    /// The checked command line.
    pub config: &'a Config,
    /// Time and chance.
    pub nondet: Nondet,
    /// The listener of the Kubernetes API, if the apiserver is in this process.
    pub door: Option<Door>,
    /// The listener of the etcd API, if it is served.
    pub etcd: Option<OpenDoor>,
    /// The data directory, if there is one.
    pub data_dir: Option<PathBuf>,
    /// The certificates by which pods verify the apiserver, or "" if it is elsewhere.
    pub ca_pem: String,
    /// What signs CertificateSigningRequests; none if the authority is elsewhere.
    pub signing: Option<Signing>,
}

/// The listener of the Kubernetes API, and the settings with which it is served.
#[derive(Debug)]
pub(crate) struct Door {
    /// The bound listener.
    pub listener: TcpListener,
    /// The serving certificate, and the authorities of client certificates.
    pub tls: Arc<ServerConfig>,
    /// `host:port` for clients.
    pub advertised: String,
    /// The key for tokens of service accounts.
    pub tokens: Arc<Tokens>,
    /// PEM of the authorities of client certificates, if there are any.
    pub client_ca: Option<String>,
    /// Our certificate for API servers behind this one, if there is one.
    pub front_proxy: Option<FrontProxy>,
    /// PEM of the authority of that certificate.
    pub front_proxy_ca: Option<String>,
    /// Further settings of the apiserver.
    pub settings: Settings,
    /// Network connections that may be open at a time.
    pub connections: usize,
}

/// Store, apiserver and the configured loops; returns the apiserver when the API answers. The store closes at the end of `core`.
pub(crate) async fn everything(
    parts: Parts<'_>,
    core: &Phase,
    doors: &Phase,
    loops: &Phase,
) -> anyhow::Result<ApiServer> {
    let Api::Here {
        storage,
        quota,
        history,
        service_ranges,
        service_backends: backends,
        anonymous,
        metrics,
        ..
    } = &parts.config.api
    else {
        unreachable!("the apiserver is here")
    };
    let door = parts.door.context("an apiserver has a door")?;
    if let Some(audit) = &door.settings.audit {
        audit::keep(core, audit.clone());
    }
    let outbound = WithMetricsServer::new(network(door.front_proxy, backends), *metrics, backends);
    let options = Options {
        nondet: parts.nondet.clone(),
        stop: doors.stop(),
        advertised: door.advertised,
        client_ca: door.client_ca,
        front_proxy_ca: door.front_proxy_ca,
        tokens: Some(door.tokens),
        service_ranges: *service_ranges,
        outbound: Arc::new(outbound.clone()),
        local_components: local_components(parts.config),
        anonymous: *anonymous,
        settings: door.settings.clone(),
        connections: door.connections,
    };
    let metrics = Registry::new();
    // The follower ends when the storage closes, which `core` does at its end; if it ends before, the server must not go on.
    let follow = |task| core.spawn("watch-cache", task);
    let api = match storage {
        Storage::External { etcd, .. } => {
            let storage = external_storage(etcd, core, &parts.nondet)?;
            start_apiserver(storage, options, follow).await.with_context(|| unreachable_etcd(etcd))?
        }
        Storage::Memory | Storage::Disk { .. } => {
            let config = store_config(storage, *quota, parts.data_dir.as_deref());
            let store = open_store(config, storage.salvages(), &parts.nondet).await?;
            let embedded = Arc::new(Embedded::new(store.clone()));
            let api = start_apiserver(embedded, options, follow).await?;
            if let Some(door) = parts.etcd {
                open_etcd(doors, &store, door, &metrics);
            }
            keep_store(core, store, *history, &parts.nondet, &metrics);
            api
        }
    };
    outbound.begin(|| client(&api, pki::METRICS_SERVER));
    info!(address = %door.listener.local_addr()?, "apiserver listening");
    let identity = api.clone();
    doors.supervise("identity", &metrics, move |_| identity.keep_identity(hostname()));
    serve_api(doors, &api, door.listener, door.tls, &metrics)?;
    let loops = Loops {
        config: parts.config,
        nondet: parts.nondet,
        ca_pem: &parts.ca_pem,
        signing: parts.signing,
        metrics: metrics.clone(),
        phase: loops,
    };
    api.pipeline().metrics().append(move |page| metrics.render(page));
    loops.start_beside(&api, node_identities(&api, door.settings.authorization.judge_nodes()));
    Ok(api)
}

/// The network, on which API servers behind this one are shown the certificate.
fn network(front_proxy: Option<FrontProxy>, backends: &ServiceBackends) -> Network {
    match front_proxy {
        Some(front_proxy) => Network::with_front_proxy(backends.clone(), front_proxy),
        None => Network::new(backends.clone()),
    }
}

/// A client of the apiserver in this process.
pub(crate) fn client(api: &ApiServer, who: Identity) -> Client {
    let door = api.in_process(UserInfo::new(who.user, who.group));
    Client::over(door.clone(), who.file).with_feed(move |request| door.watch(request))
}

/// Identities of the simulated nodes: a user for each node where the mode Node judges them, else one for all.
fn node_identities(api: &ApiServer, are_judged: bool) -> Identities {
    if !are_judged {
        return Identities::shared();
    }
    let api = api.clone();
    Identities::own(move |node| Client::over(api.in_process(UserInfo::node(node)), node))
}

/// Opens the store, and says what it found.
async fn open_store(config: kstore_store::Config, salvages: bool, nondet: &Nondet) -> anyhow::Result<Store> {
    let began = Instant::now();
    let dir = config.dir.as_ref().map(|dir| tracing::field::display(dir.display()));
    let store = match Store::open(config.clone(), nondet.clone()).await {
        Err(error @ (OpenError::Damaged { .. } | OpenError::EngineLost { .. })) => {
            if !salvages {
                return Err(error).context("--salvage goes on with what can be read of a damaged store");
            }
            salvage::replace(&config, &error, nondet).await?;
            Store::open(config.clone(), nondet.clone()).await?
        }
        opened => opened?,
    };
    let (revision, keys) = (store.revision(), store.metrics().keys);
    info!(%revision, keys, dir, ms = millis(began), "store opened");
    if let Some(reason) = store.no_space_reason() {
        warn!(%reason, "the store refuses writes");
    }
    Ok(store)
}

/// Starts the apiserver on what is stored.
async fn start_apiserver(
    storage: SharedStorage,
    options: Options,
    follow: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) + Send,
) -> Result<ApiServer, StartError> {
    let began = Instant::now();
    let api = ApiServer::start(storage, options, follow).await?;
    info!(ms = millis(began), "apiserver started: objects loaded, initial objects created");
    Ok(api)
}

/// The host name of this machine.
#[cfg(unix)]
pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The host name that is assumed where the system has no `uname`.
#[cfg(not(unix))]
pub(crate) fn hostname() -> String {
    "localhost".to_owned()
}

/// An external etcd; it is let go of at the end of `core`.
fn external_storage(
    etcd: &ExternalEtcd,
    core: &Phase,
    nondet: &Nondet,
) -> anyhow::Result<Arc<dyn kstore_apiserver::storage::Storage>> {
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

fn unreachable_etcd(etcd: &ExternalEtcd) -> String {
    let servers: Vec<_> = etcd.servers.iter().map(ToString::to_string).collect();
    format!("cannot start on the etcd at {}", servers.join(", "))
}

/// A store with the etcd API in front of it, and nothing else.
pub(crate) async fn store_only(parts: Parts<'_>, core: &Phase, doors: &Phase) -> anyhow::Result<()> {
    let Api::Store { storage, quota, history, .. } = &parts.config.api else { unreachable!("a store alone") };
    let config = store_config(storage, *quota, parts.data_dir.as_deref());
    let store = open_store(config, storage.salvages(), &parts.nondet).await?;
    let metrics = Registry::new();
    let mut door = parts.etcd.context("a store alone has the etcd API")?;
    let shown = metrics.clone();
    door.options.extra_metrics = ExtraMetrics::new(move |page| shown.render(page));
    open_etcd(doors, &store, door, &metrics);
    keep_store(core, store, *history, &parts.nondet, &metrics);
    Ok(())
}

/// Serves the Kubernetes API and kstore's own on the one port.
fn serve_api(
    doors: &Phase,
    api: &ApiServer,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    metrics: &Registry,
) -> anyhow::Result<()> {
    let (api, mut listeners) = (api.clone(), Rebindable::new(listener)?);
    doors.supervise("apiserver", metrics, move |_| {
        let (api, tls, listener) = (api.clone(), tls.clone(), listeners.next());
        async move {
            if let Some(listener) = listener.await {
                api.serve(listener, tls).await;
            }
        }
    });
    Ok(())
}

fn open_etcd(doors: &Phase, store: &Store, door: OpenDoor, metrics: &Registry) {
    info!(url = door.options.advertised, "etcd API listening");
    let (store, options, listener) = (store.clone(), door.options, Arc::new(Mutex::new(door.listener)));
    doors.supervise("etcd", metrics, move |tasks| {
        let (store, options, listener) = (store.clone(), options.clone(), Arc::clone(&listener));
        async move {
            let bound = listener.lock().await.next().await;
            if let Some(listener) = bound {
                kstore_etcd::serve(store, listener, options, tasks.stop().clone()).await;
            }
        }
    });
}

/// Compacts the store as long as `core` lives, and closes it at its end.
fn keep_store(core: &Phase, store: Store, history: History, nondet: &Nondet, metrics: &Registry) {
    start_retention(core, &store, history, nondet, metrics);
    let stop = core.stop();
    core.spawn("store", async move {
        stop.cancelled().await;
        store.close().await;
    });
}

/// What runs beside the apiserver.
fn local_components(config: &Config) -> LocalComponents {
    let runs = |component| config.loops.contains(&component);
    LocalComponents {
        controllers: runs(Component::Controllers),
        scheduler: runs(Component::Scheduler),
        kubelets: runs(Component::KubeletSim),
    }
}

/// The configured loops, as clients of the apiserver that the kubeconfig names.
pub(crate) async fn loops_only(parts: Parts<'_>, kubeconfig: &Path, loops: &Phase) -> anyhow::Result<()> {
    let config = Kubeconfig::read(kubeconfig).map_err(|error| anyhow!("cannot use --kubeconfig: {error}"))?;
    for component in &parts.config.loops {
        let who = wiring::identity(*component);
        let client = Client::connect(&config, who.file).await?;
        let accounts = service_accounts(&config, &client)?;
        let accounts = Accounts::own(move |account| accounts.client(account));
        let ca_pem = config.ca.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let nondet = parts.nondet.clone();
        let loops = Loops {
            config: parts.config,
            nondet,
            ca_pem: &ca_pem,
            signing: None,
            metrics: Registry::new(),
            phase: loops,
        };
        // Nodes in another process have one certificate, and one user.
        loops.start(*component, client, accounts, Identities::shared());
    }
    Ok(())
}

/// Accounts of the controllers over the network, whose tokens `client` asks for.
pub(crate) fn service_accounts(
    kubeconfig: &Kubeconfig,
    client: &Client,
) -> Result<ServiceAccounts, ConnectError> {
    ServiceAccounts::connect_lazy(kubeconfig, client, "kube-system")
}

/// What the loops have in common.
struct Loops<'a> {
    config: &'a Config,
    nondet: Nondet,
    ca_pem: &'a str,
    signing: Option<Signing>,
    /// Where their figures are shown.
    metrics: Registry,
    phase: &'a Phase,
}

impl Loops<'_> {
    /// Starts all configured loops as clients of the apiserver in this process.
    fn start_beside(&self, api: &ApiServer, identities: Identities) {
        let of_account = api.clone();
        let accounts = Accounts::own(move |account| {
            Client::over(of_account.in_process(UserInfo::service_account("kube-system", account)), account)
        });
        for component in &self.config.loops {
            let client = client(api, wiring::identity(*component));
            self.start(*component, client, accounts.clone(), identities.clone());
        }
    }

    fn start(&self, component: Component, client: Client, accounts: Accounts, identities: Identities) {
        let (nondet, stop, metrics) = (self.nondet.clone(), self.phase.stop(), self.metrics.clone());
        info!(component = component.name(), "component started");
        match component {
            Component::Apiserver | Component::Store => unreachable!("{component:?} is no loop"),
            Component::Controllers => {
                let root_ca = self.ca_pem.to_owned();
                let controllers = self.config.controllers.clone();
                let config = kstore_controllers::Config {
                    root_ca,
                    controllers,
                    networks: self.config.networks.clone(),
                    accounts,
                    signing: self.signing.clone(),
                    metrics,
                    ..Default::default()
                };
                self.phase.spawn("controllers", kstore_controllers::run(client, nondet, config, stop));
            }
            Component::Scheduler => {
                let config = kstore_scheduler::Config { metrics, ..Default::default() };
                self.phase.spawn("scheduler", kstore_scheduler::run(client, nondet, config, stop));
            }
            Component::KubeletSim => {
                let nodes = self.config.nodes as usize;
                let config = kstore_kubelet_sim::Config { nodes, identities, metrics, ..Default::default() };
                self.phase.spawn("kubelet-sim", kstore_kubelet_sim::run(client, nondet, config, stop));
            }
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
