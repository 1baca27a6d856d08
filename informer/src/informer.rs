//! [`Informer`]: a cache of a source's objects that keeps itself up to date, shared by all who clone it. [`Builder`] makes one.
//!
//! One task drives it: it asks what the reflector says, applies each batch under one lock, then hands the changes to the
//! subscribers. It never polls: it wakes for the network, the end of a wait, or the stop.

#[cfg(test)]
mod tests;

use std::{borrow::Borrow, future::Future, sync::Arc, time::Duration};

use futures::StreamExt;
use kstore_nondet::Rng;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Capabilities, Index, Key, ListerWatcher, Object, Revision, Subscription, Undecodable, View,
    indexer::Indexer,
    limits::SILENT_INTERVALS,
    lister_watcher::Frames,
    reflector::{Input, Next, Reflector},
    shared::Shared,
};

/// The informer has ended: its stop was cancelled, or every handle to it was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has ended")]
pub struct Stopped;

/// What an informer is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Getting the first state.
    Starting,
    /// Following the source.
    Streaming,
    /// The source failed; the cache shows the last known state. It recovers by itself.
    Degraded {
        /// The newest failure.
        error: String,
    },
    /// Ended for ever.
    Stopped,
}

/// A handle to a shared cache. Clones are the same informer; it ends when its stop is cancelled, or when the last handle
/// and the last subscription are dropped. Reads never block on the network.
pub struct Informer<T> {
    shared: Arc<Shared<T>>,
    /// Ends the driver with the last handle.
    guard: Arc<DropGuard>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), guard: self.guard.clone() }
    }
}

