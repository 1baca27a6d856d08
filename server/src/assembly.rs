//! The control plane of this process by flags: opens its storage, and adds what only the program has: listeners, the etcd API, encryption,
//! the audit log, published authorities and the metrics server. `kstore_cluster` starts it; `wiring` calls this and ends it.

use crate::args::{
    self, ApiHere, Component, Durability, Engine, ExternalEtcd, LoopsConfig, OutboundPolicy, Quota, Storage,
    StoreAlone,
};
use crate::authorities::{self, FollowedAuthorities};
use crate::cri_node::{cri_endpoint, cri_node};
use crate::data_dir::IMPORT_FILE;
use crate::etcd_listener::BoundEtcdListener;
use crate::hostname::hostname;
use crate::listen::RebindableListener;
use crate::metrics_server::WithMetricsServer;
use crate::no_connections::NoConnections;
use crate::telemetry::millis;
use crate::{
    audit, clients, data_version, encryption, external, load_report, no_space, other_cluster, pki,
    remote_version, salvage, scheduler_config,
};
use anyhow::{Context, anyhow};
use kstore_apiserver::config::{NetworkConfig, StorageConfig};
use kstore_apiserver::{ApiServer, ServerConfig};
use kstore_client::{Client, Kubeconfig, ServerApi};
use kstore_cluster::{
    ClusterConfig, Components, ControlPlane, History, Phase, Phases, Retention, StartError,
};
use kstore_controllers::{Accounts, Signing, TokenSigner};
use kstore_etcd::ExtraMetrics;
use kstore_host_runtime::HostPrograms;
use kstore_informer::metrics::Registry;
use kstore_kubelet_sim::egress::Egress;
use kstore_nondet::Nondet;
use kstore_registry::outbound::{FrontProxy, Network, Outbound, ServiceBackends};
use kstore_scheduler::Gates;
use kstore_storage::storage::embedded::Embedded;
use kstore_store::{EngineKind, OpenError, Store};
use std::io::Write as _;
use std::path::{Path, PathBuf};
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

/// Starts the control plane and its listeners. Returns when the API answers.
pub(crate) async fn everything(parts: ClusterInputs<'_>, phases: &Phases) -> anyhow::Result<ControlPlane> {
    let ClusterInputs {
        api: flags,
        loops,
        api_listener: ApiListener { listener, tls, config, followed, front_proxy },
        ..
    } = parts;
    let (nondet, metrics) = (config.nondet.clone(), Registry::new());
    let (outbound, metrics_server) = outbound(front_proxy, flags);
    let outbound = permitted(outbound, flags, parts.data_path.as_deref());
    let encryption = encryption::open(flags, &phases.core, &nondet).await?;
    if let Some(audit) = &config.audit {
        audit::flush_at_end(&phases.core, audit.clone());
    }
    let token_signer = config.access.tokens.clone().map(kstore_cluster::token_signer);
    let etcd = flags.storage.external();
    let (storage, has_newer_data) = match etcd {
        Some(etcd) => external_storage(etcd, &phases.core, &nondet, flags).await?,
        None => own_storage(flags, parts.data_path.as_deref(), &nondet).await?,
    };
    let server = ServerConfig {
        network: NetworkConfig { outbound, streams: Some(tls.clone()), ..config.network },
        storage: StorageConfig { encryption, creates_initial_objects: !flags.is_replay, ..config.storage },
        opt_in: match has_newer_data {
            true => config.opt_in.with_newer_data(),
            false => config.opt_in,
        },
        ..config
    };
    let controllers = kstore_controllers::Config {
        unused_claims: flags.access.apis.unused_claims,
        ..controllers(loops, &parts.ca_pem, parts.signing, token_signer)
    };
    let cluster = ClusterConfig {
        storage,
        explains_no_space: no_space::explain,
        retention: retention(flags.history),
        components: components(loops, controllers, flags.access.apis.scheduler)?,
        host: (!flags.is_read_only).then(hostname),
        // Several processes may share an external etcd, and each may run these components.
        elects_leaders: loops.leader_elect.unwrap_or(etcd.is_some()),
        elects_nodes: loops.leader_elect != Some(false),
        metrics: metrics.clone(),
        phases: phases.clone(),
        ..ClusterConfig::default()
    };
    let start = start_api(server, cluster);
    let mut plane = match etcd {
        Some(etcd) => noting_wait(start, etcd).await.with_context(|| unreachable_etcd(etcd))?,
        None => start.await?,
    };
    if flags.is_read_only {
        plane.api().pipeline().freeze();
    }
    let listeners = &phases.listeners;
    if let (Some(listener), Some(store)) = (parts.etcd_listener, plane.store()) {
        open_etcd(listeners, store, listener, &metrics);
    }
    metrics_server.begin(|| clients::client(&plane, pki::METRICS_SERVER), &phases.core);
    info!(address = %listener.local_addr()?, "apiserver listening");
    if let Some(followed) = followed {
        publish_authorities(listeners, plane.api(), followed, &metrics);
    }
    serve_api(listeners, plane.api(), listener, tls, &metrics)?;
    plane.run_components();
    Ok(plane)
}

