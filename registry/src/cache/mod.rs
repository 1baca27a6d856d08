//! The watch cache: all stored objects in memory, as shared encoded entries. GET, LIST, WATCH, authorization
//! and admission read it. One watch on the storage feeds it, off the commit path. It is not a source of
//! truth: a linearizable read first waits until the cache has reached the storage's revision
//! ([`Cache::fresh`]).

mod bound;
mod change;
mod changes;
mod fill;
mod filter;
mod form;
mod image;
mod kind;
mod objects;
mod recent;
mod selection;
mod uncommitted;
mod unreadable;
mod wake_ups;
mod watch;
mod watchers;

use crate::entry::{Entry, UncommittedEntry};
use crate::kinds::Kinds;
use crate::pod_dialer::PodDialer;
pub use bound::{ReadBound, Verdict};
pub use change::{Change, EventType};
pub use changes::{Changes, Position};
pub use filter::{DeclaredFields, Filter};
pub use form::{
    Form, MetaVersion, RareForm, converted_event, envelope, enveloped, event_of, frame, partial_message,
    put_partial, watch_line,
};
pub use image::CacheImage;
use kind::Kind;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_storage::limits;
use kstore_storage::load_progress::LoadProgress;
use kstore_storage::metrics::Metrics;
use kstore_storage::restart::Panics;
use kstore_storage::storage::{RawBatch, RawEvent, RawWatch, ReadError, SharedStorage};
use kstore_storage::storage_key::{ROOT, is_definition};
pub use objects::Objects;
use parking_lot::RwLock;
use recent::Retained;
pub use selection::{Selected, Snapshot};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use uncommitted::UncommittedEntries;
use unreadable::UnreadableValues;
pub(crate) use unreadable::{Unreadable, read_error};
use wake_ups::WakeUps;
pub use watch::{Batch, Watch, WatchEnd, WatchStart};
pub use watchers::Delivery;

/// Pause between attempts to fill the cache from a storage that cannot be read.
const REFILL_PAUSE: Duration = Duration::from_secs(1);

/// The watch cache of one apiserver. Shared by `Arc`.
pub struct Cache {
    storage: SharedStorage,
    state: RwLock<CacheState>,
    /// Entries that writers of this process have made of objects whose changes have not arrived yet.
    uncommitted: UncommittedEntries,
    /// The revision up to which `state` is complete; changes only under the write lock of `state`.
    revision: AtomicI64,
    closed: AtomicBool,
    /// Whether storage changes are applied. False after a panic, until everything has been read again.
    is_following: AtomicBool,
    applied: Notify,
    /// The way to the pods of the cluster. It is beside their objects because every part that reads Services may have to reach one.
    pod_dialer: OnceLock<Arc<dyn PodDialer>>,
}

struct CacheState {
    /// How often everything has been read again, after the history in between was lost.
    reading: u64,
    /// The kinds served at the revision of this state.
    served: Arc<Kinds>,
    /// The objects of each kind, by the prefix of its keys.
    kinds: BTreeMap<&'static str, Kind>,
    retained: Retained,
    next_listener: u64,
    unreadable: UnreadableValues,
}

