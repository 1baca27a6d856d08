//! The composition, top to bottom: what a cluster in one process consists of, in the order in which it starts, and in which
//! order it ends. Which crate's function starts a part is in `assembly`; rules are nowhere here.

use crate::args::{Api, Component, Config, EtcdDoor, MetricsServer, Storage};
use crate::assembly::{self, Door, Parts};
use crate::data_dir::DataDir;
use crate::etcd_door::{self, OpenDoor};
use crate::files::write_private;
use crate::memory_file::MemoryFile;
use crate::open_files;
use crate::phase::Phase;
use crate::pki::{self, Identity, Pki};
use crate::ready::Ready;
use crate::shutdown::{GRACE, Signals};
use crate::socket_file::SocketFile;
use crate::telemetry::millis;
use crate::{audit, kubeconfig, listen, metrics_server, tls};
use anyhow::{Context, bail};
use kstore_apiserver::outbound::FrontProxy;
use kstore_apiserver::{ApiServer, ServiceRanges, Settings};
use kstore_client::Client;
use kstore_nondet::Nondet;
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Runs a cluster until a signal or a failure ends it.
pub(crate) fn serve(config: Config) -> anyhow::Result<ExitCode> {
    serve_started(async { start(&config).await })
}

/// Runs a cluster that starts with this future until a signal or a failure ends it.
pub(crate) fn serve_started(
    starting: impl Future<Output = anyhow::Result<Cluster>>,
) -> anyhow::Result<ExitCode> {
    block_on(async {
        let mut signals = Signals::catch()?;
        let cluster = tokio::select! {
            biased;
            caught = signals.next() => return Ok(ExitCode::from(caught.exit_code())),
            started = starting => started?,
        };
        if let Some(ready) = &cluster.ready {
            // The write fails if standard output is closed; the cluster runs on.
            let _ = writeln!(std::io::stdout(), "{ready}");
        }
        tokio::select! {
            biased;
            () = cluster.failed.cancelled() => {
                cluster.stop().await;
                bail!("a part of the control plane ended unexpectedly; the log above says which");
            }
            caught = signals.next() => info!(signal = ?caught, "stopping"),
        }
        tokio::select! {
            biased;
            () = cluster.stop() => Ok(ExitCode::SUCCESS),
            caught = signals.next() => Ok(ExitCode::from(caught.exit_code())),
        }
    })
}

/// Runs a future on a runtime of our size, on this thread. Two to four workers: a control plane is mostly idle, and threads
/// cost memory.
pub(crate) fn block_on<F: Future<Output = anyhow::Result<ExitCode>>>(future: F) -> anyhow::Result<ExitCode> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(2, 4))
        .thread_name("kstore")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(future);
    // What is still running has had its time.
    runtime.shutdown_background();
    outcome
}

/// A running cluster, or the loops of one whose apiserver is elsewhere.
pub(crate) struct Cluster {
    failed: CancellationToken,
    doors: Phase,
    loops: Phase,
    core: Phase,
    admin_kubeconfig: String,
    /// The apiserver, if it is in this process.
    api: Option<ApiServer>,
    ready: Option<Ready>,
    /// The socket of the etcd API, if it has one.
    etcd_socket: Option<Arc<SocketFile>>,
    // Held until the end: the data directory for us alone, and the kubeconfig that is nowhere on disk.
    _data_dir: Option<DataDir>,
    _memory_file: Option<MemoryFile>,
}

/// Starts what `config` asks for; on return the API answers.
pub(crate) async fn start(config: &Config) -> anyhow::Result<Cluster> {
    let (began, mut cluster) = (Instant::now(), Cluster::new());
    let nondet = Nondet::real();
    match &config.api {
        Api::Elsewhere(kubeconfig) => {
            let ca_pem = String::new();
            let parts =
                Parts { config, nondet, door: None, etcd: None, data_dir: None, ca_pem, signing: None };
            assembly::loops_only(parts, kubeconfig, &cluster.loops).await?;
        }
        Api::Store { storage, etcd, .. } => cluster.start_store(config, nondet, storage, etcd).await?,
        Api::Here { etcd, .. } => {
            let mut etcd = match etcd {
                Some(door) => {
                    etcd_door::warn_beside_apiserver(door);
                    Some(etcd_door::open(door).await?)
                }
                None => None,
            };
            cluster.etcd_socket = etcd.as_ref().and_then(|door| door.listener.socket_file());
            // Two listeners share the files of the process.
            let connections = open_files::raise() / if etcd.is_some() { 2 } else { 1 };
            if let Some(door) = &mut etcd {
                door.options.connections = connections;
            }
            cluster.start_here(config, nondet, etcd, connections).await?;
        }
    }
    info!(ms = millis(began), version = crate::VERSION, "ready");
    Ok(cluster)
}

