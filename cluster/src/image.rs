//! [`ControlPlaneImage`]: copies of a prepared control plane. The copies share objects, their history, the API server's in-memory state and
//! the components' caches until one of them changes these. Connections and watches of clients are not copied.

use crate::config::{ClusterConfig, ComponentCaches};
use crate::control_plane::{ControlPlane, Origin, StartError, Starting};
use crate::namespaces::{self, RenewError};
use crate::storage::Storage;
use jiff::Timestamp;
use kstore_apiserver::{ServerConfig, ServerImage};
use kstore_informer::{self as informer, CacheImage, CacheSet};
use kstore_nondet::Nondet;
use kstore_scheduler::attempt::AttemptLog;
use kstore_store::{Revision, Store, StoreImage};
use std::fmt;

/// Why no image of a control plane could be taken.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The store has closed, or is on disk.
    #[error(transparent)]
    Store(#[from] kstore_store::ImageError),
    /// The storage is outside of this process.
    #[error("an external storage has no image in memory")]
    External,
    /// The namespaces got no new UIDs.
    #[error(transparent)]
    Renew(#[from] RenewError),
}

/// Snapshot of a control plane at one revision, from which any number of others can start. It is immutable, has no running tasks and
/// belongs to no runtime. It does not keep the original running.
pub struct ControlPlaneImage {
    /// The original's time.
    time: Timestamp,
    /// The memory of the original's API server; `None`: the store comes from a file.
    server: Option<ServerImage>,
    store: StoreImage,
    caches: CacheImages,
    /// What the scheduler has recorded about the pods.
    attempts: AttemptLog,
    generation: u64,
}

/// Copies of the components' informer caches. No cache has a newer revision than the store.
#[derive(Clone, Debug, Default)]
struct CacheImages {
    controllers: CacheImage,
    scheduler: CacheImage,
    nodes: CacheImage,
}

impl CacheImages {
    /// Of a running control plane.
    fn of(caches: &ComponentCaches) -> Self {
        let ComponentCaches { controllers, scheduler, nodes } = caches;
        Self { controllers: controllers.image(), scheduler: scheduler.image(), nodes: nodes.image() }
    }

    /// Caches of a copy, which are filled when they show `revision`.
    fn caches(&self, revision: Revision) -> ComponentCaches {
        let revision = informer_revision(revision);
        let set = |image| CacheSet::from_image(image, revision);
        ComponentCaches {
            controllers: set(&self.controllers),
            scheduler: set(&self.scheduler),
            nodes: set(&self.nodes),
        }
    }
}

fn informer_revision(revision: Revision) -> informer::Revision {
    informer::Revision(revision.0.unsigned_abs())
}

impl fmt::Debug for ControlPlaneImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlaneImage").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl ControlPlaneImage {
    /// An image of a store that comes from elsewhere, such as a file: API servers that start from it read all objects. `generation` is the
    /// number of images between the store's control plane and an original one.
    pub fn of_store(store: StoreImage, time: Timestamp, generation: u64) -> Self {
        let (caches, attempts) = Default::default();
        Self { time, server: None, store, caches, attempts, generation }
    }

    /// This image with the memory of the API server and the caches in another one, which was taken of a control plane from this image: so
    /// control planes start from it like from an image that was never in a file. The memory is left out if that control plane has written.
    #[must_use]
    pub fn with_memory_of(&self, other: Self) -> Self {
        let is_same = other.store.revision() == self.store.revision();
        let (server, caches) = if is_same { (other.server, other.caches) } else { Default::default() };
        let (attempts, generation) = (self.attempts.clone(), self.generation);
        Self { time: self.time, server, store: self.store.clone(), caches, attempts, generation }
    }

    /// This image with new UIDs for all namespaces, which programs take for the identity of a cluster. They are written at revisions of
    /// their own, with random values of `nondet`; API servers that start from it read all objects.
    ///
    /// # Errors
    /// A stored namespace is malformed, or the store takes no writes.
    pub async fn with_new_namespaces(&self, nondet: &Nondet) -> Result<Self, ImageError> {
        let store = Store::from_image(&self.store, nondet);
        let renewed = namespaces::renew_all(&store, nondet).await;
        let image = store.image();
        store.close().await;
        renewed?;
        let caches = CacheImages::default();
        let (attempts, generation) = (self.attempts.clone(), self.generation);
        Ok(Self { time: self.time, server: None, store: image?, caches, attempts, generation })
    }

    /// The store.
    pub fn store(&self) -> &StoreImage {
        &self.store
    }

    /// Number of images between the original and a control plane that started from none.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The newest revision in the image.
    pub fn revision(&self) -> Revision {
        self.store.revision()
    }

    /// The time of the original's clock when the image was taken.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Starts a control plane from the image on the current tokio runtime. Revisions and history continue, so a client may resume a watch
    /// of the original; leases of the store have the remaining time that they had in the image. The cost does not depend on the number of
    /// objects, except that components afterwards read the objects that they act on, and that an API server reads all objects of an image
    /// that was made by [`Self::of_store`].
    ///
    /// The configuration of the API server should equal the original's, token keys included, except in these members: the clock of
    /// `nondet` is replaced by one that continues from [`Self::time`] if it is simulated, and its random generator is forked by the number
    /// of images between this control plane and an original one. So control planes of one image that pass generators with one seed draw the
    /// same random values. [`ClusterConfig::components`] may be others than the original's; [`ClusterConfig::storage`] and
    /// [`ClusterConfig::initial_objects`] are ignored.
    ///
    /// # Errors
    /// The API server does not start.
    pub fn start(&self, mut server: ServerConfig, config: ClusterConfig) -> Starting<'_> {
        let generation = self.generation + 1;
        let Nondet { clock, rng } = server.nondet;
        server.nondet =
            Nondet { clock: clock.restarted_from(self.time), rng: rng.fork(&format!("image-{generation}")) };
        Box::pin(async move {
            let store = Store::from_image(&self.store, &server.nondet);
            let caches = self.caches.caches(self.revision());
            let attempts = self.attempts.copy();
            let origin = Origin { image: self.server.as_ref(), caches, attempts, generation };
            let mut plane = assemble(store, origin, server, config).await?;
            plane.run_components();
            Ok(plane)
        })
    }

    /// Starts like [`Self::start`], but at a revision above `revision` and without history, so that no client of another control plane at
    /// the same address sees a revision go down or resumes a watch across the change. An API server whose memory in the image is older than
    /// the store reads all objects.
    ///
    /// # Errors
    /// The API server does not start.
    pub fn start_above(
        &self,
        revision: Revision,
        mut server: ServerConfig,
        config: ClusterConfig,
    ) -> Starting<'_> {
        let generation = self.generation + 1;
        let Nondet { clock, rng } = server.nondet;
        server.nondet =
            Nondet { clock: clock.restarted_from(self.time), rng: rng.fork(&format!("image-{generation}")) };
        Box::pin(async move {
            let above = self.store.above(revision);
            let memory = self.server.as_ref().filter(|memory| memory.revision() == self.revision().0);
            let memory = memory.map(|memory| memory.moved_to(above.revision().0));
            let store = Store::from_image(&above, &server.nondet);
            // Their revisions are below this store's, without the history in between: the components list, and share what has not changed.
            let caches = self.caches.caches(store.revision());
            let attempts = self.attempts.copy();
            let origin = Origin { image: memory.as_ref(), caches, attempts, generation };
            let mut plane = assemble(store, origin, server, config).await?;
            plane.run_components();
            Ok(plane)
        })
    }

    /// Starts the storage and the API server of a new cluster that shares the initial objects of this image of an API server alone, with
    /// its own namespace UIDs and random values.
    pub(crate) async fn start_new(
        &self,
        mut server: ServerConfig,
        config: ClusterConfig,
    ) -> Result<ControlPlane, StartError> {
        // Other random values than those in the initial objects.
        server.nondet.rng = server.nondet.rng.fork("initial");
        let store = Store::from_image(&self.store, &server.nondet);
        namespaces::renew_namespaces(&store, &server.nondet).await;
        let origin = Origin { image: self.server.as_ref(), ..Origin::default() };
        assemble(store, origin, server, config).await
    }
}