/// Why the cache could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The storage refused the read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Cache {
    /// Reads all stored objects and follows changes. Returns the cache, complete at the storage's current
    /// revision, and the task that updates it, which the caller must spawn. The task ends when the storage
    /// closes.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub async fn fill(
        storage: SharedStorage,
        observe: impl Fn(&RawBatch) + Send + Sync + 'static,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), FillError> {
        Self::fill_counted(storage, Kinds::built_in(), Arc::default(), observe).await
    }

    /// Fills a cache like [`Cache::fill`], and counts panics of its task in `metrics`. After a panic the
    /// cache is filled again. `kinds` are served without any stored definition.
    pub async fn fill_counted(
        storage: SharedStorage,
        kinds: Kinds,
        metrics: Arc<Metrics>,
        observe: impl Fn(&RawBatch) + Send + Sync + 'static,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), FillError> {
        let (state, revision, watch) = CacheState::read(&storage, &kinds, &metrics.loading).await?;
        let cache = Arc::new(Self {
            storage,
            state: RwLock::new(state),
            uncommitted: UncommittedEntries::default(),
            revision: AtomicI64::new(revision),
            closed: AtomicBool::new(false),
            is_following: AtomicBool::new(true),
            applied: Notify::new(),
            pod_dialer: OnceLock::new(),
        });
        let task = run(cache.clone(), watch, metrics, observe);
        Ok((cache, task))
    }

    /// The revision up to which this cache is complete.
    pub fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Sets what opens connections to programs in the pods of this cluster. Only the first call has an effect.
    pub fn reach_pods_by(&self, dialer: Arc<dyn PodDialer>) {
        // A cache has one API server.
        let _ = self.pod_dialer.set(dialer);
    }

    /// What opens connections to programs in the pods of this cluster.
    pub fn pod_dialer(&self) -> Option<Arc<dyn PodDialer>> {
        self.pod_dialer.get().cloned()
    }

    /// Whether the storage has closed, so that the cache does not change any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether the cache can be expected to be current: the storage answers and is not closed. Makes no
    /// request.
    pub fn is_healthy(&self) -> bool {
        !self.is_closed() && self.is_following.load(Ordering::Acquire) && self.storage.is_healthy()
    }

    /// The kinds that are served at the cache's revision.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.state.read().served.clone()
    }

    /// The storage that the cache reads.
    pub fn storage(&self) -> &SharedStorage {
        &self.storage
    }

    /// Waits until the cache contains all writes, by any writer, that were durable before this call. Returns
    /// a revision at which it is complete. A read after it is linearizable, on every storage.
    ///
    /// Over the embedded store this takes two loads from memory, and rarely has to wait. Over other storages
    /// it is a round trip, which concurrent callers share.
    ///
    /// # Errors
    /// `Unavailable` if the storage does not answer, its changes do not arrive within [`limits::FRESH_WAIT`],
    /// or it has closed. The cache may then be stale.
    pub async fn fresh(&self) -> Result<i64, ReadError> {
        let newest = match self.storage.revision_here() {
            Some(revision) => revision,
            None => self.storage.revision().await?,
        };
        let now = self.revision();
        if now >= newest {
            return Ok(now);
        }
        let reached = tokio::time::timeout(limits::FRESH_WAIT, self.reached(newest)).await;
        reached.ok().filter(|now| *now >= newest).ok_or_else(|| {
            ReadError::Unavailable(format!("its changes up to revision {newest} have not arrived"))
        })
    }

    /// Waits until the cache has reached `revision` or the storage has closed; returns the cache's revision.
    pub async fn reached(&self, revision: i64) -> i64 {
        loop {
            let mut applied = std::pin::pin!(self.applied.notified());
            applied.as_mut().enable();
            let now = self.revision();
            if now >= revision || self.closed.load(Ordering::Acquire) {
                return now;
            }
            applied.await;
        }
    }

    /// Announces the commit of an object: the cache then uses its entry instead of decoding the object.
    pub(crate) fn announce(&self, entry: UncommittedEntry) {
        self.uncommitted.add(entry);
    }

    /// Number of announced commits whose changes have not arrived.
    #[cfg(test)]
    pub(crate) fn announced(&self) -> usize {
        self.uncommitted.len()
    }

    /// Takes back the announcement of a commit that has failed.
    pub(crate) fn retract(&self, entry: &UncommittedEntry) {
        self.uncommitted.remove(entry);
    }

    /// The object under a storage key.
    pub fn get(&self, resource: &Resource, key: &str) -> Option<Arc<Entry>> {
        self.state.read().kinds.get(root(resource))?.objects().get(key).cloned()
    }

    /// The stored value under a key if it is not a valid object, so that no read returns it.
    pub(crate) fn unreadable(&self, key: &str) -> Option<Arc<Unreadable>> {
        self.state.read().unreadable.get(key).cloned()
    }

    /// The refusal of a list that would leave out objects because they cannot be read.
    pub(crate) fn refusal_of_list(&self, filter: &Filter) -> Option<Status> {
        self.state.read().unreadable.refusal(filter)
    }

    /// Makes lists and watches report objects that cannot be read: Kubernetes' feature AllowUnsafeMalformedObjectDeletion.
    pub fn report_unreadable(&self) {
        self.state.write().unreadable.are_reported = true;
    }

    /// Whether lists and watches report objects that cannot be read.
    pub fn reports_unreadable(&self) -> bool {
        self.state.read().unreadable.are_reported
    }

    /// A snapshot of the filter's kind, or of an indexed part that contains all matches. Costs one reference
    /// count, and holds no lock while it is used.
    pub fn snapshot(&self, filter: &Filter) -> Snapshot {
        let state = self.state.read();
        state.snapshot(filter, self.revision())
    }

    /// All matching objects in key order, and the revision at which the result is complete.
    pub fn scan(&self, filter: &Filter) -> (Vec<Arc<Entry>>, i64) {
        let snapshot = self.snapshot(filter);
        (snapshot.select(filter, "", 0).entries, snapshot.revision)
    }

    /// The number of objects of a kind.
    pub fn count(&self, resource: &Resource) -> usize {
        self.state.read().kinds.get(root(resource)).map_or(0, |kind| kind.objects().len())
    }

    /// The number of watches that a change of an object concerns, unless their selectors exclude it.
    pub fn watchers(&self, resource: &Resource, namespace: &str, name: &str) -> usize {
        let state = self.state.read();
        state.kinds.get(root(resource)).map_or(0, |kind| kind.watchers.of_object(namespace, name))
    }

    /// Applies one revision: first contents, then watchers' queues, then tasks that wait for the revision.
    /// The watchers to wake are added to `wake_ups`.
    fn apply(&self, batch: &RawBatch, wake_ups: &mut WakeUps) {
        let _span = tracing::debug_span!("cache", revision = batch.revision).entered();
        let served = self.served_after(batch);
        let mut state = self.state.write();
        if let Some(served) = served {
            state.serve(served, batch.revision);
        }
        let CacheState { served, kinds, retained, unreadable, .. } = &mut *state;
        for event in &batch.events {
            let Some(resource) = served.of_key(&event.key) else { continue };
            let Ok(key) = std::str::from_utf8(&event.key) else { continue };
            let current = event.current.as_ref();
            let made = current.and_then(|raw| self.uncommitted.take(resource, key, raw));
            let new = unreadable.read(resource, key, current, made);
            let kind = kinds.get_mut(root(resource)).expect("every stored kind has a map");
            if let Some(value) = unreadable.get(key).filter(|_| unreadable.are_reported) {
                let refusal = Arc::new(unreadable::read_error(resource, &[value]));
                let (namespace, name) = resource.parse_key(key).unwrap_or_default();
                kind.watchers.refuse(namespace, name, &refusal);
            }
            if let Some(change) = kind.change(key, batch.revision, new) {
                kind.watchers.dispatch(&change, wake_ups);
                retained.push(kinds, root(resource), change);
            }
        }
        self.revision.store(batch.revision, Ordering::Release);
        drop(state);
        self.applied.notify_waiters();
    }

    /// The kinds served after a batch, if it changes a CustomResourceDefinition. Compiled before the state is
    /// locked, which is safe because only this task changes the kinds.
    fn served_after(&self, batch: &RawBatch) -> Option<Arc<Kinds>> {
        let key = |event: &RawEvent| {
            std::str::from_utf8(&event.key).ok().filter(|key| is_definition(key)).is_some()
        };
        if !batch.events.iter().any(key) {
            return None;
        }
        let changes = batch
            .events
            .iter()
            .filter_map(|event| Some((std::str::from_utf8(&event.key).ok()?, event.current.as_ref())));
        Some(Arc::new(self.kinds().with(changes)))
    }

    /// Reads everything again after the history in between was lost. The lost changes are unknown: watches
    /// end, and clients that resume get 410 and list.
    async fn refill(&self) -> Result<Box<dyn RawWatch>, FillError> {
        let (mut fresh, revision, watch) =
            CacheState::read(&self.storage, &self.kinds(), &LoadProgress::default()).await?;
        let mut state = self.state.write();
        fresh.next_listener = state.next_listener;
        fresh.reading = state.reading + 1;
        fresh.unreadable.are_reported = state.unreadable.are_reported;
        // Before the new revision becomes visible: no watch may claim to have reached it.
        state.kinds.values().for_each(|kind| kind.watchers.cut());
        *state = fresh;
        self.revision.store(revision, Ordering::Release);
        drop(state);
        self.applied.notify_waiters();
        Ok(watch)
    }

    /// Refills as soon as the storage can be read; `None` if it never will be.
    async fn refilled(&self) -> Option<Box<dyn RawWatch>> {
        loop {
            match self.refill().await {
                Ok(watch) => return Some(watch),
                Err(FillError::Read(ReadError::Unavailable(_) | ReadError::Compacted { .. })) => {
                    tokio::time::sleep(REFILL_PAUSE).await;
                }
                Err(error) => {
                    tracing::error!(%error, "the watch cache cannot be filled again; the server must restart");
                    return None;
                }
            }
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.state.read().kinds.values().for_each(|kind| kind.watchers.close());
        self.applied.notify_waiters();
    }
}

