//! Places for requests in flight, and a bounded queue in front of them: who cannot be served soon hears so at once.

use crate::limits;
use crate::metrics::Metrics;
use crate::request::Action;
use kstore_api::status::Status;
use tokio::sync::{Semaphore, SemaphorePermit};

/// What somebody hears who found no place. Over HTTP it is all that they hear.
pub(crate) const TOO_MANY: &str = "Too many requests, please try again later.";

/// Places for reads and places for writes.
pub(super) struct InFlight {
    reads: Lane,
    writes: Lane,
}

struct Lane {
    places: Semaphore,
    waiting: Semaphore,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { reads: Lane::of(limits::READS_IN_FLIGHT), writes: Lane::of(limits::WRITES_IN_FLIGHT) }
    }
}

impl InFlight {
    /// Waits for a place, first come first served. Watches take none: they are bounded by what they hold back.
    ///
    /// # Errors
    /// 429 if too many wait already, or none came free within [`limits::PLACE_WAIT`].
    pub(super) async fn place(
        &self,
        action: &Action,
        metrics: &Metrics,
    ) -> Result<Option<SemaphorePermit<'_>>, Status> {
        let queued = || metrics.queue(action.is_write());
        match action {
            Action::Watch(_) => Ok(None),
            Action::Get(_) | Action::List(_) => self.reads.place(queued).await.map(Some),
            Action::Create(..)
            | Action::Update(..)
            | Action::Patch(..)
            | Action::Delete(..)
            | Action::DeleteCollection(..) => self.writes.place(queued).await.map(Some),
        }
    }

    /// A place for a transaction.
    pub(super) async fn write_place(&self, metrics: &Metrics) -> Result<SemaphorePermit<'_>, Status> {
        self.writes.place(|| metrics.queue(true)).await
    }
}

impl Lane {
    fn of(places: usize) -> Self {
        Self { places: Semaphore::new(places), waiting: Semaphore::new(limits::REQUESTS_WAITING) }
    }

    /// `queued` counts who waits, for as long as what it gives lives.
    async fn place<Q>(&self, queued: impl FnOnce() -> Q) -> Result<SemaphorePermit<'_>, Status> {
        // Who waits already is given what comes free, so that nobody overtakes.
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let _turn = self.waiting.try_acquire().map_err(|_| too_many())?;
        let _queued = queued();
        let place = tokio::time::timeout(limits::PLACE_WAIT, self.places.acquire()).await;
        place.ok().and_then(Result::ok).ok_or_else(too_many)
    }
}

fn too_many() -> Status {
    Status::too_many_requests(TOO_MANY, 1)
}
