//! [`Lab`]: all clusters and images of a process.

use crate::authority::{Authority, AuthorityError, ClusterKeys};
use crate::clock::Mode;
use crate::cluster::{ClusterConfig, ClusterError, Front, LabCluster, LabImage};
use crate::error;
use crate::fault::RuleSet;
use crate::host::{ComponentChoice, HostConfig, Origin, Placement};
use crate::idempotency::{IdempotencyKeys, NamedCalls};
use crate::limits;
use crate::snapshot::{self, LoadError};
use crate::template::{DefaultTemplate, Template};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_nondet::{Clock, Nondet};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The identifier of the first cluster of a process.
pub const MAIN: &str = "main";

/// How a lab is started.
#[derive(Clone, Debug)]
pub struct LabConfig {
    /// Address of the first cluster's listener; port 0 is a free one. All others listen at this address with ports of their own.
    pub listen: SocketAddr,
    /// Host names and addresses in the certificate of the listeners, beside those of this machine.
    pub names: Vec<String>,
    /// What the control planes are made of.
    pub template: Arc<dyn Template>,
    /// Components of the first cluster.
    pub components: ComponentChoice,
    /// Mode of the first cluster's clock.
    pub mode: Mode,
    /// Snapshot file from which the first cluster starts; `None`: it is new.
    pub image: Option<PathBuf>,
    /// Time at which the first cluster starts; `None`: that of the snapshot file, or now. It must be `None` with a snapshot file.
    pub start: Option<Timestamp>,
    /// Seed of the first cluster; `None`: that of the snapshot file, or a random one.
    pub seed: Option<u64>,
    /// Bytes of the request log of each cluster.
    pub log_bytes: usize,
    /// Most clusters.
    pub clusters: usize,
    /// Whether callers may start programs as children of this process, with its user's rights.
    pub programs: bool,
}

impl Default for LabConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            names: Vec::new(),
            template: Arc::new(DefaultTemplate::default()),
            components: ComponentChoice::ALL,
            mode: Mode::Real,
            image: None,
            start: None,
            seed: None,
            log_bytes: limits::LOG_BYTES,
            clusters: limits::CLUSTERS,
            programs: false,
        }
    }
}

/// A lab did not start.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Keys or certificates.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The snapshot file.
    #[error("{}: {error}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: LoadError,
    },
    /// A start time for a cluster from a snapshot file, which has its own.
    #[error("a cluster from a snapshot file begins at the file's time: give no other start time")]
    StartOfImage,
    /// The first cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// A change of a new cluster from what it starts from.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// Name; `None`: the identifier.
    pub name: Option<String>,
    /// Seed; `None`: that of the image.
    pub seed: Option<u64>,
    /// Mode of the clock; `None`: that of the image.
    pub mode: Option<Mode>,
    /// Components; `None`: those of the image.
    pub components: Option<ComponentChoice>,
    /// Fault rules.
    pub faults: RuleSet,
}

/// All clusters and images of a process.
pub struct Lab {
    config: LabConfig,
    keys_of_process: Arc<ClusterKeys>,
    state: Mutex<LabState>,
    /// Makes the front end of each cluster.
    front: fn(&Arc<Self>) -> Front,
    /// Answers to calls with idempotency keys.
    pub(crate) keys: IdempotencyKeys,
    /// Calls that made something with a name.
    pub(crate) named: NamedCalls,
    /// Permits for snapshot files.
    pub(crate) files: Arc<Semaphore>,
}

#[derive(Default)]
struct LabState {
    clusters: BTreeMap<String, ClusterSlot>,
    images: BTreeMap<String, Arc<LabImage>>,
    /// Number of clusters that were started.
    started: u64,
}