impl CacheState {
    /// Reads everything: the contents, their revision, and a watch from there on.
    async fn read(
        storage: &SharedStorage,
        kinds: &Kinds,
        progress: &LoadProgress,
    ) -> Result<(Self, i64, Box<dyn RawWatch>), FillError> {
        let revision = storage.revision().await?;
        let page = storage.list(ROOT, &kstore_storage::storage::prefix_end(ROOT), 0, revision).await?;
        let items =
            page.items.iter().filter_map(|raw| Some((std::str::from_utf8(&raw.key).ok()?, Some(raw))));
        let served = Arc::new(kinds.without_custom().with(items));
        let (kinds, unreadable) = fill::kinds(&served, &page.items, revision, progress);
        drop(page);
        // All keys, not only ROOT: the cache must receive every revision to know its progress.
        let watch = storage.watch("", revision).await?;
        let unreadable = UnreadableValues::of(unreadable);
        let retained = Retained::default();
        let reading = 0;
        Ok((Self { reading, served, kinds, retained, next_listener: 0, unreadable }, revision, watch))
    }

    /// Changes the served kinds at `revision`. Adds a new kind, and ends the watches of a removed one. If the
    /// row of a kind has changed, makes its entries again, since the fields that selectors compare may
    /// differ. Watches whose selectors use declared fields end when their definition changes.
    fn serve(&mut self, served: Arc<Kinds>, revision: i64) {
        for kind in served.definitions() {
            let row = kind.storage_row();
            let objects = self.kinds.entry(root(row)).or_insert_with(|| Kind::of(&[], revision));
            let Some(before) = self.served.definition(row.group, row.plural) else { continue };
            if !std::ptr::eq(before.storage_row(), row) {
                objects.rebuild(row);
            }
            if before.definition.spec_hash != kind.definition.spec_hash {
                objects.watchers.cut_outdated(&kind.definition.spec_hash);
            }
        }
        for kind in self.served.definitions() {
            let row = kind.storage_row();
            if served.definition(row.group, row.plural).is_none()
                && let Some(objects) = self.kinds.get_mut(root(row))
            {
                // Its objects are deleted: watches deliver the deletions, and end.
                objects.watchers.close();
            }
        }
        self.served = served;
    }

