//! [`Subscription`]: one reader's stream of an informer's changes. A slow reader costs bounded memory and slows nobody.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Delta, Informer, Object, delta_fifo::DeltaFifo, indexer::Change};

/// A stream of merged changes; see [`Delta`] for what is promised per key. Dropping it unsubscribes.
pub struct Subscription<T> {
    inbox: Arc<Inbox<T>>,
    /// Keeps the informer alive as long as someone listens.
    informer: Informer<T>,
}

impl<T: Object> Subscription<T> {
    pub(crate) fn new(informer: Informer<T>, inbox: Arc<Inbox<T>>) -> Self {
        Self { inbox, informer }
    }

    /// Everything that changed since the last call, at least one delta: waits if nothing has. `None` when the informer has
    /// ended and everything is taken. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Vec<Delta<T>>> {
        loop {
            let (deltas, closed) = self.inbox.take();
            if !deltas.is_empty() {
                return Some(deltas);
            }
            if closed {
                return None;
            }
            self.inbox.bell.notified().await;
        }
    }

    /// Everything that changed since the last call, without waiting.
    pub fn try_next(&mut self) -> Vec<Delta<T>> {
        self.inbox.take().0
    }

    /// Keys that changed and are not yet taken.
    pub fn pending(&self) -> usize {
        self.inbox.state.lock().fifo.len()
    }

    /// The informer whose changes these are.
    pub fn informer(&self) -> &Informer<T> {
        &self.informer
    }
}

/// Where the driver leaves changes for one subscription.
pub(crate) struct Inbox<T> {
    state: Mutex<State<T>>,
    bell: Notify,
}

struct State<T> {
    fifo: DeltaFifo<T>,
    closed: bool,
}

impl<T: Object> Inbox<T> {
    pub(crate) fn new(fifo: DeltaFifo<T>) -> Self {
        Self { state: Mutex::new(State { fifo, closed: false }), bell: Notify::new() }
    }

    pub(crate) fn deliver(&self, changes: &[Change<T>]) {
        let mut state = self.state.lock();
        changes.iter().for_each(|change| state.fifo.record(change));
        drop(state);
        self.bell.notify_one();
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.bell.notify_one();
    }

    fn take(&self) -> (Vec<Delta<T>>, bool) {
        let mut state = self.state.lock();
        (state.fifo.drain(), state.closed)
    }
}