/// A place among the clusters of a process: taken before a cluster starts, so that the bound holds.
enum ClusterSlot {
    Starting,
    Running(Arc<LabCluster>),
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The current time in whole seconds.
fn now() -> Timestamp {
    Clock::real().now_seconds()
}

/// Reads the snapshot file from which the first cluster starts.
async fn read_image(
    path: &Path,
    keys: &Arc<ClusterKeys>,
    template: &Arc<dyn Template>,
) -> Result<LabImage, LabError> {
    let read = match File::open(path) {
        Ok(file) => snapshot::load(file, path, ("", snapshot::Identity::Kept), (keys, template)).await,
        Err(error) => Err(error.into()),
    };
    read.map_err(|error| LabError::Image { path: path.to_owned(), error })
}

impl Lab {
    /// Starts a lab with its first cluster. `front` makes the front end of each cluster.
    pub(crate) async fn start_behind(
        config: LabConfig,
        front: fn(&Arc<Self>) -> Front,
    ) -> Result<Arc<Self>, LabError> {
        let mut keys = Arc::new(ClusterKeys::new(&config.names)?);
        let image = match &config.image {
            None => None,
            Some(_) if config.start.is_some() => return Err(LabError::StartOfImage),
            Some(path) => Some(Arc::new(read_image(path, &keys, &config.template).await?)),
        };
        if let Some(image) = &image {
            // Those of the file, if it has some.
            keys = image.keys.clone();
        }
        let seed = config.seed.or_else(|| image.as_ref().and_then(|image| image.seed));
        let seed = seed.unwrap_or_else(|| Nondet::real().rng.next_u64());
        let lab = Arc::new(Self {
            keys_of_process: keys.clone(),
            state: Mutex::default(),
            front,
            keys: IdempotencyKeys::default(),
            named: NamedCalls::default(),
            files: Arc::new(Semaphore::new(limits::FILES)),
            config: LabConfig { seed: Some(seed), ..config },
        });
        let config = &lab.config;
        let origin = image.as_ref().map_or(Origin::Empty, |image| Origin::Image(image.state.clone()));
        let time = image.as_ref().map(|image| image.state.time());
        let host = HostConfig {
            name: MAIN.to_owned(),
            origin,
            components: config.components,
            seed: Some(seed),
            mode: config.mode,
            start: time.or(config.start).unwrap_or_else(now),
            keys: keys.clone(),
            placement: if config.mode == Mode::Real { Placement::Process } else { Placement::Thread },
            template: config.template.clone(),
            address: config.listen,
            is_main: true,
        };
        let cluster = ClusterConfig {
            id: MAIN.to_owned(),
            name: MAIN.to_owned(),
            from: config
                .image
                .as_ref()
                .map_or_else(|| "empty".to_owned(), |path| format!("snapshot file {}", path.display())),
            image,
            host,
            log_bytes: config.log_bytes,
            faults: RuleSet::default(),
            keys,
        };
        let started = LabCluster::start(cluster, config.listen, (lab.front)(&lab)).await?;
        lab.state.lock().clusters.insert(MAIN.to_owned(), ClusterSlot::Running(started));
        Ok(lab)
    }

    /// The certificate authority of all clusters, but for those from a snapshot file with keys.
    pub fn authority(&self) -> &Authority {
        &self.keys_of_process.authority
    }

    /// The keys of all clusters, but for those from a snapshot file with keys.
    pub(crate) fn cluster_keys(&self) -> &Arc<ClusterKeys> {
        &self.keys_of_process
    }

    /// What the control planes are made of.
    pub(crate) fn template(&self) -> &Arc<dyn Template> {
        &self.config.template
    }

    /// Most clusters.
    pub fn most_clusters(&self) -> usize {
        self.config.clusters
    }

    /// Whether callers may start programs.
    pub fn allows_programs(&self) -> bool {
        self.config.programs
    }

    /// A cluster by its identifier or name.
    ///
    /// # Errors
    /// 404: there is none.
    pub fn cluster(&self, id: &str) -> Result<Arc<LabCluster>, Status> {
        let state = self.state.lock();
        let running = |slot: &ClusterSlot| match slot {
            ClusterSlot::Running(cluster) => Some(cluster.clone()),
            ClusterSlot::Starting => None,
        };
        let by_name =
            || state.clusters.values().filter_map(running).find(|cluster| cluster.config.name == id);
        let found = state.clusters.get(id).and_then(running).or_else(by_name);
        found.ok_or_else(|| error::not_found("cluster", id))
    }

    /// All clusters, by identifier.
    pub fn clusters(&self) -> Vec<Arc<LabCluster>> {
        let state = self.state.lock();
        let running = state.clusters.values().filter_map(|slot| match slot {
            ClusterSlot::Running(cluster) => Some(cluster.clone()),
            ClusterSlot::Starting => None,
        });
        running.collect()
    }

