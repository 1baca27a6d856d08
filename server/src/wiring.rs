//! The start and end of a process: a control plane, a store alone, or components of a control plane elsewhere, with the files around them.
//! `assembly` makes the control plane.

use crate::args::{
    Api, ApiHere, Config, LabFlags, ListenAddress, LoopsConfig, MetricsServer, Storage, StoreAlone,
};
use crate::assembly::{self, ApiListener, ClusterInputs};
use crate::data_dir::DataDir;
use crate::etcd_listener::{self, BoundEtcdListener};
use crate::files::write_private;
use crate::forward::{self, BoundForward, ShownForward};
use crate::kubeconfig::ServerAddress;
use crate::lab::RunningLab;
use crate::memory_file::MemoryFile;
use crate::pki::{self, Identity, Pki};
use crate::ready::{FAREWELL, ReadyMessage};
use crate::shutdown::{CaughtSignal, GRACE, Signals};
use crate::socket_file::SocketFile;
use crate::telemetry::millis;
use crate::tls::ServingCertificate;
use crate::{
    autoscaler, clients, kubeconfig, listen, metrics_server, open_files, runtime, server_config, simulation,
    tls,
};
use anyhow::{Context, bail};
use kstore_api::version::Minor;
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::{AccessConfig, AuthoritiesConfig, NetworkConfig};
use kstore_client::Client;
use kstore_cluster::{ControlPlane, Phases};
use kstore_nondet::Nondet;
use kstore_registry::outbound::FrontProxy;
use kstore_registry::service_ranges::ServiceRanges;
use kstore_store::Store;
use std::future::Future;
use std::io::{IsTerminal as _, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Runs a cluster until a signal or a failure.
pub(crate) fn serve(config: Config) -> anyhow::Result<ExitCode> {
    serve_started(async { start(&config).await })
}

/// Starts a cluster by this future, and runs it until a signal or a failure.
pub(crate) fn serve_started(
    starting: impl Future<Output = anyhow::Result<Cluster>>,
) -> anyhow::Result<ExitCode> {
    runtime::block_on(async {
        let mut signals = Signals::catch()?;
        let cluster = tokio::select! {
            biased;
            caught = signals.next() => return Ok(ExitCode::from(caught.exit_code())),
            started = starting => started?,
        };
        if let Some(ready) = &cluster.ready {
            // The reader of standard output may have exited; the cluster runs on.
            let _ = writeln!(std::io::stdout(), "{ready}");
        }
        let caught = tokio::select! {
            biased;
            () = cluster.phases.failed().cancelled() => {
                cluster.stop().await;
                bail!("a component of the control plane ended unexpectedly; see the log above");
            }
            caught = signals.next() => caught,
        };
        if caught == CaughtSignal::Interrupt && std::io::stdout().is_terminal() {
            // The terminal shows `^C`; what follows starts on a line of its own.
            let _ = writeln!(std::io::stdout());
        }
        info!(signal = ?caught, "stopping");
        tokio::select! {
            biased;
            () = cluster.stop() => {}
            again = signals.next() => return Ok(ExitCode::from(again.exit_code())),
        }
        if cluster.ready.is_some() {
            let _ = writeln!(std::io::stdout(), "{FAREWELL}");
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A running cluster, or the loops of a cluster whose apiserver is elsewhere.
pub(crate) struct Cluster {
    phases: Phases,
    admin_kubeconfig: String,
    /// The control plane, if its apiserver runs in this process.
    plane: Option<ControlPlane>,
    /// The lab, which then has the control plane.
    lab: Option<Arc<RunningLab>>,
    ready: Option<ReadyMessage>,
    /// Addresses of this machine that lead to Services and pods.
    forwards: Vec<ShownForward>,
    /// The Unix socket of the etcd API, if there is one.
    etcd_socket: Option<Arc<SocketFile>>,
    // Held until the end: the lock of the data directory, and the kubeconfig that is only in memory.
    _data_dir: Option<DataDir>,
    _memory_file: Option<MemoryFile>,
}

/// Starts the parts that `config` selects. Returns when the API answers.
pub(crate) async fn start(config: &Config) -> anyhow::Result<Cluster> {
    start_with(config, Nondet::real()).await
}

/// Starts like [`start`], with this clock and randomness.
pub(crate) async fn start_with(config: &Config, nondet: Nondet) -> anyhow::Result<Cluster> {
    let config = &Config { api: config.api.clone(), loops: simulation::with_documents(&config.loops)? };
    let (began, mut cluster) = (Instant::now(), Cluster::new());
    if let Err(error) = start_parts(config, nondet, &mut cluster).await {
        // The tasks end because the start failed, not the other way around.
        cluster.phases.cancel();
        return Err(error);
    }
    info!(ms = millis(began), version = crate::VERSION, "ready");
    Ok(cluster)
}

async fn start_parts(config: &Config, nondet: Nondet, cluster: &mut Cluster) -> anyhow::Result<()> {
    let is_alone = matches!(&config.api, Api::Here(api) if api.lab.is_none());
    if config.loops.simulation.autoscaler.is_some() && !is_alone {
        bail!(
            "--autoscaler-listen needs the API server in this process, and one cluster: leave --lab and --kubeconfig out"
        );
    }
    match &config.api {
        Api::Elsewhere(kubeconfig) => {
            assembly::loops_only(&config.loops, kubeconfig, &nondet, &cluster.phases.loops).await?;
        }
        Api::Store(store) => cluster.start_store(store, &nondet).await?,
        Api::Here(api) => {
            if let Some(flags) = &api.lab {
                return cluster.start_lab((api, &config.loops), flags).await;
            }
            let mut etcd = match &api.etcd {
                Some(listen) => {
                    let bound = etcd_listener::open(listen).await?;
                    etcd_listener::warn_beside_apiserver(listen);
                    Some(bound)
                }
                None => None,
            };
            cluster.etcd_socket = etcd.as_ref().and_then(|bound| bound.listener.socket_file());
            // Both listeners share the process's open files.
            let connections = open_files::raise() / if etcd.is_some() { 2 } else { 1 };
            if let Some(bound) = &mut etcd {
                bound.options.connections = connections;
            }
            cluster.start_here((api, &config.loops), nondet, etcd, connections).await?;
        }
    }
    Ok(())
}

impl Cluster {
    /// Runs a task that accepts connections, until the cluster stops. It must not end before.
    pub(crate) fn run_listener<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.phases.listeners.spawn(name, task(self.phases.listeners.stop()));
    }

    /// Runs a task that is a client of the API, until the cluster stops. It must not end before.
    pub(crate) fn run_loop<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.phases.loops.spawn(name, task(self.phases.loops.stop()));
    }

    /// A cluster without any part.
    pub(crate) fn new() -> Self {
        Self {
            phases: Phases::default(),
            admin_kubeconfig: String::new(),
            plane: None,
            lab: None,
            ready: None,
            forwards: Vec::new(),
            etcd_socket: None,
            _data_dir: None,
            _memory_file: None,
        }
    }

    /// Starts an apiserver on an external etcd with the caller's certificates and keys. It writes nothing to
    /// disk. `root_ca` is the PEM by which pods verify the apiserver.
    pub(crate) async fn start_apiserver(
        api: &ApiHere,
        loops: &LoopsConfig,
        api_listener: ApiListener,
        root_ca: String,
    ) -> anyhow::Result<Self> {
        let mut cluster = Self::new();
        let parts = ClusterInputs {
            api,
            loops,
            api_listener,
            etcd_listener: None,
            data_path: None,
            ca_pem: root_ca,
            signing: None,
        };
        cluster.plane = Some(assembly::everything(parts, &cluster.phases).await?);
        Ok(cluster)
    }

    async fn start_store(&mut self, store: &StoreAlone, nondet: &Nondet) -> anyhow::Result<()> {
        let data_dir = data_dir(&store.storage)?;
        let mut bound = etcd_listener::open(&store.etcd).await?;
        bound.options.connections = open_files::raise();
        self.etcd_socket = bound.listener.socket_file();
        let url = bound.options.advertised.clone();
        let data_path = data_dir.as_ref().map(DataDir::path);
        assembly::store_only(store, data_path, bound, nondet, &self.phases).await?;
        self.ready =
            Some(ReadyMessage { etcd: Some(url), in_memory: data_dir.is_none(), ..ReadyMessage::default() });
        self._data_dir = data_dir;
        Ok(())
    }

    /// Makes the administrator's kubeconfig a file without a folder, which lives as long as this process; returns its path.
    fn keep_kubeconfig_in_memory(&mut self) -> anyhow::Result<PathBuf> {
        let file = MemoryFile::new("kubeconfig", self.admin_kubeconfig.as_bytes())?;
        let path = file.path().to_owned();
        self._memory_file = Some(file);
        Ok(path)
    }

    async fn start_here(
        &mut self,
        (api, loops): (&ApiHere, &LoopsConfig),
        nondet: Nondet,
        etcd_listener: Option<BoundEtcdListener>,
        connections: usize,
    ) -> anyhow::Result<()> {
        let config = server_config::by_flags(api, &nondet)?;
        let data_dir = data_dir(&api.storage)?;
        let listener = listen::bind(&api.listen, "--listen").await?;
        let address = listen::reachable(&listener)?;
        let forwards = forward::bind(&api.forwards).await?;
        check_family(&api.service_ranges, address)?;
        // By the clock of clients, which judge the certificates.
        let (now, began) = (Nondet::real().clock.now(), Instant::now());
        let pki = match &data_dir {
            None => Pki::in_memory(now)?,
            Some(dir) => Pki::open(&dir.path().join("pki"), now)?,
        };
        let serving = pki.serving(&api.listen.host, api.service_ranges.api_address())?;
        let serving = ServingCertificate::of(&serving, pki.serving_files())?;
        let tls = tls::server(serving, Some(tls::client_verifier(pki.ca_pem())?))?;
        let tokens = Arc::new(pki.service_account_key()?);
        let (credential, front_proxy_ca) = pki.front_proxy()?;
        let front_proxy = FrontProxy::from_pem(&credential.certificate_pem, &credential.key_pem)?;
        info!(ms = millis(began), "certificates and keys loaded");
        let config = ServerConfig {
            network: NetworkConfig { advertised: address.to_string(), connections, ..config.network },
            authorities: AuthoritiesConfig {
                client_ca: Some(pki.ca_pem().to_owned()),
                front_proxy_ca: Some(front_proxy_ca),
                front_proxies: None,
            },
            access: AccessConfig { tokens: Some(tokens), ..config.access },
            ..config
        };
        let front_proxy = Some(front_proxy);
        let api_listener = ApiListener { listener, tls, config, followed: None, front_proxy };
        let data_path = data_dir.as_ref().map(|d| d.path().to_owned());
        let etcd_url = etcd_listener.as_ref().map(|bound| bound.options.advertised.clone());
        let (ca_pem, signing) = (pki.ca_pem().to_owned(), Some(pki.signing()?));
        let parts = ClusterInputs { api, loops, api_listener, etcd_listener, data_path, ca_pem, signing };
        self.plane = Some(assembly::everything(parts, &self.phases).await?);
        self.forward(forwards);

        // Written last: an existing kubeconfig works.
        let name = kubeconfig::cluster_name(api.name.as_deref(), data_dir.as_ref().map(DataDir::path));
        let files = KubeconfigWriter { pki: &pki, address, cluster: &name };
        self.admin_kubeconfig = files.text(&pki::ADMIN)?;
        let admin = &self.admin_kubeconfig;
        let written = data_dir.as_ref().map(|dir| files.write_all(dir.path(), admin));
        let path = written.transpose()?;
        let copy = &api.write_kubeconfig;
        if let Some(copy) = copy {
            write_kubeconfig(copy, &self.admin_kubeconfig)?;
        }
        let path = match path.or_else(|| copy.clone()) {
            Some(path) => path,
            None => self.keep_kubeconfig_in_memory()?,
        };
        let (api_at, in_memory) = (Some((address, path)), data_dir.is_none());
        let forwards = self.forwards.iter().map(ToString::to_string).collect();
        self.ready = Some(ReadyMessage { api: api_at, etcd: etcd_url, lab: None, forwards, in_memory });
        self._data_dir = data_dir;
        if api.is_read_only {
            return Ok(());
        }
        // In the background, so that the start does not wait for it.
        self.keep_metrics_server(api.metrics, api.access.apis.opt_in.minor());
        self.serve_autoscaler(loops.simulation.autoscaler.as_ref(), api.access.apis.opt_in.minor()).await
    }

    /// Accepts the calls of a Cluster Autoscaler, if an address is given.
    async fn serve_autoscaler(&self, address: Option<&ListenAddress>, minor: Minor) -> anyhow::Result<()> {
        let (Some(address), Some(plane)) = (address, &self.plane) else { return Ok(()) };
        let listener = autoscaler::bind(address).await?;
        info!(address = %listen::reachable(&listener)?, "listening for a Cluster Autoscaler");
        let client = clients::client(plane, pki::AUTOSCALER);
        self.run_listener("autoscaler", |stop| autoscaler::serve(listener, client, minor, stop));
        Ok(())
    }

    /// Serves the forwards, as clients of the API server in this process.
    fn forward(&mut self, bound: Vec<BoundForward>) {
        self.forwards = bound.iter().map(BoundForward::shown).collect();
        let Some((plane, client)) = self.plane.as_ref().zip(self.client()) else { return };
        for forward in bound {
            let (api, client) = (plane.api().clone(), client.clone());
            self.run_listener("forward", |stop| forward.serve(api, client, stop));
        }
    }

    /// The addresses of this machine that lead to Services and pods.
    pub(crate) fn forwards(&self) -> &[ShownForward] {
        &self.forwards
    }

    /// Starts the lab with its first cluster, in memory.
    async fn start_lab(
        &mut self,
        (api, loops): (&ApiHere, &LoopsConfig),
        flags: &LabFlags,
    ) -> anyhow::Result<()> {
        let starting = Box::pin(RunningLab::start((api, loops), flags, open_files::raise()));
        let lab = Arc::new(starting.await?);
        // Kept first, so that a failure below ends it.
        self.lab = Some(lab.clone());
        check_family(&api.service_ranges, lab.address())?;
        let name = kubeconfig::cluster_name(api.name.as_deref(), None);
        self.admin_kubeconfig = lab.admin_kubeconfig(&name)?;
        if let Some(copy) = &api.write_kubeconfig {
            write_kubeconfig(copy, &self.admin_kubeconfig)?;
        }
        let path = match &api.write_kubeconfig {
            Some(copy) => copy.clone(),
            None => self.keep_kubeconfig_in_memory()?,
        };
        let (address, line) = (lab.address(), lab.line());
        let api = Some((address, path));
        self.ready = Some(ReadyMessage { api, lab: Some(line), in_memory: true, ..ReadyMessage::default() });
        // A component that ends makes this task end, and that the process.
        self.run_loop("lab", |stop| async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = lab.failed() => {}
            }
        });
        Ok(())
    }

    /// The lab, if it is served.
    pub(crate) fn lab(&self) -> Option<&Arc<RunningLab>> {
        self.lab.as_ref()
    }

    /// Creates or deletes the objects of the metrics server in the background.
    fn keep_metrics_server(&self, choice: MetricsServer, minor: Minor) {
        if let Some(client) = self.client() {
            self.run_loop("metrics-server", |stop| {
                metrics_server::keep_objects(client, (choice, minor), stop)
            });
        }
    }

    /// The store of the API server in this process; `None` on an external etcd.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.plane.as_ref()?.store()
    }

    /// The admin's kubeconfig; empty if the apiserver is elsewhere.
    pub(crate) fn admin_kubeconfig(&self) -> &str {
        &self.admin_kubeconfig
    }

    /// URL of the etcd API, if it is served.
    pub(crate) fn etcd_url(&self) -> Option<&str> {
        self.ready.as_ref()?.etcd.as_deref()
    }

    /// A client of the apiserver in this process, as the admin, with the field manager `kstore-server`.
    /// `None` if the apiserver is elsewhere.
    pub(crate) fn client(&self) -> Option<Client> {
        self.plane.as_ref().map(|plane| clients::client(plane, pki::ADMIN).agent("kstore-server"))
    }

    /// Stops the cluster in order: listeners close, then loops finish their current work, then the core
    /// closes the store.
    pub(crate) async fn stop(&self) {
        let (deadline, phases) = (Some(Instant::now() + GRACE), &self.phases);
        if let Some(lab) = &self.lab {
            // The clusters that do not end in time end with the process.
            let _ = tokio::time::timeout(GRACE, lab.end()).await;
        }
        phases.listeners.end(deadline).await;
        if let Some(socket) = &self.etcd_socket {
            socket.remove();
        }
        phases.loops.end(deadline).await;
        phases.core.end(deadline).await;
        info!("stopped");
    }
}