    /// Whether a filter uses fields that an earlier definition of its kind declared.
    fn is_outdated(&self, filter: &Filter) -> bool {
        let Some(declared) = &filter.declared else { return false };
        let kind = self.served.definition(filter.resource.group, filter.resource.plural);
        kind.is_some_and(|kind| kind.definition.spec_hash != declared.spec_hash)
    }

    fn snapshot(&self, filter: &Filter, revision: i64) -> Snapshot {
        match self.kinds.get(root(filter.resource)) {
            Some(kind) => Snapshot { objects: kind.candidates(filter), revision, changed: kind.changed },
            // Nothing is known about a kind whose definition is gone: its objects of the past are in the storage.
            None => Snapshot { objects: Objects::default(), revision, changed: i64::MAX },
        }
    }
}

/// Runs the cache until the storage closes. After a panic the state is not trusted, since a change may be
/// half applied: everything is read again, and watches end, as after a loss of history. After too many panics
/// in a row the cache closes.
async fn run(
    cache: Arc<Cache>,
    watch: Box<dyn RawWatch>,
    metrics: Arc<Metrics>,
    observe: impl Fn(&RawBatch) + Send + Sync + 'static,
) {
    const TASK: &str = "watch-cache";
    let (mut panics, mut watch) = (Panics::none(TASK, metrics.restarts().clone()), Some(watch));
    loop {
        let attempt = async {
            let watch = match watch.take() {
                Some(watch) => watch,
                None => {
                    let Some(watch) = cache.refilled().await else { return cache.close() };
                    watch
                }
            };
            cache.is_following.store(true, Ordering::Release);
            tokio::select! {
                biased;
                () = follow(cache.clone(), watch, &observe) => {}
                () = release(cache.clone()) => {}
            }
        };
        let Err(panicked) = panics.contain(attempt).await else { return };
        cache.is_following.store(false, Ordering::Release);
        if panicked.in_a_row >= limits::CACHE_PANICS {
            tracing::error!("the watch cache panics again and again; the server must restart");
            return cache.close();
        }
        tokio::time::sleep(panicked.wait).await;
    }
}