impl Cluster {
    /// Runs a task that lets clients in, until the cluster stops. It must not end before.
    pub(crate) fn run_door<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.doors.spawn(name, task(self.doors.stop()));
    }

    /// Runs a task that is a client of the API, until the cluster stops. It must not end before.
    pub(crate) fn run_loop<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.loops.spawn(name, task(self.loops.stop()));
    }

    /// With nothing in it.
    pub(crate) fn new() -> Self {
        let failed = CancellationToken::new();
        Self {
            doors: Phase::new("doors", &failed),
            loops: Phase::new("loops", &failed),
            core: Phase::new("core", &failed),
            failed,
            admin_kubeconfig: String::new(),
            api: None,
            ready: None,
            etcd_socket: None,
            _data_dir: None,
            _memory_file: None,
        }
    }

    /// An apiserver on an external etcd whose certificates and keys are the caller's; it writes nothing to disk. `root_ca` is what pods
    /// verify it by.
    pub(crate) async fn start_apiserver(
        config: &Config,
        nondet: Nondet,
        door: Door,
        root_ca: String,
    ) -> anyhow::Result<Self> {
        let cluster = Self::new();
        let parts = Parts {
            config,
            nondet,
            door: Some(door),
            etcd: None,
            data_dir: None,
            ca_pem: root_ca,
            signing: None,
        };
        assembly::everything(parts, &cluster.core, &cluster.doors, &cluster.loops).await?;
        Ok(cluster)
    }

    async fn start_store(
        &mut self,
        config: &Config,
        nondet: Nondet,
        storage: &Storage,
        door: &EtcdDoor,
    ) -> anyhow::Result<()> {
        let data_dir = data_dir(storage)?;
        let mut door = etcd_door::open(door).await?;
        door.options.connections = open_files::raise();
        self.etcd_socket = door.listener.socket_file();
        let url = door.options.advertised.clone();
        let data_path = data_dir.as_ref().map(|d| d.path().to_owned());
        let ca_pem = String::new();
        let parts = Parts {
            config,
            nondet,
            door: None,
            etcd: Some(door),
            data_dir: data_path,
            ca_pem,
            signing: None,
        };
        assembly::store_only(parts, &self.core, &self.doors).await?;
        self.ready = Some(Ready { api: None, etcd: Some(url), in_memory: data_dir.is_none() });
        self._data_dir = data_dir;
        Ok(())
    }

    async fn start_here(
        &mut self,
        config: &Config,
        nondet: Nondet,
        etcd: Option<OpenDoor>,
        connections: usize,
    ) -> anyhow::Result<()> {
        let Api::Here {
            storage,
            listen,
            service_ranges: ranges,
            write_kubeconfig: copy,
            audit,
            access,
            metrics,
            ..
        } = &config.api
        else {
            unreachable!("the apiserver is here")
        };
        let audit = audit.as_ref().map(|audit| audit::open(audit, &nondet)).transpose()?;
        let bearers = crate::access::bearers(&access.authentication, &nondet.rng)?;
        let authorization = crate::access::modes(access.authorization.as_ref(), &nondet.rng)?;
        let data_dir = data_dir(storage)?;
        let listener = listen::bind(listen, "--listen").await?;
        let address = listen::reachable(&listener)?;
        check_family(ranges, address)?;
        let (now, began) = (nondet.clock.now(), Instant::now());
        let pki = match &data_dir {
            None => Pki::in_memory(now)?,
            Some(dir) => Pki::open(&dir.path().join("pki"), now)?,
        };
        let tls = tls::server(&pki, &pki.serving(&listen.host, ranges.api_address())?)?;
        let tokens = Arc::new(pki.service_account_key()?);
        let (credential, front_proxy_ca) = pki.front_proxy()?;
        let front_proxy = FrontProxy::from_pem(&credential.certificate_pem, &credential.key_pem)?;
        info!(ms = millis(began), "certificates and keys loaded");
        let advertised = address.to_string();
        let door = Some(Door {
            listener,
            tls,
            advertised,
            tokens,
            client_ca: Some(pki.ca_pem().to_owned()),
            front_proxy: Some(front_proxy),
            front_proxy_ca: Some(front_proxy_ca),
            settings: Settings { audit, bearers, authorization, ..Settings::default() },
            connections,
        });
        let data_path = data_dir.as_ref().map(|d| d.path().to_owned());
        let etcd_url = etcd.as_ref().map(|door| door.options.advertised.clone());
        let (ca_pem, signing) = (pki.ca_pem().to_owned(), Some(pki.signing()?));
        let parts = Parts { config, nondet, door, etcd, data_dir: data_path, ca_pem, signing };
        self.api = Some(assembly::everything(parts, &self.core, &self.doors, &self.loops).await?);

        // Only now: a kubeconfig that exists works.
        self.admin_kubeconfig = kubeconfig_of(&pki, address, &pki::ADMIN)?;
        let admin = &self.admin_kubeconfig;
        let written = data_dir.as_ref().map(|dir| write_kubeconfigs(dir.path(), &pki, address, admin));
        let path = written.transpose()?;
        if let Some(copy) = copy {
            write_kubeconfig(copy, &self.admin_kubeconfig)?;
        }
        let path = match path.or_else(|| copy.clone()) {
            Some(path) => path,
            None => {
                let file = MemoryFile::new("kubeconfig", self.admin_kubeconfig.as_bytes())?;
                let path = file.path().to_owned();
                self._memory_file = Some(file);
                path
            }
        };
        self.ready =
            Some(Ready { api: Some((address, path)), etcd: etcd_url, in_memory: data_dir.is_none() });
        self._data_dir = data_dir;
        // Last, so that the start does not wait for it.
        self.keep_metrics_server(*metrics);
        Ok(())
    }

    /// Creates or deletes the objects of the metrics server in the background.
    fn keep_metrics_server(&self, choice: MetricsServer) {
        if let Some(client) = self.client() {
            self.run_loop("metrics-server", |stop| metrics_server::keep_objects(client, choice, stop));
        }
    }

    /// The kubeconfig of the admin; empty if the apiserver is elsewhere.
    pub(crate) fn admin_kubeconfig(&self) -> &str {
        &self.admin_kubeconfig
    }

    /// A client of the apiserver in this process, as the admin; none if the apiserver is elsewhere. What it writes has the field manager
    /// `kstore-server`.
    pub(crate) fn client(&self) -> Option<Client> {
        self.api.as_ref().map(|api| assembly::client(api, pki::ADMIN).agent("kstore-server"))
    }

    /// Stops the cluster: first the listeners close, then the loops finish their current work, then the core closes the store.
    pub(crate) async fn stop(&self) {
        let deadline = Instant::now() + GRACE;
        self.doors.end(deadline).await;
        if let Some(socket) = &self.etcd_socket {
            socket.remove();
        }
        self.loops.end(deadline).await;
        self.core.end(deadline).await;
        info!("stopped");
    }
}