/// Checks that the first Service network and the API's address are of one IP family, as kube-apiserver
/// requires: the Service `kubernetes` has an address of that network and leads to the API.
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

/// Makes the kubeconfigs of a cluster.
struct KubeconfigWriter<'a> {
    pki: &'a Pki,
    address: SocketAddr,
    /// The cluster's name in the files.
    cluster: &'a str,
}

impl KubeconfigWriter<'_> {
    /// Writes all kubeconfigs of a data directory. Returns the path of the admin's.
    fn write_all(&self, dir: &Path, admin: &str) -> anyhow::Result<PathBuf> {
        for identity in [pki::CONTROLLERS, pki::SCHEDULER, pki::KUBELET_SIM] {
            write_kubeconfig(&dir.join(format!("{}.kubeconfig", identity.file)), &self.text(&identity)?)?;
        }
        let path = dir.join("admin.kubeconfig");
        write_kubeconfig(&path, admin)?;
        Ok(path)
    }

    fn text(&self, identity: &Identity) -> anyhow::Result<String> {
        let url = format!("https://{}", self.address);
        let ca_pem = Some(self.pki.ca_pem().as_bytes());
        let server = ServerAddress { url: &url, ca_pem, tls_server_name: None };
        kubeconfig::render(&server, self.cluster, identity.user, &self.pki.client(identity)?)
    }
}

fn write_kubeconfig(path: &Path, text: &str) -> anyhow::Result<()> {
    write_private(path, text.as_bytes())
        .with_context(|| format!("cannot write the kubeconfig {}", path.display()))
}
