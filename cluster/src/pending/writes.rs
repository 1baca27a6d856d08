//! [`WriteMonitor`]: whether objects are still being written.

use kstore_store::{KeyRange, Store, WatchRequest, Watcher};
use std::time::Duration;
use tokio::time::Instant;

/// Key prefixes of objects whose writes do not count as work: heartbeats, and events, which may follow long after their causes.
const RESTLESS: [&[u8]; 2] = [b"/registry/leases/", b"/registry/events/"];

/// The storage of a control plane is closed, or outside of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster has ended")]
pub struct Ended;

/// Observes the writes of a control plane, except heartbeats and events. Obtained by
/// [`ControlPlane::writes`](crate::ControlPlane::writes).
pub struct WriteMonitor {
    store: Store,
    writes: Watcher,
}

impl WriteMonitor {
    pub(super) fn of(store: &Store) -> Result<Self, Ended> {
        Ok(Self { store: store.clone(), writes: watch(store)? })
    }

    /// Waits until nothing was written for `quiet`, by tokio's clock; returns false if `end` comes first.
    ///
    /// # Errors
    /// The store has closed.
    pub async fn is_quiet(&mut self, quiet: Duration, end: Instant) -> Result<bool, Ended> {
        let mut since = Instant::now();
        loop {
            let until = since + quiet;
            match tokio::time::timeout_at(until.min(end), self.writes.next()).await {
                Err(_) => return Ok(until <= end),
                Ok(Some(Ok(batch))) => {
                    let counts = |key: &[u8]| !RESTLESS.iter().any(|prefix| key.starts_with(prefix));
                    if batch.events.iter().any(|event| counts(event.kv.key())) {
                        since = Instant::now();
                    }
                    // With continuous writes, the timeout above never fires.
                    if Instant::now() >= end {
                        return Ok(false);
                    }
                }
                // The watch was compacted or fell behind: a new one starts at the current revision.
                Ok(Some(Err(_))) => self.writes = watch(&self.store)?,
                Ok(None) => return Err(Ended),
            }
        }
    }
}

fn watch(store: &Store) -> Result<Watcher, Ended> {
    let request = WatchRequest::new(KeyRange::all()).from(store.revision().next());
    store.watch(request).map_err(|_| Ended)
}
