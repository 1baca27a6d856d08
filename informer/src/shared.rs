//! [`Shared`]: what the driver, the handles and the subscriptions of one informer share. Short locks, never over an await.
//!
//! Lock order: `hub`, then `waiters`, then `cache` or a subscriber's inbox.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;

use crate::{
    Object, Revision, SourceError, Status, Stopped,
    delta_fifo::DeltaFifo,
    indexer::{Change, Indexer},
    reflector::Apply,
    subscription::Inbox,
};

pub(crate) struct Shared<T> {
    pub(crate) name: String,
    pub(crate) cache: RwLock<Indexer<T>>,
    /// Held while the cache moves and the subscribers are told, so that one who joins misses nothing and hears nothing
    /// twice.
    hub: Mutex<Vec<Weak<Inbox<T>>>>,
    waiters: Mutex<Waiters>,
    status: Mutex<Status>,
}

/// Who waits for which revision. The first state is a revision that everyone who waits for the sync waits for.
struct Waiters {
    by_revision: BTreeMap<(Revision, u64), oneshot::Sender<()>>,
    for_sync: Vec<oneshot::Sender<()>>,
    synced: bool,
    stopped: bool,
    next: u64,
}

impl<T: Object> Shared<T> {
    pub(crate) fn new(name: String, cache: Indexer<T>) -> Self {
        Self {
            name,
            cache: RwLock::new(cache),
            hub: Mutex::new(Vec::new()),
            waiters: Mutex::new(Waiters {
                by_revision: BTreeMap::new(),
                for_sync: Vec::new(),
                synced: false,
                stopped: false,
                next: 0,
            }),
            status: Mutex::new(Status::Starting),
        }
    }

    /// Moves the cache, then tells everyone.
    pub(crate) fn apply(&self, apply: Apply<T>) {
        let replaced = matches!(apply, Apply::Replace(_));
        let _span = tracing::debug_span!("indexer", informer = self.name).entered();
        let mut hub = self.hub.lock();
        let (changes, revision) = {
            let mut cache = self.cache.write();
            let changes = match apply {
                Apply::Replace(whole) => cache.replace(whole),
                Apply::Frames(frames) => cache.apply(frames),
            };
            (changes, cache.revision())
        };
        if !changes.is_empty() {
            hub.retain(|inbox| inbox.upgrade().inspect(|inbox| inbox.deliver(&changes)).is_some());
        }
        drop(hub);
        self.waiters.lock().reached(revision, replaced);
    }

    /// A new subscriber, with all cached objects pending.
    pub(crate) fn join(&self) -> Arc<Inbox<T>> {
        let mut hub = self.hub.lock();
        let mut fifo = DeltaFifo::default();
        for object in self.cache.read().iter() {
            fifo.record(&Change { key: object.key(), old: None, new: Some(object.clone()), last: None });
        }
        let inbox = Arc::new(Inbox::new(fifo));
        if self.waiters.lock().stopped {
            inbox.close();
        }
        hub.push(Arc::downgrade(&inbox));
        inbox
    }

    pub(crate) fn status(&self) -> Status {
        self.status.lock().clone()
    }

    pub(crate) fn report(&self, trouble: Option<&SourceError>, streaming: bool) {
        let mut status = self.status.lock();
        match trouble {
            Some(error) => *status = Status::Degraded { error: error.to_string() },
            None if streaming && *status != Status::Streaming => *status = Status::Streaming,
            None => {}
        }
    }

    pub(crate) fn stop(&self) {
        let hub = self.hub.lock();
        *self.status.lock() = Status::Stopped;
        let mut waiters = self.waiters.lock();
        waiters.stopped = true;
        waiters.by_revision.clear();
        waiters.for_sync.clear();
        drop(waiters);
        hub.iter().filter_map(Weak::upgrade).for_each(|inbox| inbox.close());
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.waiters.lock().synced
    }

    pub(crate) async fn synced(&self) -> Result<(), Stopped> {
        let receiver = {
            let mut waiters = self.waiters.lock();
            if waiters.synced {
                return Ok(());
            }
            if waiters.stopped {
                return Err(Stopped);
            }
            waiters.for_sync.retain(|waiter| !waiter.is_closed());
            let (sender, receiver) = oneshot::channel();
            waiters.for_sync.push(sender);
            receiver
        };
        receiver.await.map_err(|_| Stopped)
    }

    pub(crate) async fn wait_for(&self, revision: Revision) -> Result<(), Stopped> {
        let (entry, receiver) = {
            // The cache is read under the waiters' lock: a move after it will find the entry.
            let mut waiters = self.waiters.lock();
            if self.cache.read().revision() >= revision && waiters.synced {
                return Ok(());
            }
            if waiters.stopped {
                return Err(Stopped);
            }
            let (sender, receiver) = oneshot::channel();
            let entry = (revision, waiters.next);
            waiters.next += 1;
            waiters.by_revision.insert(entry, sender);
            (entry, receiver)
        };
        let _forget = Forget { waiters: &self.waiters, entry };
        receiver.await.map_err(|_| Stopped)
    }

    /// How many wait for a revision.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.lock().by_revision.len()
    }

    /// Whether the cache shows `revision`.
    pub(crate) fn has(&self, revision: Revision) -> bool {
        self.cache.read().revision() >= revision
    }
}

impl Waiters {
    fn reached(&mut self, revision: Revision, replaced: bool) {
        if replaced && !self.synced {
            self.synced = true;
            self.for_sync.drain(..).for_each(wake);
        }
        while let Some(entry) = self.by_revision.first_entry()
            && entry.key().0 <= revision
        {
            wake(entry.remove());
        }
    }
}

/// Wakes a waiter, unless it has stopped waiting.
fn wake(waiter: oneshot::Sender<()>) {
    let _ = waiter.send(());
}

/// Takes a waiter out again when its future is dropped.
struct Forget<'a> {
    waiters: &'a Mutex<Waiters>,
    entry: (Revision, u64),
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.waiters.lock().by_revision.remove(&self.entry);
    }
}
