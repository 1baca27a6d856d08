//! [`Cluster::settled`]: waits until controllers, scheduler and nodes have nothing to do. Not a wait for an object: see `wait`.

mod busy;

use crate::Cluster;
use crate::limits::{QUIET, QUIET_REAL, WAIT, WAIT_REAL};
use busy::Busy;
use kstore_client::{ApiError, Gvr, ListParams};
use kstore_store::{KeyRange, WatchRequest, Watcher};
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// Keys of objects that are written while a cluster rests: heartbeats, and events, which may come long after their causes.
const RESTLESS: [&[u8]; 2] = [b"/registry/leases/", b"/registry/events/"];

/// The most pauses between two looks at a cluster that is busy without writing.
const MOST_PAUSES: u32 = 16;

/// A cluster that did not come to rest. Its text names what was still busy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// Something was to be done all the time.
    #[error("the cluster did not come to rest within {limit:?} of its time; busy: {}", list(.busy))]
    Busy {
        /// How long it was waited.
        limit: Duration,
        /// What was busy at the end, a part of the cluster each: `workqueue replicaset: 2 ready keys`, `node-0: pod default/web-1 is
        /// starting`.
        busy: Vec<String>,
    },
    /// The objects of the cluster cannot be read.
    #[error("the objects of the cluster cannot be read: {0}")]
    Unreadable(#[from] ApiError),
    /// The cluster has ended.
    #[error("the cluster has ended")]
    Ended,
}

fn list(busy: &[String]) -> impl fmt::Display {
    if busy.is_empty() { "objects are written again and again".to_owned() } else { busy.join("; ") }
}

impl Cluster {
    /// Waits until nothing is left to do: for a second of virtual time, or a tenth of one in real time, no object is written but heartbeats
    /// and events; the work queues of all controllers are empty and their caches are filled; the scheduler has judged every pod; and
    /// the nodes have started, or ended, every pod that is bound to a ready one. It waits for half an hour in virtual time, for
    /// a minute in real time.
    ///
    /// What only time brings about is nothing to do: retries after a back-off, CrashLoopBackOff, grace periods of evictions, the life of
    /// events. [`Self::advance`] lets such times pass. Clients outside of the cluster, such as the tested operator, count only by
    /// what they write.
    ///
    /// # Errors
    /// If something is still busy at the end of the time; it says what.
    pub async fn settled(&self) -> Result<(), SettleError> {
        let (quiet, limit) = match self.has_virtual_time() {
            true => (QUIET, WAIT),
            false => (QUIET_REAL, WAIT_REAL),
        };
        let end = Instant::now() + limit;
        let (mut writes, mut pause) = (self.writes()?, quiet);
        loop {
            let is_quiet = self.is_quiet(&mut writes, pause, end).await?;
            let busy = self.busy().await?;
            // What is busy without a write may be so for long: looking at all objects costs more than looking later.
            pause = if is_quiet { (2 * pause).min(MOST_PAUSES * quiet) } else { quiet };
            if is_quiet && busy.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(SettleError::Busy { limit, busy });
            }
        }
    }

    fn writes(&self) -> Result<Watcher, SettleError> {
        let store = &self.parts.store;
        let request = WatchRequest::new(KeyRange::all()).from(store.revision().next());
        store.watch(request).map_err(|_| SettleError::Ended)
    }

    /// Waits until nothing was written for a while; false if `end` comes first.
    async fn is_quiet(
        &self,
        writes: &mut Watcher,
        quiet: Duration,
        end: Instant,
    ) -> Result<bool, SettleError> {
        let mut since = Instant::now();
        loop {
            let until = since + quiet;
            match tokio::time::timeout_at(until.min(end), writes.next()).await {
                Err(_) => return Ok(until <= end),
                Ok(Some(Ok(batch))) => {
                    let counts = |key: &[u8]| !RESTLESS.iter().any(|prefix| key.starts_with(prefix));
                    if batch.events.iter().any(|event| counts(event.kv.key())) {
                        since = Instant::now();
                    }
                    // Writes without a pause leave no time at which the bound is looked at.
                    if Instant::now() >= end {
                        return Ok(false);
                    }
                }
                // Compaction or a fall behind: the next one begins now.
                Ok(Some(Err(_))) => *writes = self.writes()?,
                Ok(None) => return Err(SettleError::Ended),
            }
        }
    }

    /// What has something to do now.
    async fn busy(&self) -> Result<Vec<String>, SettleError> {
        let builder = &self.parts.builder;
        let mut page = String::new();
        self.parts.metrics.render(&mut page);
        let mut busy = Busy::default();
        if builder.has_components() && self.parts.metrics.is_empty() {
            busy.add_part("controllers, scheduler or nodes have not started".to_owned());
        }
        busy.add_components(&page);
        if builder.has_scheduler() || builder.node_count() > 0 {
            let list = async |plural: &'static str| {
                let api = self.client().dynamic(Gvr::new("", "v1", plural));
                api.list("", &ListParams::default()).await.map(|(objects, _)| objects)
            };
            let (pods, nodes) = (list("pods").await?, list("nodes").await?);
            if builder.has_scheduler() {
                busy.add_unscheduled(&pods);
            }
            busy.add_nodes(builder.node_count(), &nodes, &pods);
        }
        Ok(busy.into_reasons())
    }
}
