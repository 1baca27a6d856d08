//! [`Host`]: a cluster on a thread of its own, whose one-threaded runtime has a clock that the lab moves. The edge (sockets, TLS, HTTP) is
//! on the process's runtime, in real time; `bridge` connects both. A cluster that stays in real time may also be on the process's runtime.

use crate::authority::ClusterKeys;
use crate::clock::Mode;
use crate::clock::driver::Driver;
use crate::limits;
pub use crate::template::ComponentChoice;
use crate::template::{ClusterStart, Configured, Template};
use crate::webhooks::{LabOutbound, LabWebhooks};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kstore_apiserver::ApiServer;
use kstore_cluster::{ControlPlane, ControlPlaneImage, StartError};
use kstore_nondet::{Clock, Nondet, Rng};
use kstore_registry::outbound::{CallRuntime, make_calls_of_this_thread_on};
use kstore_store::{Revision, Store};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Bytes of the stack of a cluster's thread: the pipeline's futures are boxed, and unoptimised frames of expressions are large.
const STACK: usize = 8 * 1024 * 1024;
/// How long the tasks of a cluster may take to end, by the cluster's clock, which passes at once.
const END: Duration = Duration::from_secs(10);
/// The same for a cluster on the process's runtime, in real time.
const END_REAL: Duration = Duration::from_secs(2);

/// The state from which a cluster starts.
#[derive(Clone, Debug)]
pub enum Origin {
    /// An empty store, in which the initial objects are created.
    Empty,
    /// An image.
    Image(Arc<ControlPlaneImage>),
    /// The objects of an image at a revision above this one, without its history: for clients that have seen revisions up to it.
    Above(Arc<ControlPlaneImage>, i64),
}

/// Where a cluster runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On a thread of its own, whose clock the lab moves.
    Thread,
    /// On the runtime that starts it, in real time for its whole life. Its requests use all threads of that runtime.
    Process,
}

/// What a cluster is started with.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Name for threads and logs.
    pub name: String,
    /// The state that it starts from.
    pub origin: Origin,
    /// Components beside the API server.
    pub components: ComponentChoice,
    /// Seed of the random values of the cluster's own components; `None`: from the system.
    pub seed: Option<u64>,
    /// Mode of the clock.
    pub mode: Mode,
    /// Time of the cluster at the start, unless an image has one.
    pub start: Timestamp,
    /// Keys of certificates and service account tokens.
    pub keys: Arc<ClusterKeys>,
    /// Where it runs.
    pub placement: Placement,
    /// What its control plane is made of.
    pub template: Arc<dyn Template>,
    /// Address of its listener.
    pub address: SocketAddr,
    /// Whether it is the first cluster of the process.
    pub is_main: bool,
}

/// A cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The control plane did not start.
    #[error("the cluster does not start: {0}")]
    Start(#[from] StartError),
    /// The control plane cannot be configured.
    #[error("{0}")]
    Configuration(String),
    /// The system gives no thread, or no descriptors for a runtime.
    #[error("the thread of a cluster does not start: {0}")]
    Thread(#[from] std::io::Error),
    /// The thread ended before the cluster had started.
    #[error("the thread of a cluster ended while it started")]
    Ended,
}

/// The cluster has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster has ended")]
pub struct Ended;

/// A running cluster. It ends with [`Host::end`], or when this is dropped, without waiting.
#[derive(Debug)]
pub struct Host {
    running: Arc<Running>,
    stop: CancellationToken,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The parts of a running cluster that its users share. Futures that use them must run on the cluster's runtime: see [`Running::call`].
#[derive(Debug)]
pub struct Running {
    runtime: Handle,
    /// The control plane.
    pub plane: ControlPlane,
    /// Moves the clock.
    pub driver: Arc<Driver>,
    /// Components that run.
    pub components: ComponentChoice,
    /// Where it runs.
    pub placement: Placement,
    /// Which webhooks its API server does not reach, and which it finds beside the cluster.
    pub webhooks: Arc<LabWebhooks>,
}

impl Running {
    /// The store.
    pub fn store(&self) -> &Store {
        self.plane.store().expect("the clusters of the lab have a store in memory")
    }

    /// The API server.
    pub fn api(&self) -> &ApiServer {
        self.plane.api()
    }

    /// The time of the cluster. From any thread.
    pub fn time(&self) -> Timestamp {
        let _entered = self.runtime.enter();
        self.plane.nondet().clock.now()
    }

    /// Runs a future on the cluster's runtime. It ends early if the caller drops the returned future.
    ///
    /// # Errors
    /// The cluster ended before the future did.
    pub async fn call<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Ended> {
        let task = AbortOnDropHandle::new(self.runtime.spawn(future));
        match task.await {
            Ok(value) => Ok(value),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Ended),
            },
        }
    }

    /// Runs a future on the cluster's runtime, whether or not anything waits for it.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(self.runtime.spawn(future))
    }
}

