//! Copies of a prepared cluster: [`ClusterImage`] and [`Cluster::fork`]. The copies share objects, their history and the API server's
//! in-memory state until one of the clusters changes them. Connections and watches of clients are not copied.

use crate::cluster::Cluster;
use crate::components::Builder;
use crate::faults::{FaultInjector, Faults};
use kstore_access::token::Tokens;
use kstore_cluster::{ControlPlaneImage, ImageError as PlaneImageError, StartError as PlaneError};
use kstore_store::ImageError;
use std::sync::Arc;

/// Why a cluster could not be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The cluster has ended.
    #[error("the cluster cannot be copied: {0}")]
    Image(#[from] ImageError),
    /// The API server of the fork did not start.
    #[error(transparent)]
    ApiServer(#[from] kstore_apiserver::StartError),
    /// The store of the fork did not open.
    #[error("the store cannot be opened: {0}")]
    Store(#[from] kstore_store::OpenError),
}

impl From<PlaneError> for ForkError {
    fn from(error: PlaneError) -> Self {
        match error {
            PlaneError::Store(error) => Self::Store(error),
            PlaneError::ApiServer(error) => Self::ApiServer(error),
        }
    }
}

/// Snapshot of a cluster, from which any number of clusters can start. It is immutable, has no running tasks and belongs to no runtime, so
/// a static of a test binary can hold it for all tests. It does not keep the original cluster running.
///
/// ```
/// use kstore_testing::{Cluster, ClusterImage};
/// use tokio::sync::OnceCell;
///
/// static PREPARED: OnceCell<ClusterImage> = OnceCell::const_new();
///
/// /// The cluster that every test of the binary begins with.
/// async fn prepared() -> Cluster {
///     let prepare = || async {
///         let cluster = Cluster::builder().virtual_time(1).start().await;
///         cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: space}}").await.unwrap();
///         cluster.settled().await.unwrap();
///         let image = cluster.image().unwrap();
///         cluster.stop().await;
///         image
///     };
///     PREPARED.get_or_init(prepare).await.start().await
/// }
///
/// # for _ in 0..2 {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// // In a #[tokio::test(start_paused = true)]:
/// let cluster = prepared().await;
/// cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: space}}").await.unwrap();
/// # });
/// # }
/// ```
pub struct ClusterImage {
    plane: ControlPlaneImage,
    builder: Builder,
    tokens: Option<Arc<Tokens>>,
    faults: Option<Faults>,
}

impl std::fmt::Debug for ClusterImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterImage").field("revision", &self.plane.revision()).finish_non_exhaustive()
    }
}

impl ClusterImage {
    /// Starts a cluster from the image on the current tokio runtime, with its own API server, controllers, scheduler and nodes. On return
    /// the API serves requests. The cost does not depend on the number of objects, except that controllers, scheduler and nodes afterwards
    /// read the objects that they act on.
    ///
    /// Revisions continue, so a client may resume a watch of the original cluster. Watches and ports are not inherited. Leases of the
    /// store have the remaining time that they had in the image. Stopped nodes run again. Token signing keys are shared. Injected faults
    /// continue, with their request counts reset. In virtual time the clock continues from the image's time, and every cluster of one image
    /// draws the same random values, so the order of tests does not matter.
    ///
    /// # Panics
    /// If the cluster cannot start; [`Self::try_start`] returns the error.
    pub async fn start(&self) -> Cluster {
        self.try_start()
            .await
            .unwrap_or_else(|error| panic!("the cluster cannot start from its image: {error}"))
    }

    /// Starts a cluster like [`Self::start`], but returns the error.
    ///
    /// # Errors
    /// The API server does not start. Everything that had started is stopped.
    pub async fn try_start(&self) -> Result<Cluster, ForkError> {
        self.start_builder(self.builder.clone()).await
    }

    /// Starts a cluster like [`Self::start`], but with random values that follow from `seed`, and with [`Builder::permuted_tasks`] also the
    /// order of tasks. A test that tries many seeds pays for the preparation once.
    ///
    /// # Panics
    /// If the cluster cannot start, or the image is one of a cluster in real time.
    pub async fn start_with_seed(&self, seed: u64) -> Cluster {
        assert!(self.builder.seed.is_some(), "a cluster in real time has no seed");
        let builder = self.builder.clone().virtual_time(seed);
        let started = self.start_builder(builder).await;
        started.unwrap_or_else(|error| panic!("the cluster cannot start from its image: {error}"))
    }

    /// Starts the API server of the copy alone, without the original's faults.
    pub(crate) async fn start_api_only(&self) -> Result<Cluster, ForkError> {
        let copy = self.start_builder(self.builder.clone().api_only()).await?;
        copy.set_faults(None);
        Ok(copy)
    }

    async fn start_builder(&self, builder: Builder) -> Result<Cluster, ForkError> {
        let (injector, tokens) = (FaultInjector::new(self.faults.clone()), self.tokens.clone());
        let (server, config) = (builder.server_config(tokens.clone()), builder.cluster_config(&injector));
        let plane = self.plane.start(server, config).await?;
        Ok(Cluster::new(plane, builder, injector, tokens))
    }
}

impl Cluster {
    /// Takes a snapshot of the cluster, from which others can start. The cost does not depend on the number of objects.
    ///
    /// # Errors
    /// The cluster has ended.
    pub fn image(&self) -> Result<ClusterImage, ImageError> {
        let plane = self.plane.image().map_err(|error| match error {
            PlaneImageError::Store(error) => error,
            PlaneImageError::External | PlaneImageError::Renew(_) => {
                unreachable!("the cluster has a store in memory, and its image no new namespaces")
            }
        })?;
        Ok(ClusterImage {
            plane,
            builder: self.builder.clone(),
            tokens: self.tokens.clone(),
            faults: self.injector.faults(),
        })
    }

    /// Starts a copy of this cluster, which shares memory with it until one of the two changes: [`Self::image`] followed by
    /// [`ClusterImage::start`]. Writes to either cluster do not affect the other.
    ///
    /// # Panics
    /// If the cluster cannot be copied; [`Self::try_fork`] returns the error.
    pub async fn fork(&self) -> Self {
        self.try_fork().await.unwrap_or_else(|error| panic!("the cluster cannot be forked: {error}"))
    }

    /// Starts a copy like [`Self::fork`], but returns the error.
    ///
    /// # Errors
    /// The cluster has ended.
    pub async fn try_fork(&self) -> Result<Self, ForkError> {
        self.image()?.try_start().await
    }
}
