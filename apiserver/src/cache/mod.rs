//! Everything that is stored, in memory, as shared encoded entries: what GET, LIST, WATCH, authorization and admission
//! read. Fed by one watch on the storage, off the commit path. Not a source of truth: a read that must be current first waits
//! until the cache has come to the storage's revision ([`Cache::fresh`]).

mod change;
mod entry;
mod facts;
mod filter;
mod form;
mod kind;
mod message;
mod objects;
mod recent;
mod selection;
mod watch;
mod watchers;

pub use change::{Change, Seen};
pub use entry::{Entry, LabelsOf, Malformed};
pub use filter::Filter;
pub use form::{Form, MetaVersion, envelope, enveloped, frame, partial_message, put_partial, watch_line};
pub use objects::Objects;
pub use selection::{Selected, Snapshot};
pub use watch::{Batch, Watch, WatchEnd, WatchStart};
pub use watchers::Delivery;

use crate::lookup::Lookup;
use crate::storage::{RawBatch, RawEvent, ReadError, SharedStorage};
use kind::Kind;
use kstore_api::kind::Resource;
use parking_lot::RwLock;
use recent::Recent;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// The root of all keys.
pub const ROOT: &str = "/registry/";

/// The watch cache. One per apiserver; shared by `Arc`.
pub struct Cache {
    storage: SharedStorage,
    state: RwLock<State>,
    /// The revision up to which `state` is complete; moves under the write lock of `state`.
    revision: AtomicI64,
    closed: AtomicBool,
    applied: Notify,
}

struct State {
    kinds: BTreeMap<&'static str, Kind>,
    recent: Recent,
    next_listener: u64,
}

/// Why the cache could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The storage refused the read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A stored value is not an object.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Cache {
    /// Reads everything that is stored and follows what comes. Returns the cache, complete at the storage's revision of
    /// now, and the task that keeps it so; the caller spawns it. The task ends when the storage closes.
    pub async fn fill(
        storage: SharedStorage,
        observe: impl Fn(&RawBatch) + Send + Sync + 'static,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), FillError> {
        let revision = storage.revision();
        let page = storage.list(ROOT, &crate::storage::prefix_end(ROOT), 0, revision).await?;
        let mut kinds: BTreeMap<&'static str, Kind> = kstore_api::kind::stored()
            .map(|resource| (root(resource), Kind::starting_at(revision)))
            .collect();
        for raw in &page.items {
            let Some(resource) = resource_of(&raw.key) else { continue };
            let entry = Arc::new(Entry::from_raw(resource, raw)?);
            let kind = kinds.get_mut(root(resource)).expect("every stored kind has its place");
            kind.insert(&entry);
        }
        // Everything, not only ROOT: the cache must hear of every revision to know how far it has come.
        let watch = storage.watch("", revision).await?;
        let cache = Arc::new(Self {
            storage,
            state: RwLock::new(State { kinds, recent: Recent::starting_at(revision), next_listener: 0 }),
            revision: AtomicI64::new(revision),
            closed: AtomicBool::new(false),
            applied: Notify::new(),
        });
        let follower = follow(cache.clone(), watch, observe);
        Ok((cache, follower))
    }

    /// The revision up to which this cache is complete.
    pub fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Whether the storage has closed, so that this cache shows nothing new any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The storage below.
    pub fn storage(&self) -> &SharedStorage {
        &self.storage
    }

    /// Waits until the cache shows everything that the storage had made durable before this call, and returns a revision at
    /// which it is complete. A read after it is linearizable.
    pub async fn fresh(&self) -> i64 {
        self.reached(self.storage.revision()).await
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

    /// Takes in one revision: contents, then watchers, then whoever waits for the revision.
    fn apply(&self, batch: &RawBatch) {
        let _span = tracing::debug_span!("cache", revision = batch.revision).entered();
        let mut woken = Vec::new();
        let mut state = self.state.write();
        for event in &batch.events {
            if let Some((resource, change)) = state.change(batch.revision, event) {
                state.kind(resource).watchers.dispatch(&change, &mut woken);
                state.recent.push(change);
            }
        }
        self.revision.store(batch.revision, Ordering::Release);
        drop(state);
        woken.iter().for_each(|queue| queue.wake());
        self.applied.notify_waiters();
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.state.read().kinds.values().for_each(|kind| kind.watchers.close());
        self.applied.notify_waiters();
    }
}

