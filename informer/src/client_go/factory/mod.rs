//! [`Factory`]: the shared informers of a process, each registered once by object type and name. A read never
//! starts a watch: unregistered informers do not exist.

#[cfg(test)]
mod tests;

use super::Lister;
use crate::{Builder, Informer, ListerWatcher, NotSynced, Object, Status, Stopped};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A registry of shared informers that are started, synced and stopped together.
pub struct Factory {
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Keyed by name and type, so that tests can rely on the order.
    entries: Mutex<BTreeMap<(String, TypeId), FactoryEntry>>,
}

struct FactoryEntry {
    informer: Box<dyn Registered>,
    /// The future that drives the informer, `None` after the start.
    driver: Option<BoxFuture<'static, ()>>,
}

/// An informer of this type and name is already registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an informer of this type with the name {0} is already registered")]
pub struct AlreadyRegistered(pub String);

/// Informers that have not synced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", informers.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Missing {
    /// The informers, sorted by name.
    pub informers: Vec<NotSynced>,
}

/// An informer of any object type.
trait Registered: Send + Sync {
    fn any(&self) -> &dyn Any;
    fn is_synced(&self) -> bool;
    fn status(&self) -> Status;
    fn synced(&self) -> BoxFuture<'static, Result<(), Stopped>>;
}

impl<T: Object> Registered for Informer<T> {
    fn any(&self) -> &dyn Any {
        self
    }

    fn is_synced(&self) -> bool {
        Self::is_synced(self)
    }

    fn status(&self) -> Status {
        Self::status(self)
    }

    fn synced(&self) -> BoxFuture<'static, Result<(), Stopped>> {
        let informer = self.clone();
        async move { informer.synced().await }.boxed()
    }
}

impl Factory {
    /// A factory without informers. Cancelling `stop` or dropping the factory ends its informers.
    pub fn new(stop: &CancellationToken) -> Self {
        Self { stop: stop.child_token(), tasks: TaskTracker::new(), entries: Mutex::default() }
    }

    /// Registers an informer under `name` and returns it. It is idle until [`Factory::start`]. The name
    /// distinguishes informers of one type, for example by their selectors.
    ///
    /// # Errors
    /// When an informer of this type and name is registered: get it with [`Factory::informer`].
    pub fn add<S: ListerWatcher>(
        &self,
        name: &str,
        builder: Builder<S>,
    ) -> Result<Informer<S::Obj>, AlreadyRegistered> {
        let mut entries = self.entries.lock();
        let entry = (name.to_owned(), TypeId::of::<S::Obj>());
        if entries.contains_key(&entry) {
            return Err(AlreadyRegistered(name.to_owned()));
        }
        let (informer, driver) = builder.name(name).build(&self.stop);
        let registered = FactoryEntry { informer: Box::new(informer.clone()), driver: Some(driver.boxed()) };
        entries.insert(entry, registered);
        Ok(informer)
    }

    /// The registered informer of this type and name.
    pub fn informer<T: Object>(&self, name: &str) -> Option<Informer<T>> {
        let entries = self.entries.lock();
        let entry = entries.get(&(name.to_owned(), TypeId::of::<T>()))?;
        entry.informer.any().downcast_ref().cloned()
    }

    /// The lister of the registered informer of this type and name.
    pub fn lister<T: Object>(&self, name: &str) -> Option<Lister<T>> {
        self.informer(name).map(Lister::new)
    }

    /// Starts all informers that are not started yet, on the current runtime. Call it again after later
    /// [`Factory::add`]s.
    pub fn start(&self) {
        let mut entries = self.entries.lock();
        for driver in entries.values_mut().filter_map(|entry| entry.driver.take()) {
            self.tasks.spawn(driver);
        }
    }

    /// Waits until every informer has synced, for at most `patience`. Does not wait for informers that are
    /// registered meanwhile.
    ///
    /// # Errors
    /// Names the informers that have not synced by then, have ended, or were never started.
    pub async fn wait_for_sync(&self, patience: Duration) -> Result<(), Missing> {
        let synced: Vec<_> = self.entries.lock().values().map(|entry| entry.informer.synced()).collect();
        // The check below covers informers that synced, ended or timed out alike.
        let _ = timeout(patience, join_all(synced)).await;
        let entries = self.entries.lock();
        let missing = entries.iter().filter(|(_, entry)| !entry.informer.is_synced());
        let informers: Vec<NotSynced> = missing
            .map(|((name, _), entry)| NotSynced { informer: name.clone(), status: entry.informer.status() })
            .collect();
        if informers.is_empty() { Ok(()) } else { Err(Missing { informers }) }
    }

    /// Stops all informers and returns when their tasks have ended. Their caches stay readable.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        // Dropping the driver also ends informers that were never started.
        self.entries.lock().values_mut().for_each(|entry| drop(entry.driver.take()));
        self.tasks.wait().await;
    }
}

impl Drop for Factory {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