impl Host {
    /// Starts a cluster. On return its API answers requests and its clock stands, unless its mode is `real`.
    ///
    /// # Errors
    /// See [`HostError`]. Everything that had started ends.
    pub async fn start(config: HostConfig) -> Result<Self, HostError> {
        match config.placement {
            Placement::Thread => Self::on_thread(config).await,
            Placement::Process => Self::on_process(config).await,
        }
    }

    async fn on_thread(config: HostConfig) -> Result<Self, HostError> {
        let (driver, stop) = (Driver::new(), CancellationToken::new());
        let (report, started) = oneshot::channel();
        let (name, stopped) = (format!("lab-{}", config.name), stop.clone());
        let calls = Arc::new(ProcessCalls { runtime: Handle::current(), driver: driver.clone() });
        let unfinished = stop.clone().drop_guard();
        let (hand_over, starts) = std::sync::mpsc::sync_channel::<StartedHost>(1);
        let calls_of_start = calls.clone();
        let thread = |name: String| std::thread::Builder::new().name(name).stack_size(STACK);
        let living = thread(name.clone()).spawn(move || {
            // Without a cluster the start has reported why.
            let Ok(StartedHost { runtime, running, driver, stop, report }) = starts.recv() else { return };
            make_calls_of_this_thread_on(calls);
            runtime.block_on(live(running, driver, stop, report));
        })?;
        thread(name).spawn(move || {
            make_calls_of_this_thread_on(calls_of_start);
            if let Some(host) = StartedHost::start(config, driver, stopped, report) {
                // The receiver lives until something comes.
                let _ = hand_over.send(host);
            }
        })?;
        let running = started.await.map_err(|_| HostError::Ended)??;
        unfinished.disarm();
        Ok(Self { running, stop, thread: Mutex::new(Some(living)) })
    }

    async fn on_process(config: HostConfig) -> Result<Self, HostError> {
        let driver = Driver::in_real_time();
        let (plane, webhooks) = Box::pin(start(&config, &driver)).await?;
        let (runtime, placement, components) = (Handle::current(), Placement::Process, config.components);
        let running = Running { runtime, plane, driver, components, placement, webhooks };
        Ok(Self { running: Arc::new(running), stop: CancellationToken::new(), thread: Mutex::new(None) })
    }

    /// The running cluster.
    pub fn running(&self) -> &Arc<Running> {
        &self.running
    }

    /// Waits until a component of the cluster has ended although it should not have, or until the cluster ends.
    pub fn failure(&self) -> impl Future<Output = bool> + Send + use<> {
        let (failed, stop) = (self.running.plane.phases().failed().clone(), self.stop.clone());
        async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => false,
                () = failed.cancelled() => true,
            }
        }
    }

    /// Ends the cluster and its thread.
    pub async fn end(&self) {
        self.stop.cancel();
        if self.running.placement == Placement::Process {
            let end = tokio::time::Instant::now() + END_REAL;
            return self.running.plane.end(Some(end)).await;
        }
        let Some(thread) = self.thread.lock().take() else { return };
        // A panic of the cluster's thread was printed when it happened.
        let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.cancel();
        if self.running.placement == Placement::Process {
            self.running.plane.phases().cancel();
        }
    }
}

/// Calls of a cluster to other servers, such as webhooks: in real time on the process's runtime. The cluster's clock stands meanwhile.
struct ProcessCalls {
    runtime: Handle,
    driver: Arc<Driver>,
}