impl State {
    fn kind(&mut self, resource: &Resource) -> &mut Kind {
        self.kinds.get_mut(root(resource)).expect("every stored kind has its place")
    }

    fn snapshot(&self, filter: &Filter, revision: i64) -> Snapshot {
        match self.kinds.get(root(filter.resource)) {
            Some(kind) => Snapshot { objects: kind.candidates(filter), revision, changed: kind.changed },
            None => Snapshot { objects: Objects::default(), revision, changed: 0 },
        }
    }

    /// Brings one event into the contents and returns it as a change; `None` for keys that are none of ours.
    fn change(&mut self, revision: i64, event: &RawEvent) -> Option<(&'static Resource, Arc<Change>)> {
        let resource = resource_of(&event.key)?;
        let key = std::str::from_utf8(&event.key).ok()?;
        let kind = self.kind(resource);
        let new = match &event.current {
            Some(raw) => match Entry::from_raw(resource, raw) {
                Ok(entry) => Some(Arc::new(entry)),
                Err(error) => {
                    tracing::error!(%error, "an object is left out of the watch cache");
                    return None;
                }
            },
            None => None,
        };
        let old = match &new {
            Some(entry) => kind.insert(entry),
            None => kind.remove(key),
        };
        kind.changed = revision;
        if new.is_none() && old.is_none() {
            return None;
        }
        Some((resource, Arc::new(Change::new(revision, new, old))))
    }
}

async fn follow(
    cache: Arc<Cache>,
    mut watch: Box<dyn crate::storage::RawWatch>,
    observe: impl Fn(&RawBatch) + Send + Sync + 'static,
) {
    while let Some(batch) = watch.next().await {
        match batch {
            Ok(batch) => {
                observe(&batch);
                cache.apply(&batch);
            }
            Err(error) => {
                tracing::error!(%error, "the watch cache lost its place in the storage's history; the server must restart");
                break;
            }
        }
    }
    cache.close();
}

/// The kind whose objects live under this key, in its stored version.
pub fn resource_of(key: &[u8]) -> Option<&'static Resource> {
    static BY_ROOT: OnceLock<BTreeMap<&'static str, &'static Resource>> = OnceLock::new();
    let by_root = BY_ROOT
        .get_or_init(|| kstore_api::kind::stored().map(|resource| (root(resource), resource)).collect());
    let key = std::str::from_utf8(key).ok()?;
    // A kind's root has one or two segments behind ROOT; the longer one is the more specific.
    // Other writers' keys (etcd clients') may be anything.
    let slash = |from: usize| key.get(from..)?.find('/').map(|at| from + at);
    let first = slash(ROOT.len())?;
    let second = slash(first + 1).and_then(|second| by_root.get(&key[..second]));
    second.or_else(|| by_root.get(&key[..first])).copied()
}

/// Where the kind's keys live; "" for kinds that are not stored.
fn root(resource: &Resource) -> &'static str {
    resource.storage.unwrap_or_default()
}

impl Lookup for Cache {
    fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let entry = Cache::get(self, resource, &resource.storage_key(namespace, name))?;
        Some(Arc::new(entry.parse()))
    }

    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>> {
        let filter = Filter { namespace: namespace.to_owned(), ..Filter::all(resource) };
        self.scan(&filter).0.iter().map(|entry| Arc::new(entry.parse())).collect()
    }

    fn version(&self, resource: &'static Resource) -> i64 {
        self.state.read().kinds.get(root(resource)).map_or(0, |kind| kind.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::resource_of;

    #[test]
    fn keys_of_other_writers_belong_to_no_kind_and_cause_no_panic() {
        let kind = |key: &[u8]| resource_of(key).map(|resource| resource.plural);
        for foreign in [
            &b""[..],
            b"/t/foo",
            b"/registry",
            b"/registr\xc3\xa9/x",
            b"\xff\xfe",
            b"/registry/pods",
            b"/registry/x/y",
        ] {
            assert_eq!(kind(foreign), None, "{foreign:?}");
        }
        assert_eq!(kind(b"/registry/pods/default/a"), Some("pods"));
        assert_eq!(kind(b"/registry/services/specs/default/a"), Some("services"));
    }
}
