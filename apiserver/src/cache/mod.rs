//! Everything that is stored, in memory, as shared encoded entries: what GET, LIST, WATCH, authorization and admission
//! read. Fed by one watch on the storage, off the commit path. Not a source of truth: a read that must be current first waits
//! until the cache has come to the storage's revision ([`Cache::fresh`]).

mod change;
mod entry;
mod facts;
mod fill;
mod filter;
mod form;
mod glance;
mod image;
mod kind;
mod message;
mod objects;
mod recent;
mod selection;
mod set_aside;
mod turns;
mod watch;
mod watchers;

pub use change::{Change, Seen};
pub use entry::{Entry, LabelsOf, Malformed};
pub use filter::{DeclaredFields, Filter};
pub use form::{
    Form, Look, MetaVersion, envelope, enveloped, event_of, frame, partial_message, put_partial, turned,
    watch_line,
};
pub use image::CacheImage;
pub use objects::Objects;
pub use selection::{Selected, Snapshot};
pub use set_aside::Unreadable;
pub use watch::{Batch, Watch, WatchEnd, WatchStart};
pub use watchers::Delivery;

use crate::kinds::{Kinds, is_definition};
use crate::limits;
use crate::lookup::Lookup;
use crate::metrics::Metrics;
use crate::restart::Panics;
use crate::storage::{RawBatch, RawEvent, RawWatch, ReadError, SharedStorage};
use kind::Kind;
use kstore_api::kind::Resource;
use kstore_api::selector::field;
use parking_lot::RwLock;
use recent::Retained;
use serde_json::Value;
use set_aside::SetAside;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use turns::Turns;

/// The root of all keys.
pub const ROOT: &str = "/registry/";

/// How long a storage that did not let itself be read is left alone.
const REFILL_PAUSE: Duration = Duration::from_secs(1);

/// The watch cache. One per apiserver; shared by `Arc`.
pub struct Cache {
    storage: SharedStorage,
    state: RwLock<State>,
    /// The revision up to which `state` is complete; moves under the write lock of `state`.
    revision: AtomicI64,
    closed: AtomicBool,
    /// Whether changes are taken in: not after a panic, until everything was read again.
    is_following: AtomicBool,
    applied: Notify,
}

struct State {
    /// What is served at the revision of this state.
    served: Arc<Kinds>,
    /// The objects of each kind, by the root of its keys.
    kinds: BTreeMap<&'static str, Kind>,
    retained: Retained,
    next_listener: u64,
    set_aside: SetAside,
}

