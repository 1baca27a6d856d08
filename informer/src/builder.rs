//! [`Builder`]: what an informer is made of, and the making.

use std::{future::Future, sync::Arc};

use kstore_nondet::Rng;
use tokio_util::sync::CancellationToken;

use crate::{
    Index, Informer, ListerWatcher, Map, Object, Randomness, driver::Driver, indexer::Indexer,
    informer::figures, metrics::Registry, shared::Shared,
};

/// Makes an [`Informer`].
pub struct Builder<S: ListerWatcher> {
    source: S,
    cache: Indexer<S::Obj>,
    name: String,
    rng: Rng,
    metrics: Option<Registry>,
}

impl<S: ListerWatcher> Builder<S> {
    /// An informer over `source`, without indexes.
    pub fn new(source: S) -> Self {
        let name = std::any::type_name::<S::Obj>().to_owned();
        Self { source, cache: Indexer::default(), name, rng: Rng::seeded(0), metrics: None }
    }

    /// An informer over the objects that `make` makes of the source's: smaller ones, or with something worked out. It runs
    /// once for each version that arrives, outside every lock, and its result is all that the informer ever knows.
    ///
    /// Key, uid and revision must stay what they were. Call it before [`Builder::index`]: indexes are over what it makes.
    ///
    /// # Panics
    /// When an index is declared already.
    #[must_use]
    pub fn map<U: Object>(self, make: impl Fn(S::Obj) -> U + Send + Sync + 'static) -> Builder<Map<S, U>> {
        self.try_map(move |object| Ok(make(object)))
    }

    /// As [`Builder::map`], for what can fail. An object that `make` refuses is treated as one that its source could not
    /// read: see [`Informer::undecodable`].
    ///
    /// # Panics
    /// When an index is declared already.
    #[must_use]
    pub fn try_map<U: Object>(
        self,
        make: impl Fn(S::Obj) -> Result<U, String> + Send + Sync + 'static,
    ) -> Builder<Map<S, U>> {
        assert!(!self.cache.has_indexes(), "objects are made over before they are indexed");
        let Self { source, cache: _, name, rng, metrics } = self;
        Builder { source: Map::new(source, make), cache: Indexer::default(), name, rng, metrics }
    }

    /// Declares an index.
    #[must_use]
    pub fn index<K: Ord + Clone + Send + Sync + 'static>(mut self, index: &Index<S::Obj, K>) -> Self {
        self.cache.declare(index);
        self
    }

    /// A name for logs; by default the name of the object's type.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Where the jitter of waits comes from. By default a fixed seed: fine for one process, but many processes should
    /// not come back to a failed server in the same moment.
    #[must_use]
    pub fn rng(mut self, rng: impl Into<Randomness>) -> Self {
        self.rng = rng.into().into_rng().fork(&self.name);
        self
    }

    /// Shows the informer's figures in `registry`, under its name, as long as it lives.
    #[must_use]
    pub fn metrics(mut self, registry: &Registry) -> Self {
        self.metrics = Some(registry.clone());
        self
    }

    /// The informer, and the future that drives it. The informer lives as long as the future is polled, `stop` is not
    /// cancelled, and a handle exists.
    pub fn build(
        self,
        stop: &CancellationToken,
    ) -> (Informer<S::Obj>, impl Future<Output = ()> + Send + use<S>) {
        let mut cache = self.cache;
        // Nobody who chooses names should know which of them collide.
        cache.seed(self.rng.fork("keys").next_u64());
        let capabilities = self.source.capabilities();
        let shared = Arc::new(Shared::new(self.name, cache, capabilities.revisions.clone()));
        if let Some(registry) = &self.metrics {
            figures::show(&shared, registry);
        }
        let stop = stop.child_token();
        let driver = Driver::new(self.source, capabilities, self.rng, shared.clone());
        let informer = Informer::new(shared, stop.clone().drop_guard());
        (informer, driver.run(stop))
    }

    /// The informer, driven by a task of its own on the current runtime.
    pub fn spawn(self, stop: &CancellationToken) -> Informer<S::Obj> {
        let (informer, driver) = self.build(stop);
        tokio::spawn(driver);
        informer
    }
}
