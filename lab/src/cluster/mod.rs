//! [`LabCluster`]: a cluster of the lab with its port, clients, request log and clock. A reset replaces the running part behind the port.

mod report;

use crate::advance;
use crate::authority::{ClusterKeys, Credentials};
use crate::bridge::Bridge;
use crate::client::Clients;
use crate::clock::Mode;
use crate::error;
use crate::fault::RuleSet;
use crate::host::{Host, HostConfig, HostError, Origin, Placement, Running};
use crate::limits;
use crate::log::RequestLog;
use crate::perturb::Perturbations;
use crate::plan::{execute, observe};
use crate::programs::Programs;
use crate::serial::{self, SerialTurns};
use crate::waits::TimeWaits;
use axum::body::Body;
use futures::future::{BoxFuture, ready};
use http::{Request, Response};
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_nondet::Clock;
use parking_lot::Mutex;
pub use report::{ClockReport, ClusterReport, NextDeadline};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Path prefix of the lab's calls.
pub const PREFIX: &str = "/kstore/lab/v1";
/// Path prefix of the lab's calls over gRPC.
pub const GRPC_PREFIX: &str = "/kstore.lab.v1.Lab";

/// The user of kubeconfigs for administrators.
pub const ADMIN: &str = "kubernetes-admin";

/// A cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The control plane, its thread or its runtime.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The address of the listener cannot be used, or no port is free.
    #[error("no port for the cluster: {0}")]
    Bind(#[from] std::io::Error),
}

/// Serves the lab's calls that come to the port of a cluster.
pub type Front =
    Arc<dyn Fn(Request<Body>, Arc<LabCluster>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// A named image from which clusters start.
#[derive(Debug)]
pub struct LabImage {
    /// Name; empty for the one that a fork took for itself.
    pub name: String,
    /// The state.
    pub state: Arc<kstore_cluster::ControlPlaneImage>,
    /// Objects in it.
    pub objects: u64,
    /// Seed of the cluster that it was taken of.
    pub seed: Option<u64>,
    /// Oldest revision that can be read.
    pub history: i64,
    /// Components of the cluster that it was taken of.
    pub components: crate::host::ComponentChoice,
    /// Mode of the cluster that it was taken of.
    pub mode: Mode,
    /// Keys of the cluster that it was taken of.
    pub keys: Arc<ClusterKeys>,
    /// SHA-256 of the snapshot file that it comes from.
    pub digest: Option<[u8; 32]>,
}

/// What a cluster is, beside what runs.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Identifier in paths.
    pub id: String,
    /// Name that the start gave, or the identifier.
    pub name: String,
    /// What it was started from: `empty`, `cluster main`, `image prepared`.
    pub from: String,
    /// The image that it was started from, to which a reset goes back.
    pub image: Option<Arc<LabImage>>,
    /// What its host is started with.
    pub host: HostConfig,
    /// Bytes of its request log.
    pub log_bytes: usize,
    /// Fault rules from the start.
    pub faults: RuleSet,
    /// Keys of its certificates and tokens.
    pub keys: Arc<ClusterKeys>,
}

/// The running part of a cluster.
#[derive(Clone, Debug)]
pub struct Current {
    /// Its thread.
    pub host: Arc<Host>,
    /// The way of requests into it, with its clients and log.
    pub bridge: Bridge,
    /// Clients that wait for a time.
    pub waits: Arc<TimeWaits>,
    /// Observes for plans, and carries out their operations.
    _plans: Arc<AbortOnDropHandle<()>>,
}

impl Current {
    /// The running control plane.
    pub fn running(&self) -> &Arc<Running> {
        &self.bridge.running
    }
}

/// A cluster of the lab.
pub struct LabCluster {
    /// What it is.
    pub config: ClusterConfig,
    /// `https://127.0.0.1:PORT`.
    pub url: String,
    current: Mutex<Option<Current>>,
    mode: Mutex<Mode>,
    /// Held by the call that moves the clock, and by a reset.
    moving: Arc<tokio::sync::Mutex<()>>,
    /// Fault rules, which a reset and forks inherit.
    faults: Mutex<RuleSet>,
    /// Moves a clock that moves by itself.
    mover: Mutex<Option<AbortOnDropHandle<()>>>,
    /// Cancelled when a component has ended although it should not have.
    failed: CancellationToken,
    listener: TcpListener,
    front: Front,
    programs: Arc<Programs>,
}