impl CallRuntime for ProcessCalls {
    fn spawn(&self, call: BoxFuture<'static, ()>) {
        let guard = self.driver.begin_call();
        drop(self.runtime.spawn(async move {
            call.await;
            drop(guard);
        }));
    }
}

/// A cluster that has started on a thread that ends with the start, on its way to the thread on which it lives. A start needs a deep stack
/// and leaves freed memory in the allocator's cache of its thread, several hundred KiB, which both end with the thread: most clusters of
/// a process are forks that do little.
struct StartedHost {
    runtime: Runtime,
    running: Arc<Running>,
    driver: Arc<Driver>,
    stop: CancellationToken,
    report: StartReport,
}

/// Tells who waits for the start of a cluster that its API answers, or why it does not start.
type StartReport = oneshot::Sender<Result<Arc<Running>, HostError>>;

impl StartedHost {
    /// Starts a cluster on a runtime of its own. `None`: it does not start, and the reason was reported.
    fn start(
        config: HostConfig,
        driver: Arc<Driver>,
        stop: CancellationToken,
        report: StartReport,
    ) -> Option<Self> {
        let (park, unpark) = (driver.clone(), driver.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .on_thread_park(move || park.parked())
            .on_thread_unpark(move || unpark.unparked())
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                drop(report.send(Err(error.into())));
                return None;
            }
        };
        match runtime.block_on(stop.run_until_cancelled(run(config, &driver))) {
            Some(Ok(running)) => Some(Self { runtime, running, driver, stop, report }),
            failed => {
                driver.end();
                if let Some(Err(error)) = failed {
                    drop(report.send(Err(error)));
                }
                None
            }
        }
    }
}

/// Starts a cluster on the current runtime.
async fn run(config: HostConfig, driver: &Arc<Driver>) -> Result<Arc<Running>, HostError> {
    driver.hold();
    let (plane, webhooks) = start(&config, driver).await?;
    if matches!(config.mode, Mode::Real) {
        driver.set_paused(false);
    }
    if config.components == ComponentChoice::NONE {
        // What the tasks of an API server do at first, they do on this thread, too. Components may have work for long.
        driver.until_idle().await;
    }
    let (runtime, placement) = (Handle::current(), Placement::Thread);
    let components = config.components;
    let driver = driver.clone();
    Ok(Arc::new(Running { runtime, plane, driver, components, placement, webhooks }))
}

/// The life of a cluster that has started, until its stop.
async fn live(running: Arc<Running>, driver: Arc<Driver>, stop: CancellationToken, report: StartReport) {
    let _ = report.send(Ok(running.clone()));
    stop.cancelled().await;
    // The end may wait for timers, such as those of stopping nodes.
    driver.end();
    let end = tokio::time::Instant::now() + END;
    running.plane.end(Some(end)).await;
}

/// Starts the control plane on the current runtime, whose clock stands unless the cluster runs on the process's. Its API server calls
/// webhooks as the lab decides.
async fn start(
    config: &HostConfig,
    driver: &Arc<Driver>,
) -> Result<(ControlPlane, Arc<LabWebhooks>), HostError> {
    let rng = config.seed.map_or_else(Rng::from_os, Rng::seeded);
    let clock = match config.placement {
        Placement::Thread => Clock::simulated_from(config.start).with_offset(driver.offset()),
        Placement::Process => Clock::real(),
    };
    let nondet = Nondet { clock, rng };
    let configured = config.template.configure(&ClusterStart {
        nondet: &nondet,
        address: config.address,
        components: config.components,
        keys: &config.keys,
        is_main: config.is_main,
        is_new: matches!(config.origin, Origin::Empty),
    });
    let Configured { mut server, cluster, started } = configured.map_err(HostError::Configuration)?;
    server.network.services_in_front = &[kstore_proto::kstore::lab::v1::FILE_DESCRIPTOR_SET];
    server.network.streams = Some(config.keys.authority.tls());
    let webhooks = Arc::new(LabWebhooks::default());
    let outbound = LabOutbound { inner: server.network.outbound, webhooks: webhooks.clone() };
    server.network.outbound = Arc::new(outbound);
    let plane = match &config.origin {
        Origin::Empty => ControlPlane::start(server, cluster).await,
        Origin::Image(image) => {
            let starting = image.start(server, cluster);
            if matches!((config.mode, config.placement), (Mode::Real, Placement::Thread)) {
                // The clock of the fork has begun at the image's time: it goes on with the system's.
                let behind = Clock::real().now().duration_since(image.time());
                let behind = Duration::try_from(behind).unwrap_or_default().min(limits::LEAP);
                driver.leap(Duration::from_millis(behind.as_millis().try_into().unwrap_or(0))).await;
            }
            starting.await
        }
        Origin::Above(image, revision) => image.start_above(Revision(*revision), server, cluster).await,
    };
    let plane = plane?;
    started(&plane);
    Ok((plane, webhooks))
}

