//! [`Elector`]: of several candidates, at most one works. Knows a lease as a record with a revision; where it is stored is a
//! [`LeaseStore`].
//!
//! Clocks of other machines are never compared: a lease has run out when *our* clock has moved by its duration since *we*
//! saw the record change. `leader/candidate` holds the rules; this file does the waiting.

mod candidate;
#[cfg(test)]
mod tests;

use std::{fmt, future::Future, pin::pin, time::Duration};

use jiff::Timestamp;
use kstore_nondet::Nondet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{
    Revision,
    limits::{LEASE_DURATION, LEASE_GRACE, LEASE_RETRY, RENEW_DEADLINE},
};
use candidate::{Candidate, Move};

/// What a lease says. The fields of a `coordination.k8s.io` Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Who leads; empty if the last leader gave it up.
    pub holder: String,
    /// How long it holds after a renewal.
    pub duration: Duration,
    /// When the holder took it.
    pub acquired: Timestamp,
    /// When the holder last renewed it.
    pub renewed: Timestamp,
    /// How often the holder changed.
    pub transitions: u32,
}

/// Why a lease could not be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LeaseError {
    /// Someone else wrote it.
    #[error("someone else wrote the lease")]
    Conflict,
    /// No answer, or a refusal.
    #[error("{0}")]
    Failed(String),
}

/// Where one lease is kept.
pub trait LeaseStore: Send + Sync + 'static {
    /// The lease, if there is one.
    fn get(&self) -> impl Future<Output = Result<Option<(LeaseRecord, Revision)>, LeaseError>> + Send;
    /// Stores the first record. A conflict if there is one.
    fn create(&self, record: &LeaseRecord) -> impl Future<Output = Result<Revision, LeaseError>> + Send;
    /// Replaces the record that is at revision `at`. A conflict if it is not.
    fn replace(
        &self,
        record: &LeaseRecord,
        at: Revision,
    ) -> impl Future<Output = Result<Revision, LeaseError>> + Send;
}

/// The time in which one candidate leads.
#[derive(Clone, Debug)]
pub struct Leadership {
    lost: CancellationToken,
    fence: Revision,
}

impl Leadership {
    /// Cancelled when the lease is lost or the elector stops. Work must then end within [`LEASE_GRACE`]; what has not is
    /// dropped.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// The revision at which the lease was taken: grows with each leader. A store that is told can refuse the late writes
    /// of an earlier one.
    pub fn fence(&self) -> Revision {
        self.fence
    }
}

/// A candidate for one lease.
pub struct Elector<S> {
    store: S,
    candidate: Candidate,
    nondet: Nondet,
}

impl<S: fmt::Debug> fmt::Debug for Elector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<S: LeaseStore> Elector<S> {
    /// A candidate that calls itself `identity`, which no other candidate may do.
    ///
    /// # Panics
    /// When the identity is empty: that means "nobody".
    pub fn new(store: S, identity: &str, nondet: &Nondet) -> Self {
        assert!(!identity.is_empty(), "an empty identity means that nobody leads");
        let nondet = Nondet { clock: nondet.clock, rng: nondet.rng.fork(identity) };
        Self { store, candidate: Candidate::new(identity), nondet }
    }

    /// Does `work` whenever this candidate leads, until `work` ends by itself or `stop` is cancelled; gives the lease up
    /// then. Work that lost the lease is told by [`Leadership::lost`], dropped after a grace that ends before the lease
    /// does, and begins anew when the candidate leads again.
    pub async fn run<F, Fut>(mut self, stop: CancellationToken, work: F)
    where
        F: Fn(Leadership) -> Fut + Send,
        Fut: Future<Output = ()> + Send,
    {
        while let Some(fence) = stop.run_until_cancelled(self.acquire()).await {
            tracing::info!(%fence, "leading");
            let leadership = Leadership { lost: stop.child_token(), fence };
            let finished = self.lead(leadership.clone(), work(leadership)).await;
            if finished || stop.is_cancelled() {
                self.release().await;
                return;
            }
            tracing::warn!("lost the lease");
        }
    }

    /// Tries until the lease is ours; gives back the revision that made it so.
    async fn acquire(&mut self) -> Revision {
        loop {
            if let Ok(Ok(Some(revision))) = timeout(RENEW_DEADLINE / 2, self.attempt()).await {
                return revision;
            }
            sleep(LEASE_RETRY.mul_f64(1.0 + 1.2 * self.nondet.rng.unit())).await;
        }
    }

    /// Works and renews. True if the work ended by itself; else it was told to end, or dropped.
    async fn lead(&mut self, leadership: Leadership, work: impl Future<Output = ()> + Send) -> bool {
        let mut work = pin!(work);
        let lost = leadership.lost.clone();
        let grace = tokio::select! {
            biased;
            () = &mut work => return true,
            () = lost.cancelled() => LEASE_GRACE,
            grace = self.keep() => grace,
        };
        lost.cancel();
        // Work that is not done by then is dropped on return.
        let _ = timeout(grace, work).await;
        false
    }

    /// Renews until that has failed for too long. Gives back how long the work may take to end.
    async fn keep(&mut self) -> Duration {
        let mut deadline = self.candidate.renewed_at().unwrap_or_else(Instant::now) + RENEW_DEADLINE;
        loop {
            if timeout_at(deadline, sleep(LEASE_RETRY)).await.is_err() {
                return LEASE_GRACE;
            }
            let began = Instant::now();
            match timeout_at(deadline, self.attempt()).await {
                Ok(Ok(Some(_))) => deadline = began + RENEW_DEADLINE,
                Ok(Ok(None)) => return Duration::ZERO,
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew the lease"),
                Err(_) => return LEASE_GRACE,
            }
        }
    }

    /// One attempt to hold the lease: its new revision, or none if someone else holds it.
    async fn attempt(&mut self) -> Result<Option<Revision>, LeaseError> {
        if !self.candidate.holds(Instant::now(), LEASE_DURATION) {
            let seen = self.store.get().await?;
            self.candidate.saw(seen, Instant::now());
        }
        let began = Instant::now();
        let written = match self.candidate.next(self.nondet.clock.now(), began) {
            Move::Wait => return Ok(None),
            Move::Create(record) => (self.store.create(&record).await, record),
            Move::Replace(record, at) => (self.store.replace(&record, at).await, record),
        };
        match written {
            (Ok(revision), record) => {
                self.candidate.wrote(record, revision, began);
                Ok(Some(revision))
            }
            (Err(error), _) => {
                // What is stored now is unknown; the next attempt reads it.
                self.candidate.forget();
                Err(error)
            }
        }
    }

    /// Tells the others that they need not wait. Without effect if the lease is not ours any more.
    async fn release(&mut self) {
        let now = self.nondet.clock.now();
        if let Some((record, at)) = self.candidate.farewell(now, Instant::now()) {
            // Best effort: otherwise the lease runs out by itself.
            let _ = timeout(LEASE_GRACE, self.store.replace(&record, at)).await;
        }
    }
}
