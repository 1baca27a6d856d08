//! The bound on requests in flight, with a bounded queue: requests beyond the queue are refused at once. It
//! applies to components in this process, and without priority and fairness to all requests.

use kstore_api::status::Status;
use kstore_registry::request::Action;
use kstore_storage::limits;
use kstore_storage::metrics::Metrics;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Message of the 429 for requests beyond the bound. Over HTTP it is the whole body.
pub const TOO_MANY: &str = "Too many requests, please try again later.";

/// Permits for reads and permits for writes.
pub(super) struct InFlight {
    reads: PermitPool,
    writes: PermitPool,
}

struct PermitPool {
    permits: Semaphore,
    queue_slots: Semaphore,
}

impl Default for InFlight {
    fn default() -> Self {
        Self::of(limits::READS_IN_FLIGHT, limits::WRITES_IN_FLIGHT)
    }
}

impl InFlight {
    /// Bounds for reads and for writes.
    pub(super) fn of(reads: usize, writes: usize) -> Self {
        Self { reads: PermitPool::of(reads), writes: PermitPool::of(writes) }
    }

    /// Waits for a permit, first come first served. Watches need none: what they buffer is bounded elsewhere.
    ///
    /// # Errors
    /// 429 if too many requests wait already, or no permit came free within [`limits::IN_FLIGHT_WAIT`].
    pub(super) async fn permit(
        &self,
        action: &Action,
        metrics: &Metrics,
    ) -> Result<Option<SemaphorePermit<'_>>, Status> {
        let queued = || metrics.queue(action.is_write());
        match action {
            Action::Watch(_) => Ok(None),
            Action::Get(_) | Action::List(_) => self.reads.permit(queued).await.map(Some),
            Action::Create(..)
            | Action::Update(..)
            | Action::Patch(..)
            | Action::Delete(..)
            | Action::DeleteCollection(..) => self.writes.permit(queued).await.map(Some),
        }
    }

    /// Waits for a permit for a transaction.
    pub(super) async fn write_permit(&self, metrics: &Metrics) -> Result<SemaphorePermit<'_>, Status> {
        self.writes.permit(|| metrics.queue(true)).await
    }
}

impl PermitPool {
    fn of(permits: usize) -> Self {
        let permits = permits.min(Semaphore::MAX_PERMITS);
        Self { permits: Semaphore::new(permits), queue_slots: Semaphore::new(limits::REQUESTS_WAITING) }
    }

    /// Waits for a permit. The value that `queued` returns counts the request as waiting while it lives.
    async fn permit<Q>(&self, queued: impl FnOnce() -> Q) -> Result<SemaphorePermit<'_>, Status> {
        // Freed permits are handed to the requests in the queue first, so this does not overtake them.
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        let _slot = self.queue_slots.try_acquire().map_err(|_| too_many())?;
        let _queued = queued();
        let permit = tokio::time::timeout(limits::IN_FLIGHT_WAIT, self.permits.acquire()).await;
        permit.ok().and_then(Result::ok).ok_or_else(too_many)
    }
}

fn too_many() -> Status {
    Status::too_many_requests(TOO_MANY, 1)
}
