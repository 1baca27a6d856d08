//! Test doubles for controllers: [`FakeStore`], an in-memory store of any objects with one revision counter, and
//! sources over it that fail by script ([`FaultScript`]) or at random ([`Chaos`]); [`assert_converges`], which reports what is
//! missing in a cache; and the [`contract`] that every source must keep. Feature `testing`; never part of a server.
//!
//! All time is tokio's and all randomness is seeded: with a paused clock a test is deterministic.
//!
//! ```
//! use kstore_informer::{Builder, testing::{FakeStore, FaultScript, Sample, assert_converges}};
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! let pods = FakeStore::new().kind::<Sample>("pods");
//! let source = pods.source().faults(&FaultScript::random(7));
//! let cache = Builder::new(source).spawn(&Default::default());
//! pods.put(Sample::new("default", "web").value(1));
//! assert_converges(&cache, &pods).await; // despite all faults
//! # });
//! ```

mod chaos;
pub mod contract;
mod converge;
mod fault;
mod feed;
mod lease;
mod sample;
mod source;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod world;

use crate::{Domain, Key, Object, Revision, Revisions};
pub use chaos::Chaos;
pub use converge::assert_converges;
pub use fault::{Fault, FaultScript};
pub use lease::FakeLease;
use parking_lot::{Mutex, MutexGuard};
pub use sample::Sample;
pub use source::{Call, FakeSource};
use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;
use tokio::time::Instant;

/// An object that a [`FakeStore`] can store.
pub trait Stored: Object + Clone {
    /// Sets the uid and the revision of a write.
    fn stamp(&mut self, uid: &str, revision: Revision);
    /// Sets the generation from the old state, if the object has one and its spec has changed.
    fn generate(&mut self, _old: Option<&Self>) {}
}

/// Why the store refused a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The object already exists.
    #[error("already exists")]
    AlreadyExists,
    /// The object does not exist.
    #[error("not found")]
    NotFound,
    /// The object is at another revision than the given one.
    #[error("conflict")]
    Conflict,
}

/// An in-memory store: objects of several kinds with one history. Clones share state. Uids are numbers from
/// one up, so tests are deterministic.
#[derive(Clone, Default)]
pub struct FakeStore(Arc<SharedStore>);

struct SharedStore {
    inner: Mutex<Inner>,
    /// Notified at each new revision.
    changed: Arc<Notify>,
    domain: Domain,
    /// Seeds of its sources' faults, for the message of a failing test.
    seeds: Mutex<Vec<u64>>,
}

impl Default for SharedStore {
    fn default() -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);
        let domain = Domain::new(format!("fake store {}", STORES.fetch_add(1, Ordering::Relaxed)));
        Self { inner: Mutex::default(), changed: Arc::default(), domain, seeds: Mutex::default() }
    }
}

#[derive(Default)]
struct Inner {
    revision: u64,
    uids: u64,
    compacted: Revision,
    live: BTreeMap<(String, Key), State>,
    history: Vec<StoreHistory>,
    leases: BTreeMap<u64, lease::Leased>,
    next_lease: u64,
}

type State = Arc<dyn Any + Send + Sync>;

#[derive(Clone)]
struct StoreHistory {
    revision: Revision,
    kind: String,
    key: Key,
    state: State,
    gone: bool,
}

impl FakeStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The objects of one kind. Use each name with one type only.
    pub fn kind<T: Stored>(&self, name: &str) -> FakeKind<T> {
        FakeKind { store: self.clone(), name: name.to_owned(), of: PhantomData }
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        Revision(self.lock().revision)
    }

    /// Forgets the history up to `revision`: watches from before it expire.
    pub fn compact(&self, revision: Revision) {
        let mut inner = self.lock();
        inner.compacted = inner.compacted.max(revision);
    }

    /// Loses all data and restarts at revision zero, like a server without durable storage.
    pub fn wipe(&self) {
        *self.0.inner.lock() = Inner::default();
        self.ring();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.0.inner.lock();
        inner.expire(Instant::now());
        inner
    }

    /// Wakes every open stream.
    fn ring(&self) {
        self.0.changed.notify_waiters();
    }

    fn changed(&self) -> Arc<Notify> {
        self.0.changed.clone()
    }

    fn domain(&self) -> Revisions {
        Revisions::Shared(self.0.domain.clone())
    }

    fn note_seed(&self, seed: Option<u64>) {
        self.0.seeds.lock().extend(seed);
    }

    fn seeds(&self) -> Vec<u64> {
        self.0.seeds.lock().clone()
    }

    /// Whether the history after a revision is available.
    fn keeps(&self, revision: Revision) -> bool {
        revision >= self.lock().compacted
    }

    /// The states after a revision, and the newest revision; `None` if that history is compacted.
    fn after(&self, revision: Revision, kind: &str) -> Option<(Vec<StoreHistory>, Revision)> {
        let inner = self.lock();
        if revision < inner.compacted {
            return None;
        }
        let from = inner.history.partition_point(|past| past.revision <= revision);
        let past = inner.history[from..].iter().filter(|past| past.kind == kind).cloned().collect();
        Some((past, Revision(inner.revision)))
    }
}