/// Gives an image from a file the memory of an API server: an API server alone reads the objects, and ends. Clusters from the image then
/// draw the same random values as those from the original. Their components start without caches, and read all objects.
///
/// # Errors
/// The API server does not start.
pub async fn remember(
    image: ControlPlaneImage,
    keys: &Arc<ClusterKeys>,
    template: &Arc<dyn Template>,
) -> Result<ControlPlaneImage, HostError> {
    let image = Arc::new(image);
    let host = Host::start(HostConfig {
        name: "file".to_owned(),
        origin: Origin::Image(image.clone()),
        components: ComponentChoice::NONE,
        seed: Some(0),
        mode: Mode::Manual,
        start: image.time(),
        keys: keys.clone(),
        placement: Placement::Thread,
        template: template.clone(),
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        is_main: false,
    })
    .await?;
    let taking = host.running().clone();
    let taken = host.running().call(async move { taking.plane.image() }).await;
    host.end().await;
    let taken = taken.ok().and_then(Result::ok).ok_or(HostError::Ended)?;
    Ok(image.with_memory_of(taken))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::clock::driver::{Move, MoveEnd};
    use kstore_client::{Gvr, ListParams};
    use kstore_registry::user::UserInfo;
    use tokio::time::Instant;

    pub(crate) fn config(mode: Mode, components: ComponentChoice) -> HostConfig {
        HostConfig {
            name: "test".to_owned(),
            origin: Origin::Empty,
            components,
            seed: Some(7),
            mode,
            start: "2026-01-01T00:00:00Z".parse().unwrap(),
            keys: Arc::new(ClusterKeys::new(&[]).unwrap()),
            placement: Placement::Thread,
            template: Arc::new(crate::template::DefaultTemplate::default()),
            address: "127.0.0.1:1".parse().unwrap(),
            is_main: true,
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_cluster_stands_still_while_its_client_in_another_runtime_thinks() {
        let host = Host::start(config(Mode::Manual, ComponentChoice::ALL)).await.unwrap();
        let running = host.running().clone();
        let before = running.time();
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(running.time(), before);
        let moving = running.clone();
        let moved = running.call(async move {
            let target = Instant::now() + Duration::from_secs(3600);
            moving.driver.pass(Move { target, stops: u64::MAX, granule: Duration::ZERO, goal: None }).await
        });
        assert_eq!(moved.await, Ok(MoveEnd::There));
        assert_eq!(running.time().duration_since(before).as_secs(), 3600);
        let listing = running.clone();
        let nodes = running.call(async move {
            let client = listing.plane.client(UserInfo::new("a", ["system:masters"]), "test");
            client.dynamic(Gvr::new("", "v1", "nodes")).list("", &ListParams::default()).await.unwrap().0
        });
        let nodes = nodes.await.unwrap();
        assert_eq!(nodes[0]["metadata"]["name"], "node-0");
        host.end().await;
        assert_eq!(running.call(async {}).await, Err(Ended));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_cluster_in_real_time_follows_the_system() {
        for placement in [Placement::Thread, Placement::Process] {
            let config = HostConfig { placement, ..config(Mode::Real, ComponentChoice::NONE) };
            let host = Host::start(config).await.unwrap();
            let before = host.running().time();
            tokio::time::sleep(Duration::from_millis(20)).await;
            let passed = host.running().time().duration_since(before);
            assert!(passed.as_millis() >= 15, "{passed}");
            host.end().await;
        }
    }
}