impl<T: Object> Informer<T> {
    /// The name given by [`Builder::name`].
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The cached object of this key.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.shared.cache.read().get(key).cloned()
    }

    /// All cached objects, in key order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.view().iter().cloned().collect()
    }

    /// The cached objects of one namespace, in key order.
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        self.view().namespace(namespace).cloned().collect()
    }

    /// The cached objects under `value`, in key order; costs what it gives back.
    ///
    /// # Panics
    /// When the index was not declared with [`Builder::index`].
    pub fn by<K, Q>(&self, index: &Index<T, K>, value: &Q) -> Vec<Arc<T>>
    where
        K: Ord + Clone + Borrow<Q> + Send + Sync + 'static,
        Q: Ord + ?Sized,
    {
        self.shared.cache.read().by(index, value).cloned().collect()
    }

    /// The whole cache at one revision.
    pub fn view(&self) -> View<T> {
        View(self.shared.cache.read().clone())
    }

    /// How many objects are cached.
    pub fn len(&self) -> usize {
        self.shared.cache.read().len()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Objects that the source could not read; the cache holds their last readable state, or nothing.
    pub fn undecodable(&self) -> Vec<Undecodable> {
        self.shared.cache.read().undecodable().cloned().collect()
    }

    /// The revision that the cache shows.
    pub fn revision(&self) -> Revision {
        self.shared.cache.read().revision()
    }

    /// Whether the first state has arrived.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Waits until the first state has arrived.
    ///
    /// # Errors
    /// When the informer ends before.
    pub async fn synced(&self) -> Result<(), Stopped> {
        self.shared.synced().await
    }

    /// Waits until the cache shows `revision` or a later one. Subscribers have the changes pending by then.
    ///
    /// # Errors
    /// When the informer ends before.
    pub async fn wait_for(&self, revision: Revision) -> Result<(), Stopped> {
        self.shared.wait_for(revision).await
    }

    /// Waits until the object of `key`, or its absence, satisfies `done`, and gives back what did.
    ///
    /// # Errors
    /// When the informer ends before.
    pub async fn until(
        &self,
        key: &Key,
        mut done: impl FnMut(Option<&T>) -> bool,
    ) -> Result<Option<Arc<T>>, Stopped> {
        self.synced().await?;
        loop {
            let (object, revision) = {
                let cache = self.shared.cache.read();
                (cache.get(key).cloned(), cache.revision())
            };
            if done(object.as_deref()) {
                return Ok(object);
            }
            self.wait_for(Revision(revision.0 + 1)).await?;
        }
    }

    /// What the informer is doing.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// A stream of the changes, beginning with everything cached now as [`crate::Delta::Added`]. Drop it to leave.
    pub fn subscribe(&self) -> Subscription<T> {
        Subscription::new(self.clone(), self.shared.join())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<T>> {
        &self.shared
    }
}

/// Makes an [`Informer`].
pub struct Builder<S: ListerWatcher> {
    source: S,
    cache: Indexer<S::Obj>,
    name: String,
    rng: Rng,
}

impl<S: ListerWatcher> Builder<S> {
    /// An informer over `source`, without indexes.
    pub fn new(source: S) -> Self {
        let name = std::any::type_name::<S::Obj>().to_owned();
        Self { source, cache: Indexer::default(), name, rng: Rng::seeded(0) }
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
    pub fn rng(mut self, rng: &Rng) -> Self {
        self.rng = rng.fork(&self.name);
        self
    }

    /// The informer, and the future that drives it. The informer lives as long as the future is polled, `stop` is not
    /// cancelled, and a handle exists.
    pub fn build(
        self,
        stop: &CancellationToken,
    ) -> (Informer<S::Obj>, impl Future<Output = ()> + Send + use<S>) {
        let shared = Arc::new(Shared::new(self.name, self.cache));
        let stop = stop.child_token();
        let capabilities = self.source.capabilities();
        let driver = Driver {
            source: self.source,
            reflector: Reflector::new(capabilities.streaming_list, self.rng),
            capabilities,
            shared: shared.clone(),
            stream: None,
        };
        let informer = Informer { shared, guard: Arc::new(stop.clone().drop_guard()) };
        (informer, driver.run(stop))
    }

    /// The informer, driven by a task of its own on the current runtime.
    pub fn spawn(self, stop: &CancellationToken) -> Informer<S::Obj> {
        let (informer, driver) = self.build(stop);
        tokio::spawn(driver);
        informer
    }
}

/// Carries out what the reflector says.
struct Driver<S: ListerWatcher> {
    source: S,
    capabilities: Capabilities,
    reflector: Reflector<S::Obj>,
    shared: Arc<Shared<S::Obj>>,
    stream: Option<Frames<S::Obj>>,
}

impl<S: ListerWatcher> Driver<S> {
    async fn run(mut self, stop: CancellationToken) {
        // Readers and subscribers learn of the end also when this future is dropped or its source panics.
        let ending = self.shared.clone();
        let _end = Ending(ending);
        let mut input = Input::Begin;
        loop {
            let span = tracing::debug_span!("reflector", informer = self.shared.name);
            let step = span.in_scope(|| self.reflector.step(input, Instant::now()));
            if let Some(error) = &step.trouble {
                tracing::debug!(informer = self.shared.name, %error, next = ?step.next, "source failed");
            }
            self.shared.report(step.trouble.as_ref(), step.next == Next::Read);
            for apply in step.apply {
                self.shared.apply(apply);
            }
            input = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                input = self.perform(step.next) => input,
            };
        }
    }

    async fn perform(&mut self, next: Next) -> Input<S::Obj> {
        if next != Next::Read {
            self.stream = None;
        }
        match next {
            Next::List(floor) => Input::Listed(self.source.list(floor).await),
            Next::Watch(start) => {
                Input::Opened(self.source.watch(start).await.map(|s| self.stream = Some(s)))
            }
            Next::Read => self.read().await,
            Next::Wait(how_long) => {
                sleep(how_long).await;
                Input::Waited
            }
        }
    }

    async fn read(&mut self) -> Input<S::Obj> {
        let Some(stream) = &mut self.stream else { return Input::Ended };
        let silence =
            self.capabilities.progress_every.unwrap_or(Duration::MAX).saturating_mul(SILENT_INTERVALS);
        match timeout(silence, stream.next()).await {
            Ok(Some(frames)) => Input::Frames(frames),
            Ok(None) => Input::Ended,
            Err(_) => Input::Silent,
        }
    }
}

struct Ending<T: Object>(Arc<Shared<T>>);

impl<T: Object> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