/// The objects of one kind in a [`FakeStore`].
pub struct FakeKind<T> {
    store: FakeStore,
    name: String,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for FakeKind<T> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), name: self.name.clone(), of: PhantomData }
    }
}

impl<T: Stored> FakeKind<T> {
    /// The object of this key.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        let state = self.store.lock().live.get(&(self.name.clone(), key.clone()))?.clone();
        state.downcast().ok()
    }

    /// All objects, in key order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.list_at().0
    }

    /// All objects, in key order, and the newest revision.
    pub fn list_at(&self) -> (Vec<Arc<T>>, Revision) {
        let inner = self.store.lock();
        let ours = inner.live.iter().filter(|((kind, _), _)| *kind == self.name);
        let objects = ours.filter_map(|(_, state)| state.clone().downcast().ok()).collect();
        (objects, Revision(inner.revision))
    }

    /// All objects at a past revision, in key order.
    pub fn list_past(&self, revision: Revision) -> Vec<Arc<T>> {
        let inner = self.store.lock();
        let mut objects = BTreeMap::new();
        for past in inner.history.iter().filter(|past| past.kind == self.name && past.revision <= revision) {
            match past.gone {
                true => objects.remove(&past.key),
                false => objects.insert(past.key.clone(), past.state.clone()),
            };
        }
        objects.into_values().filter_map(|state| state.downcast().ok()).collect()
    }

    /// Stores a new object.
    ///
    /// # Errors
    /// [`StoreError::AlreadyExists`].
    pub fn create(&self, object: T) -> Result<Arc<T>, StoreError> {
        self.write(object, |old, _| match old {
            None => Ok(()),
            Some(_) => Err(StoreError::AlreadyExists),
        })
    }

    /// Updates an object. Its revision must be the newest; zero matches any.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`].
    pub fn update(&self, object: T) -> Result<Arc<T>, StoreError> {
        self.write(object, |old, new| match old {
            None => Err(StoreError::NotFound),
            Some(old) if new.revision() != Revision(0) && new.revision() != old.revision() => {
                Err(StoreError::Conflict)
            }
            Some(_) => Ok(()),
        })
    }

    /// Creates or updates an object unconditionally.
    pub fn put(&self, object: T) -> Arc<T> {
        self.write(object, |_, _| Ok(())).expect("a put has no precondition")
    }

    /// Deletes an object and returns the revision of the deletion.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn delete(&self, key: &Key) -> Result<Revision, StoreError> {
        let mut inner = self.store.lock();
        let state = inner.live.remove(&(self.name.clone(), key.clone())).ok_or(StoreError::NotFound)?;
        let old: Arc<T> = state.downcast().map_err(|_| StoreError::NotFound)?;
        inner.revision += 1;
        let revision = Revision(inner.revision);
        let mut last = (*old).clone();
        last.stamp(old.uid(), revision);
        inner.record(&self.name, key, Arc::new(last), true);
        drop(inner);
        self.store.ring();
        Ok(revision)
    }

    /// A source without faults.
    pub fn source(&self) -> FakeSource<T> {
        FakeSource::new(self.clone())
    }

    fn write(
        &self,
        mut object: T,
        check: impl Fn(Option<&T>, &T) -> Result<(), StoreError>,
    ) -> Result<Arc<T>, StoreError> {
        let mut inner = self.store.lock();
        let (object_key, key) = ((self.name.clone(), object.key()), object.key());
        let old = inner.live.get(&object_key).and_then(|state| state.clone().downcast::<T>().ok());
        check(old.as_deref(), &object)?;
        inner.revision += 1;
        object.generate(old.as_deref());
        let uid = old.map_or_else(
            || {
                inner.uids += 1;
                format!("uid-{}", inner.uids)
            },
            |old| old.uid().to_owned(),
        );
        object.stamp(&uid, Revision(inner.revision));
        let object = Arc::new(object);
        inner.live.insert(object_key, object.clone());
        inner.record(&self.name, &key, object.clone(), false);
        drop(inner);
        self.store.ring();
        Ok(object)
    }
}

impl Inner {
    fn record(&mut self, kind: &str, key: &Key, state: State, gone: bool) {
        let revision = Revision(self.revision);
        self.history.push(StoreHistory { revision, kind: kind.to_owned(), key: key.clone(), state, gone });
    }
}
