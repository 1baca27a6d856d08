//! [`Builder`]: configures an informer (source, indexes, name, metrics) and starts it.

use crate::cache::indexer::Indexer;
use crate::driver::Driver;
use crate::image::CacheSet;
use crate::informer::metrics;
use crate::metrics::Registry;
use crate::shared::Shared;
use crate::{DynListerWatcher, Index, Informer, ListerWatcher, Map, Object, Randomness, SharedObject};
use futures::future::BoxFuture;
use kstore_nondet::Rng;
use std::future::Future;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Configures and builds an [`Informer`].
pub struct Builder<S: ListerWatcher> {
    source: S,
    cache: Indexer,
    name: String,
    rng: Rng,
    metrics: Option<Registry>,
    caches: Option<CacheSet>,
}

impl<S: ListerWatcher> Builder<S> {
    /// A builder for an informer over `source`, without indexes.
    pub fn new(source: S) -> Self {
        let name = std::any::type_name::<S::Obj>().to_owned();
        Self {
            source,
            cache: Indexer::of::<S::Obj>(),
            name,
            rng: Rng::seeded(0),
            metrics: None,
            caches: None,
        }
    }

    /// Transforms every object before the informer caches it, for example to drop unneeded fields. `make`
    /// runs once for each version that arrives, outside every lock; the cache holds only its result.
    ///
    /// Key, uid and revision must stay the same. Call `map` before [`Builder::index`]: indexes read the
    /// transformed objects.
    ///
    /// # Panics
    /// When an index is already declared.
    #[must_use]
    pub fn map<U: Object>(self, make: impl Fn(S::Obj) -> U + Send + Sync + 'static) -> Builder<Map<S, U>> {
        self.try_map(move |object| Ok(make(object)))
    }

    /// Like [`Builder::map`], with a transform that can fail. The informer treats an object that `make`
    /// refuses like an object that the source cannot decode: see [`Informer::undecodable`].
    ///
    /// # Panics
    /// When an index is already declared.
    #[must_use]
    pub fn try_map<U: Object>(
        self,
        make: impl Fn(S::Obj) -> Result<U, String> + Send + Sync + 'static,
    ) -> Builder<Map<S, U>> {
        assert!(!self.cache.has_indexes(), "objects are made over before they are indexed");
        let Self { source, cache: _, name, rng, metrics, caches } = self;
        Builder { source: Map::new(source, make), cache: Indexer::of::<U>(), name, rng, metrics, caches }
    }

    /// Declares an index, which readers then use with [`Informer::by`].
    #[must_use]
    pub fn index<K: Ord + Clone + Send + Sync + 'static>(mut self, index: &Index<S::Obj, K>) -> Self {
        self.cache.declare(index);
        self
    }

    /// Sets the name for logs and metrics; the default is the name of the object's type.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets the source of randomness for the jitter of back-offs. The default is a fixed seed, which suits a
    /// single process. Several processes need different seeds, or they all reconnect to a restarted server at
    /// once.
    #[must_use]
    pub fn rng(mut self, rng: impl Into<Randomness>) -> Self {
        self.rng = rng.into().into_rng().fork(&self.name);
        self
    }

    /// Exposes the informer's metrics in `registry`, labelled with its name, until the informer ends.
    #[must_use]
    pub fn metrics(mut self, registry: &Registry) -> Self {
        self.metrics = Some(registry.clone());
        self
    }

    /// Adds the informer to `caches`, by its name. It starts with the state that the set has for it, if any, and then reads the changes
    /// since: see [`CacheSet::from_image`].
    #[must_use]
    pub fn caches(mut self, caches: &CacheSet) -> Self {
        self.caches = Some(caches.clone());
        self
    }

    /// Builds the informer and the future that drives it. The informer runs until the future is dropped,
    /// `stop` is cancelled, or the last handle is dropped.
    pub fn build(
        self,
        stop: &CancellationToken,
    ) -> (Informer<S::Obj>, impl Future<Output = ()> + Send + use<S>) {
        let Self { source, cache, name, rng, metrics, caches } = self;
        let parts = InformerParts { cache, name, rng, metrics, caches };
        let (shared, driver, guard) = assemble(source.erased(), parts, stop);
        (Informer::new(shared, guard), driver)
    }

    /// Builds the informer and spawns its driver on the current runtime.
    pub fn spawn(self, stop: &CancellationToken) -> Informer<S::Obj> {
        let (informer, driver) = self.build(stop);
        tokio::spawn(driver);
        informer
    }
}

/// What a [`Builder`] has beside its source.
struct InformerParts {
    cache: Indexer,
    name: String,
    rng: Rng,
    metrics: Option<Registry>,
    caches: Option<CacheSet>,
}

/// The state of a new informer, its driver, and the guard that ends the driver.
fn assemble(
    source: DynListerWatcher<SharedObject>,
    parts: InformerParts,
    stop: &CancellationToken,
) -> (Arc<Shared>, BoxFuture<'static, ()>, DropGuard) {
    let InformerParts { mut cache, name, rng, metrics: registry, caches } = parts;
    // A seeded hash: clients that choose object names cannot provoke collisions.
    cache.seed(rng.fork("keys").next_u64());
    let capabilities = source.capabilities();
    let synced_at = caches.as_ref().and_then(|caches| caches.fill(&name, &mut cache, &capabilities));
    // The driver alone owns the source, which ends with it.
    let (revisions, demand) = (capabilities.revisions.clone(), source.demand_if_alive());
    let shared = Arc::new(Shared::new(name, cache, revisions, demand, synced_at));
    if let Some(caches) = &caches {
        caches.add(&shared, &capabilities);
    }
    if let Some(registry) = &registry {
        metrics::show(&shared, registry);
    }
    let stop = stop.child_token();
    let driver = Driver::new(source, capabilities, rng, shared.clone());
    (shared, driver.run(stop.clone()), stop.drop_guard())
}