/// Why the cache could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The storage refused the read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Cache {
    /// Reads everything that is stored and follows what comes. Returns the cache, complete at the storage's revision of
    /// now, and the task that keeps it so; the caller spawns it. The task ends when the storage closes.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub async fn fill(
        storage: SharedStorage,
        observe: impl Fn(&RawBatch) + Send + Sync + 'static,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), FillError> {
        Self::fill_counted(storage, Arc::default(), observe).await
    }

    /// The same; panics of the task are counted in `metrics`. The cache is then filled again from the storage.
    pub(crate) async fn fill_counted(
        storage: SharedStorage,
        metrics: Arc<Metrics>,
        observe: impl Fn(&RawBatch) + Send + Sync + 'static,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), FillError> {
        let (state, revision, watch) = State::read(&storage).await?;
        let cache = Arc::new(Self {
            storage,
            state: RwLock::new(state),
            revision: AtomicI64::new(revision),
            closed: AtomicBool::new(false),
            is_following: AtomicBool::new(true),
            applied: Notify::new(),
        });
        let task = keep(cache.clone(), watch, metrics, observe);
        Ok((cache, task))
    }

    /// The revision up to which this cache is complete.
    pub fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Whether the storage has closed, so that this cache shows nothing new any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether what is shown can be expected to be current: the storage answers, and has not closed. Asks nobody.
    pub fn is_healthy(&self) -> bool {
        !self.is_closed() && self.is_following.load(Ordering::Acquire) && self.storage.is_healthy()
    }

    /// The kinds that are served at this cache's revision.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.state.read().served.clone()
    }

    /// The storage below.
    pub fn storage(&self) -> &SharedStorage {
        &self.storage
    }

    /// Waits until the cache shows everything that was durable before this call, whoever wrote it, and returns a revision at
    /// which it is complete. A read after it is linearizable, on every storage.
    ///
    /// Over the embedded store this is two loads from memory, and nearly always nothing to wait for; elsewhere it is a round
    /// trip to the storage, shared by all who wait for one.
    ///
    /// # Errors
    /// `Unavailable` when the storage does not answer, its changes do not arrive within [`limits::FRESH_WAIT`], or it has
    /// closed. Nothing can be said then about what is current.
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

    /// Waits until the cache is complete at `revision` (or the storage has closed).
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

    /// The object under a storage key.
    pub fn get(&self, resource: &Resource, key: &str) -> Option<Arc<Entry>> {
        self.state.read().kinds.get(root(resource))?.objects().get(key).cloned()
    }

    /// The stored value under a key if it is not a valid object, so that no read shows it.
    pub fn unreadable(&self, key: &str) -> Option<Arc<Unreadable>> {
        self.state.read().set_aside.get(key).cloned()
    }

    /// The state of the filter's kind, or of a part in which all that match are; and the revision at which it is the whole
    /// truth. Costs nothing but a reference count; what is done with it holds no lock.
    pub fn snapshot(&self, filter: &Filter) -> Snapshot {
        let state = self.state.read();
        state.snapshot(filter, self.revision())
    }

    /// All that match, in key order; and the revision at which that is the whole truth.
    pub fn scan(&self, filter: &Filter) -> (Vec<Arc<Entry>>, i64) {
        let snapshot = self.snapshot(filter);
        (snapshot.select(filter, "", 0).entries, snapshot.revision)
    }

    /// How many objects of a kind there are.
    pub fn count(&self, resource: &Resource) -> usize {
        self.state.read().kinds.get(root(resource)).map_or(0, |kind| kind.objects().len())
    }

    /// Takes in one revision: contents, then watchers, then whoever waits for the revision. The watchers to wake wait for their
    /// turns.
    fn apply(&self, batch: &RawBatch, turns: &mut Turns) {
        let _span = tracing::debug_span!("cache", revision = batch.revision).entered();
        let served = self.served_after(batch);
        let mut state = self.state.write();
        if let Some(served) = served {
            state.serve(served, batch.revision);
        }
        let State { served, kinds, retained, set_aside, .. } = &mut *state;
        for event in &batch.events {
            let Some(resource) = served.of_key(&event.key) else { continue };
            let Ok(key) = std::str::from_utf8(&event.key) else { continue };
            let new = set_aside.read(resource, key, event.current.as_ref());
            let kind = kinds.get_mut(root(resource)).expect("every stored kind has its place");
            if let Some(change) = kind.change(key, batch.revision, new) {
                kind.watchers.dispatch(&change, turns);
                retained.push(kinds, root(resource), change);
            }
        }
        self.revision.store(batch.revision, Ordering::Release);
        drop(state);
        self.applied.notify_waiters();
    }

    /// What is served after a batch, if it changes a CustomResourceDefinition. Compiled before the state is locked: only this task
    /// changes what is served.
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

    /// Begins anew with what is stored now, after the history from here to there was lost. Nobody can be told what changed
    /// meanwhile: watches end, and those who resume where they were get 410 and list.
    async fn refill(&self) -> Result<Box<dyn RawWatch>, FillError> {
        let (mut fresh, revision, watch) = State::read(&self.storage).await?;
        let mut state = self.state.write();
        fresh.next_listener = state.next_listener;
        // Before anyone can see the new revision: no watch may claim to have come to it.
        state.kinds.values().for_each(|kind| kind.watchers.cut());
        *state = fresh;
        self.revision.store(revision, Ordering::Release);
        drop(state);
        self.applied.notify_waiters();
        Ok(watch)
    }

    /// Refills as soon as the storage lets it; `None` when it never will.
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

impl State {
    /// Reads everything: the contents, their revision, and the watch that goes on from there.
    async fn read(storage: &SharedStorage) -> Result<(Self, i64, Box<dyn RawWatch>), FillError> {
        let revision = storage.revision().await?;
        let page = storage.list(ROOT, &crate::storage::prefix_end(ROOT), 0, revision).await?;
        let items =
            page.items.iter().filter_map(|raw| Some((std::str::from_utf8(&raw.key).ok()?, Some(raw))));
        let served = Arc::new(Kinds::built_in().with(items));
        let (kinds, unreadable) = fill::kinds(&served, &page.items, revision);
        drop(page);
        // Everything, not only ROOT: the cache must hear of every revision to know how far it has come.
        let watch = storage.watch("", revision).await?;
        let set_aside = SetAside::of(unreadable);
        let retained = Retained::default();
        Ok((Self { served, kinds, retained, next_listener: 0, set_aside }, revision, watch))
    }

    /// Changes what is served at `revision`. A kind that comes gets a place for its objects; the watches of one that goes end; entries
    /// of one whose row has changed are made anew, since the fields that selectors compare may be others, and watches that name declared
    /// fields end when their definition changes.
    fn serve(&mut self, served: Arc<Kinds>, revision: i64) {
        for kind in served.definitions() {
            let row = kind.storage_row();
            let objects = self.kinds.entry(root(row)).or_insert_with(|| Kind::of(&[], revision));
            let Some(before) = self.served.definition(row.group, row.plural) else { continue };
            if !std::ptr::eq(before.storage_row(), row) {
                objects.remake(row);
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
                // Its objects are gone: watches deliver their deletions, and end.
                objects.watchers.close();
            }
        }
        self.served = served;
    }