    /// Starts a cluster from an image. `from` says where it comes from.
    ///
    /// # Errors
    /// 429: too many clusters. 409: the name is taken. 500: it does not start.
    pub fn start_from<'a>(
        self: &'a Arc<Self>,
        image: &'a Arc<LabImage>,
        from: String,
        options: StartOptions,
    ) -> BoxFuture<'a, Result<Arc<LabCluster>, Status>> {
        Box::pin(async move {
            let id = self.reserve(options.name.as_deref())?;
            let mut guard = Reservation { lab: self, id: Some(&id) };
            let host = HostConfig {
                name: id.clone(),
                origin: Origin::Image(image.state.clone()),
                components: options.components.unwrap_or(image.components),
                seed: options.seed.or(image.seed),
                mode: options.mode.unwrap_or(image.mode),
                start: image.state.time(),
                keys: image.keys.clone(),
                placement: Placement::Thread,
                template: self.config.template.clone(),
                address: self.config.listen,
                is_main: false,
            };
            let config = ClusterConfig {
                name: options.name.unwrap_or_else(|| id.clone()),
                id: id.clone(),
                from,
                image: Some(image.clone()),
                host,
                log_bytes: self.config.log_bytes,
                faults: options.faults,
                keys: image.keys.clone(),
            };
            let listen = SocketAddr::new(self.config.listen.ip(), 0);
            let started = LabCluster::start(config, listen, (self.front)(self)).await;
            let started = started.map_err(Status::internal)?;
            guard.id = None;
            drop(guard);
            self.state.lock().clusters.insert(id, ClusterSlot::Running(started.clone()));
            Ok(started)
        })
    }

    /// Takes a place for a new cluster and returns its identifier.
    fn reserve(&self, name: Option<&str>) -> Result<String, Status> {
        let mut state = self.state.lock();
        let is_named = |slot: &ClusterSlot| matches!(slot, ClusterSlot::Running(cluster) if Some(cluster.config.name.as_str()) == name);
        if name.is_some_and(|name| state.clusters.contains_key(name)) || state.clusters.values().any(is_named)
        {
            return Err(error::conflict(format!("a cluster has the name {:?}", name.unwrap_or_default())));
        }
        if state.clusters.len() >= self.config.clusters {
            return Err(error::too_many("clusters", self.config.clusters, "too many clusters"));
        }
        state.started += 1;
        let id = format!("f{}", state.started);
        state.clusters.insert(id.clone(), ClusterSlot::Starting);
        Ok(id)
    }

    /// Ends a cluster and forgets it.
    ///
    /// # Errors
    /// 422: it is the first one.
    pub fn end_cluster<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Ok(cluster) = self.cluster(id) else { return Ok(()) };
            if cluster.config.id == MAIN {
                return Err(error::impossible("the first cluster ends with the process"));
            }
            self.state.lock().clusters.remove(&cluster.config.id);
            self.named.forget("cluster", &cluster.config.name);
            cluster.end().await;
            Ok(())
        })
    }

    /// Keeps an image under its name. An image of the same snapshot file stays.
    ///
    /// # Errors
    /// 409: the name is taken. 429: too many images.
    pub fn keep_image(&self, image: LabImage) -> Result<Arc<LabImage>, Status> {
        let mut state = self.state.lock();
        if let Some(known) = state.images.get(&image.name) {
            if image.digest.is_some() && known.digest == image.digest {
                return Ok(known.clone());
            }
            return Err(error::conflict(format!("an image has the name {:?}", image.name)));
        }
        if state.images.len() >= limits::IMAGES {
            return Err(error::too_many("images", limits::IMAGES, "too many images"));
        }
        let image = Arc::new(image);
        state.images.insert(image.name.clone(), image.clone());
        Ok(image)
    }

    /// An image by its name.
    ///
    /// # Errors
    /// 404: there is none.
    pub fn image(&self, name: &str) -> Result<Arc<LabImage>, Status> {
        self.state.lock().images.get(name).cloned().ok_or_else(|| error::not_found("image", name))
    }

    /// All images by name, each with the number of clusters that started from it.
    pub fn images(&self) -> Vec<(Arc<LabImage>, usize)> {
        let clusters = self.clusters();
        let images: Vec<_> = self.state.lock().images.values().cloned().collect();
        let shared = |image: &Arc<LabImage>| {
            let of = |cluster: &&Arc<LabCluster>| {
                cluster.config.image.as_ref().is_some_and(|other| Arc::ptr_eq(other, image))
            };
            clusters.iter().filter(of).count()
        };
        images.into_iter().map(|image| (image.clone(), shared(&image))).collect()
    }

    /// Forgets an image; clusters from it live on.
    pub fn delete_image(&self, name: &str) {
        self.state.lock().images.remove(name);
        self.named.forget("image", name);
    }

    /// Ends all clusters.
    pub fn end<'a>(&'a self) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let clusters = self.clusters();
            self.state.lock().clusters.clear();
            for cluster in clusters {
                cluster.end().await;
            }
        })
    }
}

/// Gives the place of a cluster back that does not start.
struct Reservation<'l> {
    lab: &'l Lab,
    id: Option<&'l str>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.lab.state.lock().clusters.remove(id);
        }
    }
}
