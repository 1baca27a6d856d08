//! [`Cluster::settled`]: waits until controllers, scheduler and nodes have no pending work. `wait` waits for the state of an object.

mod busy;

use crate::Cluster;
use crate::limits::{QUIET, QUIET_REAL, WAIT, WAIT_REAL};
use busy::BusyReasons;
use kstore_client::{ApiError, Gvr, ListParams};
use kstore_store::{KeyRange, WatchRequest, Watcher};
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// Key prefixes of objects whose writes do not count as work: heartbeats, and events, which may follow long after their causes.
const RESTLESS: [&[u8]; 2] = [b"/registry/leases/", b"/registry/events/"];

/// Longest interval between two checks of a cluster that is busy without writing, in multiples of the quiet time.
const MOST_PAUSES: u32 = 16;

/// Why a cluster did not settle. The error text names the busy components.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// Some component was busy until the time limit.
    #[error("the cluster did not settle within {limit:?} of its time; busy: {}", list(.busy))]
    Busy {
        /// The time limit, by the cluster's clock.
        limit: Duration,
        /// Descriptions of the busy components at the end, such as `workqueue replicaset: 2 ready keys` or `node-0: pod default/web-1 is
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
    if busy.is_empty() { "objects are still being written".to_owned() } else { busy.join("; ") }
}

impl Cluster {
    /// Waits until the cluster has no pending work. The cluster is settled when:
    ///
    /// - no object except heartbeats and events was written for a second of virtual time, or for a tenth of a second in real time;
    /// - the work queues of all controllers are empty and their caches are filled;
    /// - the scheduler has bound every pod or marked it as unschedulable;
    /// - every pod that is bound to a ready node has started, or has ended if it was deleted.
    ///
    /// The time limit is half an hour in virtual time and a minute in real time. Work that becomes due later does not count: retries after
    /// a back-off, CrashLoopBackOff, grace periods of evictions, expiry of events. [`Self::advance`] lets such times pass. Clients outside
    /// of the cluster, such as the tested operator, count only by their writes.
    ///
    /// # Errors
    /// A component is still busy at the time limit; the error names it.
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
            // A component that is busy without writing may be so for long, and each check reads all pods and nodes: check less often.
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

    /// Waits until nothing was written for `quiet`; returns false if `end` comes first.
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
                    // With continuous writes, the timeout above never fires.
                    if Instant::now() >= end {
                        return Ok(false);
                    }
                }
                // The watch was compacted or fell behind: a new one starts at the current revision.
                Ok(Some(Err(_))) => *writes = self.writes()?,
                Ok(None) => return Err(SettleError::Ended),
            }
        }
    }

    /// Descriptions of the components that have pending work.
    async fn busy(&self) -> Result<Vec<String>, SettleError> {
        let builder = &self.parts.builder;
        let mut busy = BusyReasons::default();
        if builder.has_components() && self.parts.metrics.is_empty() {
            busy.add_part("controllers, scheduler or nodes have not started".to_owned());
        }
        self.parts.metrics.pending().iter().for_each(|work| busy.add_part(work.to_string()));
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