    /// Whether a filter names fields that an earlier definition of its kind declared.
    fn is_outdated(&self, filter: &Filter) -> bool {
        let Some(declared) = &filter.declared else { return false };
        let kind = self.served.definition(filter.resource.group, filter.resource.plural);
        kind.is_some_and(|kind| kind.definition.spec_hash != declared.spec_hash)
    }

    fn snapshot(&self, filter: &Filter, revision: i64) -> Snapshot {
        match self.kinds.get(root(filter.resource)) {
            Some(kind) => Snapshot { objects: kind.candidates(filter), revision, changed: kind.changed },
            None => Snapshot { objects: Objects::default(), revision, changed: 0 },
        }
    }
}

/// Keeps the cache until the storage closes. After a panic nothing of the state is relied on, since a change may be half taken in:
/// everything is read again, and watches end, as after a loss of history. Panics without end close the cache.
async fn keep(
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
    let mut turns = Turns::default();
    while let Some(batch) = next(&mut *watch, &mut turns).await {
        match batch {
            Ok(batch) => {
                observe(&batch);
                cache.apply(&batch, &mut turns);
                // At once for few watchers; and if changes come without a pause, the others have their turns as well.
                turns.take();
            }
            Err(error @ ReadError::Compacted { .. }) => {
                tracing::warn!(%error, "the watch cache lost its place in the storage's history, and is filled again");
                let Some(next) = cache.refilled().await else { break };
                watch = next;
            }
            Err(error) => {
                tracing::error!(%error, "the watch cache lost its place in the storage's history; the server must restart");
                break;
            }
        }
    }
    cache.close();
}

/// The next batch of the storage's watch. Until it comes, watchers have their turns, between which other tasks run.
async fn next(watch: &mut dyn RawWatch, turns: &mut Turns) -> Option<Result<RawBatch, ReadError>> {
    let mut batch = watch.next();
    while !turns.is_empty() {
        tokio::select! {
            biased;
            batch = &mut batch => return batch,
            () = tokio::task::yield_now() => turns.take(),
        }
    }
    batch.await
}

/// Lets go of changes that are older than a moment, but for a few: watches that resume further back read the storage's history.
/// Sleeps while nothing changes.
async fn release(cache: Arc<Cache>) {
    /// Changes that one turn of the lock releases.
    const TURN: usize = 512;
    loop {
        let changed = cache.applied.notified();
        if cache.state.read().retained.bytes() <= limits::RECENT_CALM_BYTES {
            changed.await;
        }
        let before = cache.revision();
        tokio::time::sleep(limits::RECENT_AGE).await;
        loop {
            let mut state = cache.state.write();
            let State { kinds, retained, .. } = &mut *state;
            let released = retained.release(kinds, before, limits::RECENT_CALM_BYTES, TURN);
            drop(state);
            // The changes are freed here, while nothing is locked.
            if released.is_empty() {
                break;
            }
        }
    }
}

/// Where the kind's keys live; "" for kinds that are not stored.
fn root(resource: &Resource) -> &'static str {
    resource.storage.unwrap_or_default()
}

impl Lookup for Cache {
    fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        Some(Cache::get(self, resource, &resource.storage_key(namespace, name))?.parsed())
    }

    fn entry(&self, resource: &'static Resource, key: &str) -> Option<Arc<Entry>> {
        Cache::get(self, resource, key)
    }

    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>> {
        // Admission asks for kinds that most clusters have no object of, with every pod.
        if self.count(resource) == 0 {
            return Vec::new();
        }
        let filter = Filter { namespace: namespace.to_owned(), ..Filter::all(resource) };
        self.scan(&filter).0.iter().map(|entry| Arc::new(entry.parse())).collect()
    }

    fn first(&self, resource: &'static Resource, namespace: &str, limit: usize) -> (Vec<Arc<Value>>, usize) {
        let filter = Filter { namespace: namespace.to_owned(), ..Filter::all(resource) };
        let (entries, _) = self.scan(&filter);
        (entries.iter().take(limit).map(|entry| Arc::new(entry.parse())).collect(), entries.len())
    }

    fn pods_of_node(&self, node: &str) -> Vec<Arc<Value>> {
        let fields = field::Selector::one("spec.nodeName", node);
        let filter = Filter { fields, ..Filter::all(crate::token::core("pods")) };
        self.scan(&filter).0.iter().map(|entry| Arc::new(entry.parse())).collect()
    }

    fn kinds(&self) -> Arc<Kinds> {
        Self::kinds(self)
    }

    fn version(&self, resource: &'static Resource) -> i64 {
        self.state.read().kinds.get(root(resource)).map_or(0, |kind| kind.changed)
    }
}