/// Starts the storage and the API server of a control plane over this store.
async fn assemble(
    store: Store,
    origin: Origin<'_>,
    server: ServerConfig,
    config: ClusterConfig,
) -> Result<ControlPlane, StartError> {
    let config = ClusterConfig { storage: Storage::Opened(store), ..config };
    ControlPlane::assemble(origin, server, config).await
}

impl ControlPlane {
    /// Waits until the caches of all components show the newest revision of this moment. Copies from an image that is taken then share
    /// them, and do not read again what the components had not read.
    ///
    /// The caller bounds the wait: a component whose source is held up does not get there. Without an embedded store there is nothing to
    /// wait for.
    pub async fn caches_reached(&self) {
        if let Some(store) = self.store() {
            self.caches().reached(informer_revision(store.revision())).await;
        }
    }

    /// Takes an image of this control plane at its newest revision, also while requests run: each is either in the image or not. The cost
    /// does not depend on the number of objects.
    ///
    /// # Errors
    /// The control plane has ended, or its storage is not in the memory of this process.
    pub fn image(&self) -> Result<ControlPlaneImage, ImageError> {
        let store = self.store().ok_or(ImageError::External)?;
        // Both are taken before the store's image, so that the store has the history of what server and components have not seen yet.
        let (caches, server) = (CacheImages::of(self.caches()), self.api().image());
        let store = store.image()?;
        self.caches().demand(informer_revision(store.revision()));
        Ok(ControlPlaneImage {
            time: self.nondet().clock.now(),
            server: Some(server),
            store,
            caches,
            attempts: self.attempts().copy(),
            generation: self.generation(),
        })
    }
}
