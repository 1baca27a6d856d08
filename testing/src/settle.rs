//! [`Cluster::settled`]: waits until controllers, scheduler and nodes have no pending work. `wait` waits for the state of an object.

use crate::Cluster;
use crate::limits::{QUIET, QUIET_REAL, WAIT, WAIT_REAL};
use kstore_client::ApiError;
use kstore_cluster::Ended;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

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

impl From<Ended> for SettleError {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
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
    /// The time limit is half an hour in virtual time and a minute in real time. Work that becomes due later does not count: retries after a
    /// back-off, CrashLoopBackOff, grace periods of evictions, expiry of events. [`Self::advance`] lets such times pass. Clients outside of
    /// the cluster, such as the tested operator, count only by their writes.
    ///
    /// # Errors
    /// A component is still busy at the time limit; the error names it.
    pub async fn settled(&self) -> Result<(), SettleError> {
        let (quiet, limit) = match self.has_virtual_time() {
            true => (QUIET, WAIT),
            false => (QUIET_REAL, WAIT_REAL),
        };
        let end = Instant::now() + limit;
        let (mut writes, mut pause) = (self.plane.writes()?, quiet);
        loop {
            let is_quiet = writes.is_quiet(pause, end).await?;
            let busy = self.plane.pending_work().await?.into_reasons();
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
}