async fn follow(
    cache: Arc<Cache>,
    mut watch: Box<dyn RawWatch>,
    observe: &(impl Fn(&RawBatch) + Send + Sync),
) {
    let mut wake_ups = WakeUps::default();
    while let Some(batch) = next(&mut *watch, &mut wake_ups).await {
        match batch {
            Ok(batch) => {
                observe(&batch);
                cache.apply(&batch, &mut wake_ups);
                // Wakes few watchers at once; and if changes arrive without a pause, wakes the others in
                // turns too.
                wake_ups.take();
            }
            Err(error @ ReadError::Compacted { .. }) => {
                tracing::warn!(%error, "the storage compacted changes that the watch cache has not read; the cache is filled again");
                let Some(next) = cache.refilled().await else { break };
                watch = next;
            }
            Err(error) => {
                tracing::error!(%error, "the storage ended the watch of the watch cache; the server must restart");
                break;
            }
        }
    }
    cache.close();
}

/// The next batch of the storage's watch. Until it arrives, wakes watchers in turns, and lets other tasks run
/// between them.
async fn next(watch: &mut dyn RawWatch, wake_ups: &mut WakeUps) -> Option<Result<RawBatch, ReadError>> {
    let mut batch = watch.next();
    while !wake_ups.is_empty() {
        tokio::select! {
            biased;
            batch = &mut batch => return batch,
            () = tokio::task::yield_now() => wake_ups.take(),
        }
    }
    batch.await
}

/// Releases changes that are older than a moment, except for a few: watches that resume further back read the
/// storage's history. Sleeps while nothing changes.
async fn release(cache: Arc<Cache>) {
    /// Changes that are released under one lock.
    const BATCH: usize = 512;
    loop {
        let changed = cache.applied.notified();
        if cache.state.read().retained.bytes() <= limits::RECENT_CALM_BYTES {
            changed.await;
        }
        let before = cache.revision();
        tokio::time::sleep(limits::RECENT_AGE).await;
        loop {
            let mut state = cache.state.write();
            let CacheState { kinds, retained, .. } = &mut *state;
            let released = retained.release(kinds, before, limits::RECENT_CALM_BYTES, BATCH);
            drop(state);
            // The changes are freed here, without the lock.
            if released.is_empty() {
                break;
            }
        }
    }
}

/// The prefix of the kind's keys; "" for kinds that are not stored.
fn root(resource: &Resource) -> &'static str {
    resource.storage.unwrap_or_default()
}