/// The way of outbound calls, unless the server calls no webhook and no API server that its data name: those of an imported cluster are
/// others' to call.
fn permitted(outbound: Arc<dyn Outbound>, flags: &ApiHere, dir: Option<&Path>) -> Arc<dyn Outbound> {
    let is_imported = || dir.is_some_and(|dir| dir.join(IMPORT_FILE).exists());
    let is_permitted = match flags.outbound {
        Some(policy) => policy == OutboundPolicy::Allow,
        None => !flags.is_read_only && !is_imported(),
    };
    if is_permitted {
        return outbound;
    }
    info!(
        "webhooks and API servers that the data name are not called; --outbound allow lets the server call them"
    );
    Arc::new(NoConnections)
}

/// The way of outbound calls, and the same value to begin the metrics server with, once there is an apiserver.
pub(crate) fn outbound(
    front_proxy: Option<FrontProxy>,
    flags: &ApiHere,
) -> (Arc<dyn Outbound>, WithMetricsServer) {
    let backends = &flags.service_backends;
    let minor = flags.access.apis.opt_in.minor();
    let outbound = WithMetricsServer::new(network(front_proxy, backends), flags.metrics, backends, minor);
    (Arc::new(outbound.clone()), outbound)
}

/// The network of outbound calls, which shows the front proxy certificate to aggregated API servers.
fn network(front_proxy: Option<FrontProxy>, backends: &ServiceBackends) -> Network {
    match front_proxy {
        Some(front_proxy) => Network::with_front_proxy(backends.clone(), front_proxy),
        None => Network::new(backends.clone()),
    }
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

/// Opens the store, and checks that its data may be served with this version of Kubernetes. Returns whether they may have members that the
/// version lacks.
async fn own_storage(
    flags: &ApiHere,
    dir: Option<&Path>,
    nondet: &Nondet,
) -> anyhow::Result<(kstore_cluster::Storage, bool)> {
    let mut config = store_config(&flags.storage, flags.quota, dir);
    // What cannot change loses nothing of what it has.
    config.limits.history_bytes = match flags.is_read_only {
        true => flags.history_bytes,
        false => history_limit(flags.quota, flags.history_bytes),
    };
    if flags.is_replay {
        // Recorded revisions were written already, however large they are.
        config.limits.txn_ops = usize::MAX;
        config.limits.request_bytes = config.limits.queue_bytes / 2;
        config.limits.quota_bytes = None;
        config.limits.history_bytes = None;
    }
    let store = open_store(config, flags.storage.salvages(), nondet).await?;
    let taken = match dir {
        None => Ok(false),
        // The recording has the revisions that a record of the version would take.
        Some(_) if flags.is_replay => Ok(false),
        Some(_) => {
            let storage = Embedded::new(store.clone());
            data_version::take_over(dir, &storage, &flags.access.apis, flags.allow_downgrade).await
        }
    };
    if taken.is_err() {
        store.close().await;
    }
    Ok((kstore_cluster::Storage::Opened(store), taken?))
}

/// Starts storage and API server, and logs how far a long start is.
async fn start_api(server: ServerConfig, cluster: ClusterConfig) -> Result<ControlPlane, StartError> {
    let began = Instant::now();
    let report = load_report::begin(Arc::clone(&server.storage.load_progress));
    let plane = ControlPlane::start_api(server, cluster).await?;
    drop(report);
    info!(ms = millis(began), "apiserver started: objects loaded, initial objects created");
    Ok(plane)
}

/// Opens an external etcd, whose connection closes when `core` ends, and checks that its data may be served with this version of
/// Kubernetes. Returns whether they may have members that the version lacks.
async fn external_storage(
    etcd: &ExternalEtcd,
    core: &Phase,
    nondet: &Nondet,
    flags: &ApiHere,
) -> anyhow::Result<(kstore_cluster::Storage, bool)> {
    let (config, network) = external::open(etcd)?;
    let storage = kstore_cluster::Storage::etcd(&config, Arc::new(network), &nondet.rng, core)?;
    let kstore_cluster::Storage::External(shared) = &storage else { return Ok((storage, false)) };
    let taken = data_version::take_over(None, &**shared, &flags.access.apis, flags.allow_downgrade);
    let has_newer_data = noting_wait(taken, etcd).await.with_context(|| unreachable_etcd(etcd))?;
    Ok((storage, has_newer_data))
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
    phases: &Phases,
) -> anyhow::Result<()> {
    let mut config = store_config(&flags.storage, flags.quota, data_path);
    // An etcd has no such bound: history counts against its quota.
    config.limits.history_bytes = flags.history_bytes;
    let store = open_store(config, flags.storage.salvages(), nondet).await?;
    let metrics = Registry::new();
    let shown = metrics.clone();
    listener.options.extra_metrics = ExtraMetrics::new(move |page| shown.render(page));
    open_etcd(&phases.listeners, &store, listener, &metrics);
    let retention = retention(flags.history);
    kstore_cluster::keep_store(&store, retention, nondet.clock, &metrics, &phases.core);
    Ok(())
}

/// Keeps the published authorities of client certificates up to date.
fn publish_authorities(
    listeners: &Phase,
    api: &ApiServer,
    followed: FollowedAuthorities,
    metrics: &Registry,
) {
    let publisher = api.clone();
    listeners.supervise("authorities", metrics, move |tasks| {
        authorities::publish_changes(publisher.clone(), followed.clone(), tasks.stop().clone())
    });
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

/// The history that automatic compaction keeps. Its bound in bytes is [`history_limit`].
pub(crate) fn retention(history: args::History) -> Retention {
    Retention::of(match history {
        args::History::For(kept) => History::For(kept),
        args::History::Revisions(kept) => History::Revisions(kept),
        args::History::All => History::All,
    })
}

/// The most bytes of a cluster's history: those of `--history`, else half of the quota. `None` without both.
pub(crate) fn history_limit(quota: Quota, bytes: Option<u64>) -> Option<u64> {
    bytes.or_else(|| {
        let mut config = kstore_store::Config::memory();
        limit_bytes(&mut config, quota);
        config.limits.quota_bytes.map(|quota| (quota / 2).max(1))
    })
}

/// The components that run beside the API server. The scheduler has the feature gates `gates`.
pub(crate) fn components(
    loops: &LoopsConfig,
    controllers: kstore_controllers::Config,
    gates: Gates,
) -> anyhow::Result<Components> {
    let runs = |component| loops.components.contains(&component);
    let nodes = runs(Component::KubeletSim).then(|| nodes(loops, true)).transpose()?;
    Ok(Components {
        controllers: runs(Component::Controllers).then(|| Box::new(controllers)),
        scheduler: runs(Component::Scheduler).then(|| Box::new(scheduler_config::config(loops, gates))),
        nodes: nodes.map(Box::new),
    })
}

/// The controllers' configuration, without accounts. `ca_pem` is the authority by which pods verify the apiserver.
pub(crate) fn controllers(
    loops: &LoopsConfig,
    ca_pem: &str,
    signing: Option<Signing>,
    token_signer: Option<TokenSigner>,
) -> kstore_controllers::Config {
    kstore_controllers::Config {
        root_ca: ca_pem.to_owned(),
        controllers: loops.controllers.clone(),
        networks: loops.networks.clone(),
        signing,
        token_signer,
        ..Default::default()
    }
}

/// The configuration of the simulated nodes, without identities. `has_cluster`: the API server is in this process.
fn nodes(loops: &LoopsConfig, has_cluster: bool) -> anyhow::Result<kstore_kubelet_sim::Config> {
    Ok(kstore_kubelet_sim::Config {
        nodes: loops.nodes as usize,
        name_prefix: loops.simulation.node_prefix.0.clone(),
        adopts_marked_nodes: loops.simulation.adoption == args::Adoption::Marked,
        has_sim_api: loops.simulation.is_active(),
        sim_objects: loops.simulation.documents.0.clone(),
        stages: Arc::clone(&loops.simulation.stages.0),
        missing_images: loops.missing_images.clone(),
        enforces_network_policies: !loops.ignores_network_policies,
        programs: host_programs(loops, has_cluster),
        egress: Arc::new(Egress::new(loops.egress.clone(), loops.host_services.clone())),
        cri: cri_node(&loops.cri)?,
        cri_endpoint: cri_endpoint(loops.cri_listen.as_ref())?,
        ..Default::default()
    })
}

/// The programs of this machine that run as containers, if images are mapped to any.
fn host_programs(loops: &LoopsConfig, has_cluster: bool) -> Option<Arc<HostPrograms>> {
    let images = &loops.images;
    if images.is_empty() {
        return None;
    }
    // Not `current_exe`: this link stays valid after the file was replaced by a newer build.
    let launcher = "/proc/self/exe".into();
    let programs = HostPrograms::new(images.iter().cloned().collect(), launcher, &std::env::temp_dir());
    let programs = if loops.shares_network { programs.sharing_network() } else { programs };
    match programs.confinement() {
        Ok(how) => {
            let limits = programs.enforcement().map(ToString::to_string).unwrap_or_default();
            info!("host programs: {how}; limits: {limits}");
            match (programs.refusal(has_cluster), programs.network()) {
                (Some(why), _) => warn!("no container runs a program of --image: {why}"),
                (None, Err(why)) => warn!(
                    "programs of --image have the network of this machine, and none of their own, as --image-host-network says: {why}"
                ),
                (None, Ok(())) if !has_cluster => warn!(
                    "programs of --image have the network of this machine, as --image-host-network says: the API server is in another process"
                ),
                (None, Ok(())) => {}
            }
        }
        Err(why) => warn!("no container runs a program of --image: {why}"),
    }
    Some(Arc::new(programs))
}

/// Starts the configured loops as clients of the apiserver that the kubeconfig names.
pub(crate) async fn loops_only(
    loops: &LoopsConfig,
    kubeconfig: &Path,
    nondet: &Nondet,
    phase: &Phase,
) -> anyhow::Result<()> {
    let config = Kubeconfig::read(kubeconfig).map_err(|error| anyhow!("cannot use --kubeconfig: {error}"))?;
    let mut served = None;
    for component in &loops.components {
        let (client, api) = other_cluster::connect(&config, *component).await?;
        let minor = match served {
            Some(minor) => minor,
            None => *served.insert(remote_version::served(&client).await),
        };
        // `--feature-gates` is a flag of the API server, in another process here: its version's gates are as by default.
        let has_gate = |name: &str| args::has_gate(minor, name, &[]);
        // A separate connection: other requests must not delay the renewal of the Lease.
        let lease_client = match loops.leader_elect {
            Some(false) => None,
            Some(true) | None => Some(Client::connect_lazy_to(&config, "leader-election", api)?),
        };
        let metrics = Registry::new();
        let component = match component {
            Component::Apiserver | Component::Store => unreachable!("{component:?} does not run as a loop"),
            Component::Controllers => {
                let ca_pem = config.ca.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                let accounts = clients::service_accounts(&config, &client)?;
                let accounts = Accounts::own(move |account| accounts.client(account));
                let controllers = controllers(loops, &ca_pem, None, None);
                let (metrics, unused_claims) = (metrics.clone(), has_gate(args::UNUSED_CLAIMS));
                let controllers =
                    kstore_controllers::Config { accounts, metrics, minor, unused_claims, ..controllers };
                kstore_cluster::Component::controllers(controllers, client, nondet)
            }
            Component::Scheduler => {
                let config = scheduler_config::config(loops, Gates::of(has_gate));
                let scheduler = kstore_scheduler::Config { metrics: metrics.clone(), minor, ..config };
                kstore_cluster::Component::scheduler(scheduler, client, nondet)
            }
            Component::KubeletSim => {
                // Nodes in another process share one certificate and therefore one user.
                let nodes = kstore_kubelet_sim::Config { metrics: metrics.clone(), ..nodes(loops, false)? };
                let nodes = nodes.of_release(minor);
                let nodes = match api {
                    ServerApi::Kstore => nodes,
                    ServerApi::Kubernetes => {
                        other_cluster::nodes(nodes, &client, !loops.simulation.is_unguarded).await?
                    }
                };
                phase.spawn("kubelet-sim-announcement", announce_nodes(nodes.clone(), phase.stop()));
                kstore_cluster::Component::nodes(nodes, client, nondet)
            }
        };
        let candidate = kstore_cluster::candidate(&hostname(), nondet);
        let elector = lease_client.and_then(|client| component.elector(&client, &candidate, &metrics));
        component.start(elector, phase);
    }
    Ok(())
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
    limit_bytes(&mut config, quota);
    config
}

/// The configuration of a cluster's store in memory.
pub(crate) fn store_in_memory(quota: Quota, history_bytes: Option<u64>) -> kstore_store::Config {
    let mut config = kstore_store::Config::memory();
    limit_bytes(&mut config, quota);
    config.limits.history_bytes = history_limit(quota, history_bytes);
    config
}

fn limit_bytes(config: &mut kstore_store::Config, quota: Quota) {
    match quota {
        Quota::Default => {}
        Quota::Bytes(bytes) => config.limits.quota_bytes = Some(bytes),
        Quota::None => config.limits.quota_bytes = None,
    }
}
