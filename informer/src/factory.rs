//! [`Factory`]: the informers of a process, each once, by the type of its objects and a name. It is a registry, not a cache of
//! guesses: what was not registered is not there, and no read starts a watch.

#[cfg(test)]
mod tests;

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Builder, Informer, Lister, ListerWatcher, NotSynced, Object, Status, Stopped};

/// Informers that are started, waited for and ended together. See the module.
pub struct Factory {
    stop: CancellationToken,
    tasks: TaskTracker,
    /// By type and name, so that those of a name are in an order that tests can rely on.
    entries: Mutex<BTreeMap<(String, TypeId), Entry>>,
}

struct Entry {
    informer: Box<dyn Registered>,
    /// Until it is started.
    driver: Option<BoxFuture<'static, ()>>,
}

/// There is an informer of this type and name already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is an informer of this type with the name {0}")]
pub struct AlreadyRegistered(pub String);

/// Some informers have no first state yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", informers.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Missing {
    /// Those, by name.
    pub informers: Vec<NotSynced>,
}

/// An informer whatever its type.
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
    /// A factory without informers, which end when `stop` is cancelled or the factory is dropped.
    pub fn new(stop: &CancellationToken) -> Self {
        Self { stop: stop.child_token(), tasks: TaskTracker::new(), entries: Mutex::default() }
    }

    /// Registers an informer under `name`, which becomes its name, and gives it back. It does nothing before
    /// [`Factory::start`]. A name tells informers of one type apart: by what they select, for example.
    ///
    /// # Errors
    /// When there is one of this type and name: take that one with [`Factory::informer`].
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
        let registered = Entry { informer: Box::new(informer.clone()), driver: Some(driver.boxed()) };
        entries.insert(entry, registered);
        Ok(informer)
    }

    /// The informer of this type and name, if one was registered.
    pub fn informer<T: Object>(&self, name: &str) -> Option<Informer<T>> {
        let entries = self.entries.lock();
        let entry = entries.get(&(name.to_owned(), TypeId::of::<T>()))?;
        entry.informer.any().downcast_ref().cloned()
    }

    /// The reads of the informer of this type and name, if one was registered.
    pub fn lister<T: Object>(&self, name: &str) -> Option<Lister<T>> {
        self.informer(name).map(|informer| informer.lister())
    }

    /// Starts what is not started. Call it again after later [`Factory::add`]s; on the runtime that is to drive them.
    pub fn start(&self) {
        let mut entries = self.entries.lock();
        for driver in entries.values_mut().filter_map(|entry| entry.driver.take()) {
            self.tasks.spawn(driver);
        }
    }

    /// Waits until every informer has its first state, at most `patience`. Those registered meanwhile are not waited for.
    ///
    /// # Errors
    /// When some have none by then, or have ended without: it names them, also those that nobody started.
    pub async fn wait_for_sync(&self, patience: Duration) -> Result<(), Missing> {
        let synced: Vec<_> = self.entries.lock().values().map(|entry| entry.informer.synced()).collect();
        // Whether each came or ended is looked up below, as it is for those that took too long.
        let _ = timeout(patience, join_all(synced)).await;
        let entries = self.entries.lock();
        let missing = entries.iter().filter(|(_, entry)| !entry.informer.is_synced());
        let informers: Vec<NotSynced> = missing
            .map(|((name, _), entry)| NotSynced { informer: name.clone(), status: entry.informer.status() })
            .collect();
        if informers.is_empty() { Ok(()) } else { Err(Missing { informers }) }
    }

    /// Ends all informers, and returns when their tasks have ended. Their caches can still be read.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        // Those that were never started have an end too: with their drivers.
        self.entries.lock().values_mut().for_each(|entry| drop(entry.driver.take()));
        self.tasks.wait().await;
    }
}

impl Drop for Factory {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