impl std::fmt::Debug for LabCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabCluster")
            .field("id", &self.config.id)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// The right to move the clock of a cluster.
pub struct Moving {
    _permit: tokio::sync::OwnedMutexGuard<()>,
}

impl LabCluster {
    /// Starts a cluster that listens at an address; port 0 is a free one.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn start(
        mut config: ClusterConfig,
        listen: SocketAddr,
        front: Front,
    ) -> Result<Arc<Self>, ClusterError> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = reachable(listener.local_addr()?);
        config.host.address = address;
        let host = Host::start(config.host.clone()).await?;
        let cluster = Arc::new(Self {
            url: format!("https://{address}"),
            mode: Mutex::new(config.host.mode),
            faults: Mutex::new(config.faults.clone()),
            config,
            current: Mutex::new(None),
            moving: Arc::default(),
            mover: Mutex::new(None),
            failed: CancellationToken::new(),
            listener,
            front,
            programs: Arc::default(),
        });
        cluster.serve(host)?;
        cluster.run_mover();
        Ok(cluster)
    }

    /// Serves a host on the cluster's port.
    fn serve(self: &Arc<Self>, host: Host) -> Result<(), std::io::Error> {
        let clients = Arc::new(Clients::default());
        clients.listen_on(self.listener.local_addr()?.port());
        let log = Arc::new(RequestLog::new(self.config.log_bytes));
        let running = host.running().clone();
        let (failure, failed) = (host.failure(), self.failed.clone());
        tokio::spawn(async move {
            if failure.await {
                failed.cancel();
            }
        });
        // Programs outlive a reset: they are clients of the new generation, too.
        self.programs.attach(&clients);
        let (perturbations, plans) = self.perturb(&running, &clients, &log);
        let (programs, real) = (self.programs.clone(), tokio::runtime::Handle::current());
        let (edge, open, shown) = (clients.edge().clone(), clients.open().clone(), Arc::default());
        let bridge = Bridge { running: running.clone(), clients, log, perturbations, programs, shown, real };
        let current =
            Current { host: Arc::new(host), bridge: bridge.clone(), waits: Arc::default(), _plans: plans };
        let (front, cluster) = (self.front.clone(), Arc::downgrade(self));
        let service = bridge.service([PREFIX, GRPC_PREFIX], move |request| match cluster.upgrade() {
            Some(cluster) => front(request, cluster),
            None => Box::pin(ready(kstore_apiserver::rest::respond::refusal(&error::ended()))),
        });
        // The port outlives a reset: each generation accepts from a copy of the socket.
        let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
        let server = running.api().clone().behind(service).with_known_sockets(open);
        // Only turns of a serial order ask what the listener does, and a cluster on the process's runtime has no such order.
        let server = match running.placement {
            Placement::Thread => server.observed(edge),
            Placement::Process => server,
        };
        tokio::spawn(server.serve(listener, self.config.keys.authority.tls()));
        *self.current.lock() = Some(current);
        Ok(())
    }

    /// What changes what clients of a host see, and the task of its plans.
    fn perturb(
        &self,
        running: &Arc<Running>,
        clients: &Arc<Clients>,
        log: &Arc<RequestLog>,
    ) -> (Arc<Perturbations>, Arc<AbortOnDropHandle<()>>) {
        let (perturbations, jobs) = Perturbations::new(clients.order().clone());
        perturbations.faults.set(self.faults.lock().clone());
        perturbations.set_programs(self.programs.clone());
        let plans = execute::Executor {
            running: running.clone(),
            perturbations: perturbations.clone(),
            log: log.clone(),
        };
        let observing = observe::run(plans.clone(), clients.clone(), log.clone());
        let (running, clients) = (running.clone(), clients.clone());
        let turns = serial::run(SerialTurns { running, clients, perturbations: perturbations.clone() });
        let planning = async move {
            tokio::join!(execute::run(plans, jobs), observing, turns);
        };
        (perturbations, Arc::new(AbortOnDropHandle::new(tokio::spawn(planning))))
    }

    /// The running part.
    ///
    /// # Errors
    /// 410: the cluster has ended.
    pub fn current(&self) -> Result<Current, Status> {
        self.current.lock().clone().ok_or_else(error::ended)
    }

    /// Cancelled when a component of the cluster has ended although it should not have.
    pub fn failed(&self) -> &CancellationToken {
        &self.failed
    }

    /// The programs that run as children of the server and belong to this cluster.
    pub fn programs(&self) -> &Arc<Programs> {
        &self.programs
    }

    /// Mode of the clock.
    pub fn mode(&self) -> Mode {
        *self.mode.lock()
    }

    /// Fault rules in force.
    pub fn faults(&self) -> RuleSet {
        self.faults.lock().clone()
    }

    /// Replaces the fault rules. Their counts begin at 0.
    ///
    /// # Errors
    /// 410: the cluster has ended.
    pub fn set_faults(&self, rules: RuleSet) -> Result<(), Status> {
        self.current()?.bridge.perturbations.faults.set(rules.clone());
        *self.faults.lock() = rules;
        Ok(())
    }

    /// Whether the cluster follows the system's clock for its whole life.
    pub fn stays_real(&self) -> bool {
        self.config.host.placement == Placement::Process
    }

    /// Takes the right to move the clock.
    ///
    /// # Errors
    /// 409: another call moves it.
    pub fn begin_moving(&self) -> Result<Moving, Status> {
        let permit = self.moving.clone().try_lock_owned();
        let permit = permit.map_err(|_| error::conflict("another call moves the clock of this cluster"))?;
        Ok(Moving { _permit: permit })
    }

    /// Waits for the right to move the clock.
    pub(crate) async fn wait_to_move(&self) -> Moving {
        Moving { _permit: self.moving.clone().lock_owned().await }
    }

    /// Changes the mode of the clock, which keeps its time.
    ///
    /// # Errors
    /// 422: the cluster runs in real time for its whole life. 410: it has ended.
    pub async fn set_mode(self: &Arc<Self>, mode: Mode) -> Result<(), Status> {
        if self.stays_real() {
            return if mode == Mode::Real { Ok(()) } else { Err(stays_real()) };
        }
        self.mover.lock().take();
        let moving = self.wait_to_move().await;
        let running = self.current()?.running().clone();
        let (driver, is_paused) = (running.driver.clone(), mode != Mode::Real);
        let set = running.call(async move {
            driver.set_paused(is_paused);
            driver.hold();
        });
        set.await.map_err(|_| error::ended())?;
        *self.mode.lock() = mode;
        drop(moving);
        self.run_mover();
        Ok(())
    }

    /// Lets the wall time jump. Forward, what was due meanwhile fires late; backward, timers keep their remaining time. Returns the time
    /// before, and the running cluster.
    ///
    /// # Errors
    /// 409: another call moves the clock. 410: the cluster has ended.
    pub async fn leap(
        self: &Arc<Self>,
        by: Duration,
        is_back: bool,
    ) -> Result<(Timestamp, Arc<Running>), Status> {
        if !self.current()?.running().plane.nondet().clock.is_simulated() {
            return Err(error::impossible("this cluster follows the system's clock, which does not leap"));
        }
        // A clock that moves by itself has its next time already: it begins anew afterwards.
        let moves_itself = self.mover.lock().take().is_some();
        let moving = match moves_itself {
            true => self.wait_to_move().await,
            false => self.begin_moving()?,
        };
        let running = self.current()?.running().clone();
        let (from, leaping) = (running.time(), running.clone());
        let leaping = running.call(async move {
            match is_back {
                true => leaping.driver.leap_back(by),
                false => leaping.driver.leap(by).await,
            }
            leaping.driver.until_idle().await;
        });
        let leapt = leaping.await.map_err(|_| error::ended());
        drop(moving);
        if moves_itself {
            self.run_mover();
        }
        leapt.map(|()| (from, running))
    }

    /// Starts the task of a clock that moves by itself.
    fn run_mover(self: &Arc<Self>) {
        let cluster = Arc::downgrade(self);
        let task: BoxFuture<'static, ()> = match self.mode() {
            Mode::Real | Mode::Manual => return,
            Mode::Scaled(factor) => Box::pin(async move {
                let Some(begin) =
                    cluster.upgrade().and_then(|cluster| Some(cluster.current().ok()?.running().time()))
                else {
                    return;
                };
                let real = Clock::real().now();
                loop {
                    tokio::time::sleep(limits::SCALED_TICK).await;
                    let Some(cluster) = cluster.upgrade() else { return };
                    let passed = Clock::real().now().duration_since(real).as_secs_f64().max(0.0) * factor;
                    let passed = Duration::from_millis((passed * 1000.0) as u64);
                    let Ok(target) = begin.checked_add(passed) else { return };
                    if !cluster.move_scaled(target).await {
                        return;
                    }
                }
            }),
            Mode::Auto(up_to) => Box::pin(async move {
                while let Some(cluster) = cluster.upgrade() {
                    if !cluster.move_auto(up_to).await {
                        return;
                    }
                }
            }),
        };
        *self.mover.lock() = Some(AbortOnDropHandle::new(tokio::spawn(task)));
    }

    /// Moves a scaled clock to a time, without barriers. Returns whether the cluster still runs.
    async fn move_scaled(&self, target: Timestamp) -> bool {
        let _moving = self.wait_to_move().await;
        let Ok(current) = self.current() else { return false };
        let running = current.running();
        while running.time() < target {
            running.driver.take_traffic();
            let nobody = Arc::new(Clients::default());
            if advance::advance(running, &nobody, &advance::Advance::to(target)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Moves an automatic clock once, when everything is quiet. Returns whether the cluster still runs.
    async fn move_auto(&self, up_to: Duration) -> bool {
        let Ok(current) = self.current() else { return false };
        let (running, clients) = (current.running(), &current.bridge.clients);
        let ((added, _), began) = (current.bridge.log.next(), current.waits.began.notified());
        let moving = self.wait_to_move().await;
        let before = running.store().revision();
        let Ok(target) = running.time().checked_add(up_to) else { return false };
        let how = advance::Advance { patience: limits::PATIENCE_MOST, ..advance::Advance::to(target) };
        let Ok(advanced) = advance::advance(running, clients, &how).await else { return false };
        drop(moving);
        // A cluster in which nothing happens stands still until a client asks for something, or waits for a time.
        if advanced.barriers == 0 && running.store().revision() == before {
            tokio::select! {
                biased;
                () = added => {}
                () = began => {}
            }
        }
        tokio::task::yield_now().await;
        true
    }

    /// Takes an image of the cluster.
    ///
    /// # Errors
    /// 410: the cluster has ended.
    pub async fn image(&self, name: &str) -> Result<LabImage, Status> {
        let current = self.current()?;
        let running = current.running().clone();
        let (taking, components) = (running.clone(), running.components);
        // After many writes in a moment the components are behind: each fork would read these changes into caches of its own.
        let reading = running.clone();
        let reached = running.call(async move { reading.plane.caches_reached().await });
        let _ = tokio::time::timeout(limits::CACHES_REACHED, reached).await;
        let taken = running.call(async move {
            let state = taking.plane.image().map_err(|_| error::ended())?;
            let objects = crate::objects::count(taking.store());
            Ok::<_, Status>((state, objects, taking.store().compacted().0))
        });
        let (state, objects, history) = taken.await.map_err(|_| error::ended())??;
        Ok(LabImage {
            name: name.to_owned(),
            state: Arc::new(state),
            objects,
            seed: self.config.host.seed,
            history,
            components,
            mode: self.mode(),
            keys: self.config.keys.clone(),
            digest: None,
        })
    }

    /// Starts the cluster from an image again, or empty, behind the same port. The revision is above every revision that the port served.
    ///
    /// # Errors
    /// 409: the clock is being moved. 410: the cluster has ended.
    pub async fn reset(self: &Arc<Self>, to: Option<&Arc<LabImage>>) -> Result<(), Status> {
        if self.current()?.bridge.perturbations.plans.is_running() {
            return Err(error::conflict("a plan runs on this cluster: delete it first"));
        }
        let Some(image) = to.or(self.config.image.as_ref()) else {
            return Err(error::impossible(
                "a cluster that was started empty has no image: take one, and name it in `to`",
            ));
        };
        // From here on nothing is refused but for a manual clock that another call moves: a clock that moves by itself has lost its task.
        let mover = self.mover.lock().take();
        drop(mover);
        let _moving = match self.mode() {
            Mode::Auto(_) | Mode::Scaled(_) => self.wait_to_move().await,
            Mode::Real | Mode::Manual => self.begin_moving()?,
        };
        let old = self.current()?;
        // Connections of the old one end before the new one accepts.
        self.current.lock().take();
        old.bridge.log.end();
        let running = old.running().clone();
        old.host.end().await;
        // Not before the end: it answers writes until then.
        let origin = Origin::Above(image.state.clone(), running.store().revision().0);
        let host = HostConfig { origin, mode: self.mode(), ..self.config.host.clone() };
        let started = Host::start(host).await;
        let host = started
            .map_err(|failed| Status::internal(format!("the cluster did not start again: {failed}")))?;
        self.serve(host).map_err(Status::internal)?;
        self.run_mover();
        Ok(())
    }

    /// Ends the cluster.
    pub async fn end(&self) {
        self.mover.lock().take();
        self.programs.end_all().await;
        let current = self.current.lock().take();
        if let Some(current) = current {
            current.bridge.log.end();
            current.host.end().await;
        }
    }

    /// A kubeconfig of the administrator.
    ///
    /// # Errors
    /// 500: the certificate cannot be made.
    pub fn kubeconfig(&self, credentials: &Credentials<'_>) -> Result<String, Status> {
        self.config.keys.authority.kubeconfig(&self.url, credentials).map_err(Status::internal)
    }

    /// The cluster in answers of the lab.
    ///
    /// # Errors
    /// 410: the cluster has ended.
    pub fn report(&self) -> Result<ClusterReport, Status> {
        let current = self.current()?;
        let running = current.running();
        let status = running.store().status();
        let groups = ["system:masters".to_owned()];
        Ok(ClusterReport {
            id: self.config.id.clone(),
            name: self.config.name.clone(),
            from: self.config.from.clone(),
            url: self.url.clone(),
            kubeconfig: self.kubeconfig(&Credentials::Certificate(ADMIN, &groups))?,
            seed: self.config.host.seed,
            clock: self.clock()?,
            revision: status.revision.0,
            objects: crate::objects::count(running.store()),
            bytes: status.size.live,
            components: running.components.names(),
            image: self.config.image.as_ref().map(|image| image.name.clone()).filter(|name| !name.is_empty()),
        })
    }

    /// The clock in answers of the lab.
    ///
    /// # Errors
    /// 410: the cluster has ended.
    pub fn clock(&self) -> Result<ClockReport, Status> {
        let current = self.current()?;
        let (mode, time) = (self.mode(), current.running().time());
        let skew = time.duration_since(Clock::real().now()).as_nanos();
        let next = current.waits.next().map(|time| NextDeadline { time, owner: "wait of a client" });
        Ok(ClockReport {
            mode: mode.name(),
            factor: if let Mode::Scaled(factor) = mode { Some(factor) } else { None },
            up_to: if let Mode::Auto(up_to) = mode { Some(crate::values::shown(up_to)) } else { None },
            time,
            next,
            skew: kstore_go_duration::format(i64::try_from(skew).unwrap_or(i64::MAX)),
            stops: current.running().driver.stops(),
        })
    }
}

/// The refusal of another clock than the system's.
pub(crate) fn stays_real() -> Status {
    error::impossible(
        "this cluster was started in mode real and follows the system's clock for its whole life: start the program with --lab-clock \
         manual, auto or a factor, or start a fork with a clock of its own: POST /clusters with {\"clock\":{\"mode\":\"manual\"}}",
    )
}

/// The address by which clients on this machine reach a listener: loopback in place of a wildcard.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(_) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        }
    }
    address
}
