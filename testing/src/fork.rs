//! Copies of a prepared cluster: [`ClusterImage`] and [`Cluster::fork`]. The objects, their history and what the API server knows of them
//! are shared until one of the clusters changes them. Not a copy of what clients know: connections and watches stay where they are.

use crate::builder::{Builder, Origin, tokens};
use crate::{Cluster, Faults, initial};
use kstore_apiserver::ServerImage;
use kstore_apiserver::token::Tokens;
use kstore_nondet::{Clock, Nondet, Rng};
use kstore_store::{ImageError, Store, StoreImage};
use std::sync::Arc;

/// Why a cluster has no fork.
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

/// A cluster at one moment, from which any number of clusters can start. Immutable; it keeps no task running and belongs to no runtime,
/// so that a static of a test binary can hold it and each test start from it. It does not keep the cluster that it was taken of.
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
    /// Starts a cluster from the image on the current tokio runtime, with its own API server, controllers, scheduler and nodes. On return the
    /// API serves every request. The cost does not depend on the number of objects, except that controllers, scheduler and nodes,
    /// if there are any, read the objects that they act on; they begin to do so afterwards.
    ///
    /// Revisions continue, so a client may resume a watch of the original cluster. Watches and ports are not inherited. Leases of the
    /// store have the time left that they had in the image. Stopped nodes run again. Keys for tokens are shared. Faults in force are
    /// in force here, too, from their beginning. In virtual time the clock goes on from the image's, and every cluster of one image
    /// draws the same random values: tests that begin with it do not depend on each other's order.
    ///
    /// # Panics
    /// If it cannot start; [`Self::try_start`] returns the error.
    pub async fn start(&self) -> Cluster {
        self.try_start()
            .await
            .unwrap_or_else(|error| panic!("the cluster cannot start from its image: {error}"))
    }

    /// As [`Self::start`].
    ///
    /// # Errors
    /// If the API server does not start. What had started has ended.
    pub async fn try_start(&self) -> Result<Cluster, ForkError> {
        let virtual_time = self.builder.seed.is_some();
        let clock = if virtual_time { Clock::simulated_from(self.clock_at_image) } else { Clock::real() };
        let generation = self.generation + 1;
        let label = format!("image-{generation}");
        let rng = match self.builder.seed {
            Some(seed) => Rng::seeded(seed).fork(&label),
            None => self.rng.fork(&label),
        };
        let nondet = Nondet { clock, rng };
        let origin = Origin {
            store: Store::from_image(&self.store, &nondet),
            image: Some(&self.server),
            tokens: self.tokens.clone(),
            generation,
            faults: self.faults.clone(),
        };
        Ok(self.builder.clone().assemble(nondet, origin).await?)
    }
}

impl ClusterImage {
    /// Starts a new cluster that shares the initial objects of this image, which is of a bare API server. In real time it has random
    /// values, keys and UIDs of namespaces of its own.
    pub(crate) async fn start_as(&self, builder: Builder) -> Result<Cluster, kstore_apiserver::StartError> {
        let (nondet, tokens) = match builder.seed {
            Some(seed) => {
                (Nondet { clock: Clock::simulated(), rng: Rng::seeded(seed).fork("initial") }, None)
            }
            None => (Nondet::real(), tokens().map(Arc::new)),
        };
        let store = Store::from_image(&self.store, &nondet);
        if builder.seed.is_none() {
            initial::renew_namespaces(&store, &nondet).await;
        }
        let image = Some(&self.server);
        builder.assemble(nondet, Origin { store, image, tokens, generation: 0, faults: None }).await
    }
}

impl Cluster {
    /// The cluster as it is now, to start others from. Takes no longer for many objects than for few.
    ///
    /// # Errors
    /// If the cluster has ended.
    pub fn image(&self) -> Result<ClusterImage, ImageError> {
        let parts = &self.parts;
        // Before the image of the store, which so has the history since then.
        let server = parts.api.image();
        Ok(ClusterImage {
            builder: parts.builder.clone(),
            clock_at_image: parts.nondet.clock.now(),
            rng: parts.nondet.rng.clone(),
            server,
            store: parts.store.image()?,
            tokens: parts.tokens.clone(),
            generation: parts.generation,
            faults: parts.edge.faults(),
        })
    }

    /// A copy of this cluster as it is now, which shares its memory until one of the two changes: [`Self::image`] and
    /// [`ClusterImage::start`]. Writes to either are not seen in the other.
    ///
    /// # Panics
    /// If the cluster cannot be copied; [`Self::try_fork`] returns the error.
    pub async fn fork(&self) -> Self {
        self.try_fork().await.unwrap_or_else(|error| panic!("the cluster has no fork: {error}"))
    }

    /// As [`Self::fork`].
    ///
    /// # Errors
    /// If the cluster has ended.
    pub async fn try_fork(&self) -> Result<Self, ForkError> {
        self.image()?.try_start().await
    }
}
