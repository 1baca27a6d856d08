//! Copies of a prepared cluster: [`ClusterImage`] and [`Cluster::fork`]. The copies share objects, their history and the API server's
//! in-memory state until one of the clusters changes them. Connections and watches of clients are not copied.

use crate::builder::{ClusterOrigin, tokens};
use crate::cluster::Cluster;
use crate::components::Builder;
use crate::faults::Faults;
use crate::namespaces;
use kstore_access::token::Tokens;
use kstore_apiserver::ServerImage;
use kstore_nondet::{Clock, Nondet, Rng};
use kstore_store::{ImageError, Store, StoreImage};
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
    builder: Builder,
    clock_at_image: jiff::Timestamp,
    rng: Rng,
    server: ServerImage,
    store: StoreImage,
    tokens: Option<Arc<Tokens>>,
    generation: u64,
    faults: Option<Faults>,
}

impl std::fmt::Debug for ClusterImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterImage").field("revision", &self.store.revision()).finish_non_exhaustive()
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

    async fn start_builder(&self, builder: Builder) -> Result<Cluster, ForkError> {
        let virtual_time = builder.seed.is_some();
        let clock = if virtual_time { Clock::simulated_from(self.clock_at_image) } else { Clock::real() };
        let generation = self.generation + 1;
        let label = format!("image-{generation}");
        let rng = match builder.seed {
            Some(seed) => Rng::seeded(seed).fork(&label),
            None => self.rng.fork(&label),
        };
        let nondet = Nondet { clock, rng };
        let origin = ClusterOrigin {
            store: Store::from_image(&self.store, &nondet),
            image: Some(&self.server),
            tokens: self.tokens.clone(),
            generation,
            faults: self.faults.clone(),
        };
        Ok(builder.assemble(nondet, origin).await?)
    }
}

impl ClusterImage {
    /// Starts a new cluster that shares the initial objects of this image of a bare API server, with its own namespace UIDs and random
    /// values, and in real time its own token keys.
    pub(crate) async fn start_as(&self, builder: Builder) -> Result<Cluster, kstore_apiserver::StartError> {
        let (nondet, tokens) = match builder.seed {
            Some(seed) => {
                (Nondet { clock: Clock::simulated(), rng: Rng::seeded(seed).fork("initial") }, None)
            }
            None => (Nondet::real(), tokens().map(Arc::new)),
        };
        let store = Store::from_image(&self.store, &nondet);
        namespaces::renew_namespaces(&store, &nondet).await;
        let image = Some(&self.server);
        builder.assemble(nondet, ClusterOrigin { store, image, tokens, generation: 0, faults: None }).await
    }
}

impl Cluster {
    /// Takes a snapshot of the cluster, from which others can start. The cost does not depend on the number of objects.
    ///
    /// # Errors
    /// The cluster has ended.
    pub fn image(&self) -> Result<ClusterImage, ImageError> {
        let parts = &self.parts;
        // Taken before the store's image, so that the store has the history of everything that the server has not seen yet.
        let server = parts.api.image();
        Ok(ClusterImage {
            builder: parts.builder.clone(),
            clock_at_image: parts.nondet.clock.now(),
            rng: parts.nondet.rng.clone(),
            server,
            store: parts.store.image()?,
            tokens: parts.tokens.clone(),
            generation: parts.generation,
            faults: parts.injector.faults(),
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