/// The API's own service has an address of the first network, and leads here: they must be of one family, as with kube-apiserver.
pub(crate) fn check_family(ranges: &ServiceRanges, address: SocketAddr) -> anyhow::Result<()> {
    let primary = ranges.primary();
    if primary.is_ipv4() != address.is_ipv4() {
        let public = address.ip().to_string();
        bail!("service IP family {:?} must match public address family {public:?}", primary.to_string());
    }
    Ok(())
}

fn data_dir(storage: &Storage) -> anyhow::Result<Option<DataDir>> {
    storage.dir().map(|dir| DataDir::open(&dir)).transpose()
}

/// All kubeconfigs of a data directory; returns the admin's.
fn write_kubeconfigs(dir: &Path, pki: &Pki, address: SocketAddr, admin: &str) -> anyhow::Result<PathBuf> {
    for who in [pki::CONTROLLERS, pki::SCHEDULER, pki::KUBELET_SIM] {
        write_kubeconfig(&dir.join(format!("{}.kubeconfig", who.file)), &kubeconfig_of(pki, address, &who)?)?;
    }
    let path = dir.join("admin.kubeconfig");
    write_kubeconfig(&path, admin)?;
    Ok(path)
}

fn kubeconfig_of(pki: &Pki, address: SocketAddr, who: &Identity) -> anyhow::Result<String> {
    Ok(kubeconfig::render(address, pki.ca_pem(), who.user, &pki.client(who)?))
}

fn write_kubeconfig(path: &Path, text: &str) -> anyhow::Result<()> {
    write_private(path, text.as_bytes())
        .with_context(|| format!("cannot write the kubeconfig {}", path.display()))
}

/// The identity that a loop presents to the apiserver, in this process or in another.
pub(crate) fn identity(component: Component) -> Identity {
    match component {
        Component::Apiserver | Component::Store => pki::ADMIN,
        Component::Controllers => pki::CONTROLLERS,
        Component::Scheduler => pki::SCHEDULER,
        Component::KubeletSim => pki::KUBELET_SIM,
    }
}
