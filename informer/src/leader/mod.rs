//! [`Elector`]: leader election, at most one active candidate. A lease is a record with a revision; the trait
//! [`LeaseStore`] stores it. The protocol is that of the Kubernetes components, so that candidates of both
//! kinds can share a lease.
//!
//! Clocks of other machines are never compared. A lease has expired when the local clock has advanced by its
//! duration since the candidate saw the record change. `leader/candidate` has the rules; this file waits and
//! sends requests. No clock can guarantee that a late write of an old leader is not still in transit; the
//! [`Fence`] handles that. It also covers a lease that was deleted by hand, after which another candidate may
//! start at once.

mod candidate;
mod election;
mod lease;
mod options;
#[cfg(test)]
mod tests;
mod watchdog;

use crate::limits::RELEASE_TRIES;
use crate::metrics::Registry;
use crate::{Environment, Revision};
use candidate::{Candidate, LeaseAction};
pub use election::Election;
use jiff::Timestamp;
use kstore_nondet::Nondet;
use lease::micros;
pub use lease::{Fence, LeaseError, LeaseRecord, LeaseStore};
pub use options::{ElectorOptions, OptionsError};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use watchdog::Watch;
pub use watchdog::Watchdog;

/// One term of leadership of this candidate.
#[derive(Clone, Debug)]
pub struct Leadership {
    lost: CancellationToken,
    fence: Fence,
}

impl Leadership {
    /// Cancelled when the lease is lost or the elector stops. The work must then end within
    /// [`ElectorOptions::grace`], or it is dropped. The work itself must end the tasks that it spawned: they
    /// are not dropped with it.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Fencing token of this term, unique among all terms. A store that gets it with each write can refuse
    /// late writes of a deposed leader.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }
}

/// A candidate for one lease.
pub struct Elector<S> {
    store: S,
    options: ElectorOptions,
    candidate: Candidate,
    election: Election,
    watchdog: Option<Watchdog>,
    nondet: Nondet,
}

impl<S: fmt::Debug> fmt::Debug for Elector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Result of an attempt to acquire or renew the lease.
enum AttemptResult {
    Held,
    /// Another candidate holds the lease.
    Waiting,
    /// This candidate held the lease and has lost it.
    Lost,
}

impl<S: LeaseStore> Elector<S> {
    /// A candidate with default durations and the name `identity`, which must be unique among the candidates.
    ///
    /// # Panics
    /// When the identity is empty: an empty holder means that the lease is free.
    pub fn new(store: S, identity: &str, environment: impl Into<Environment>) -> Self {
        Self::with(store, ElectorOptions::new(identity), environment)
            .expect("the default durations are valid; the identity must not be empty")
    }

    /// A candidate with these options.
    ///
    /// # Errors
    /// When the durations are inconsistent.
    pub fn with(
        store: S,
        mut options: ElectorOptions,
        environment: impl Into<Environment>,
    ) -> Result<Self, OptionsError> {
        options.check()?;
        if options.name.is_empty() {
            store.name().clone_into(&mut options.name);
        }
        Ok(Self::unchecked(store, options, &environment.into().into_nondet()))
    }

    fn unchecked(store: S, options: ElectorOptions, nondet: &Nondet) -> Self {
        let nondet = Nondet { clock: nondet.clock, rng: nondet.rng.fork(&options.identity) };
        let candidate = Candidate::new(&options);
        Self { store, candidate, election: Election::new(&options), watchdog: None, nondet, options }
    }

    /// Calls `observer` with each new leader that this candidate observes, itself included. The call happens
    /// between two requests and must not block.
    #[must_use]
    pub fn on_new_leader(self, observer: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.election.on_new_leader(observer);
        self
    }

    /// Adds a watchdog for work that blocks its executor and so disables the deadlines of this crate.
    #[must_use]
    pub fn watchdog(self, watchdog: Watchdog) -> Self {
        Self { watchdog: Some(watchdog), ..self }
    }

    /// Exposes in `registry` whether this candidate leads, as long as the elector or one of its [`Election`]s
    /// exists.
    #[must_use]
    pub fn metrics(self, registry: &Registry) -> Self {
        self.election.metrics(registry);
        self
    }

    /// A shared handle to this candidate's view of the election.
    pub fn election(&self) -> Election {
        self.election.clone()
    }

    /// Runs `work` whenever this candidate leads, until `work` returns or `stop` is cancelled. Then, after
    /// the work has ended, it releases the lease. When the lease is lost, [`Leadership::lost`] is cancelled
    /// and the work is dropped after a grace that ends before the lease does. The work starts anew when the
    /// candidate leads again.
    ///
    /// The work must not block its thread: renewals happen on the same task (see [`Watchdog`]). Informers may
    /// run before `run`, so that a new leader has warm caches; queues belong into the work.
    pub async fn run<F, Fut>(mut self, stop: CancellationToken, work: F)
    where
        F: Fn(Leadership) -> Fut + Send,
        Fut: Future<Output = ()> + Send,
    {
        while let Some(fence) = stop.run_until_cancelled(self.acquire()).await {
            tracing::info!(name = self.options.name, identity = self.options.identity, %fence, "became leader");
            let leadership = Leadership { lost: stop.child_token(), fence };
            let leading = self.election.lead();
            let finished = self.lead(leadership.clone(), work(leadership)).await;
            drop(leading);
            if finished || stop.is_cancelled() {
                break;
            }
            tracing::warn!(name = self.options.name, identity = self.options.identity, "lost leadership");
            self.candidate.resign();
        }
        self.release().await;
    }

    /// Retries until the lease is acquired; returns the fencing token of the new term.
    async fn acquire(&mut self) -> Fence {
        loop {
            match self.attempt().await {
                Ok(AttemptResult::Held) => return self.fence(),
                Ok(AttemptResult::Waiting | AttemptResult::Lost) => {}
                Err(error) => tracing::debug!(%error, "cannot acquire the lease"),
            }
            sleep(self.options.pause(self.nondet.rng.unit())).await;
        }
    }

    fn fence(&self) -> Fence {
        Fence {
            namespace: self.store.namespace().to_owned(),
            name: self.store.name().to_owned(),
            holder: self.options.identity.clone(),
            transitions: self.candidate.term().expect("the holder of the lease has a term").transitions,
        }
    }

    /// Runs the work and renews the lease. Returns whether the work ended by itself, not by a lost lease or a
    /// stop.
    async fn lead(&mut self, leadership: Leadership, work: impl Future<Output = ()> + Send) -> bool {
        // Created before the work is pinned, so that the watchdog outlives the work.
        let watch = self.watch();
        let mut work = pin!(work);
        let lost = leadership.lost.clone();
        let grace = tokio::select! {
            biased;
            () = &mut work => return true,
            () = lost.cancelled() => self.options.grace(),
            grace = self.keep(watch.as_ref()) => grace,
        };
        lost.cancel();
        // Unfinished work is dropped on return.
        let _ = timeout(grace, work).await;
        false
    }

    fn watch(&self) -> Option<Watch> {
        self.watchdog.as_ref().map(|dog| dog.watch(&self.options.name, self.until_bite()))
    }

    fn until_bite(&self) -> Duration {
        let renewed = self.candidate.renewed_at().unwrap_or_else(Instant::now);
        (renewed + self.options.bite()).saturating_duration_since(Instant::now())
    }

    /// Renews the lease until renewal has failed for too long. Returns the time that the work has left to
    /// end.
    async fn keep(&mut self, watch: Option<&Watch>) -> Duration {
        let mut deadline = self.candidate.renewed_at().unwrap_or_else(Instant::now) + self.options.renew;
        loop {
            if timeout_at(deadline, sleep(self.options.retry)).await.is_err() {
                return self.options.grace();
            }
            let began = Instant::now();
            match timeout_at(deadline, self.attempt()).await {
                Ok(Ok(AttemptResult::Held)) => {
                    deadline = began + self.options.renew;
                    if let Some(watch) = watch {
                        watch.renewed(self.until_bite());
                    }
                }
                Ok(Ok(AttemptResult::Waiting | AttemptResult::Lost)) => return Duration::ZERO,
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew the lease"),
                Err(_) => return self.options.grace(),
            }
        }
    }

    /// Attempts once to acquire or renew the lease. A holder renews without a read first. If that fails, or
    /// the lease is not known, the attempt reads the lease and tries again.
    async fn attempt(&mut self) -> Result<AttemptResult, LeaseError> {
        if self.candidate.holds(Instant::now()) {
            match self.step().await {
                Err(error) => tracing::debug!(%error, "the lease must be read again"),
                done => return done,
            }
        }
        self.read_lease().await?;
        self.election.slow_path(self.candidate.term().is_some());
        self.step().await
    }

    /// Executes the next action for the lease as last seen.
    async fn step(&mut self) -> Result<AttemptResult, LeaseError> {
        let began = Instant::now();
        let (record, at) = match self.candidate.next(self.now(), began) {
            LeaseAction::Wait => return Ok(AttemptResult::Waiting),
            LeaseAction::Lost => return Ok(AttemptResult::Lost),
            LeaseAction::Create(record) => (record, None),
            LeaseAction::Replace(record, at) => (record, Some(at)),
        };
        self.write(record, at, began).await.map(|()| AttemptResult::Held)
    }

    /// Reads the lease.
    async fn read_lease(&mut self) -> Result<(), LeaseError> {
        let stored = self.answer(self.store.get()).await?;
        self.candidate.saw(stored, Instant::now());
        self.election.saw(self.candidate.leader());
        Ok(())
    }

    /// Writes a record that makes this candidate the holder.
    async fn write(
        &mut self,
        record: LeaseRecord,
        at: Option<Revision>,
        began: Instant,
    ) -> Result<(), LeaseError> {
        self.candidate.attempts(&record);
        // The stored record is unknown until the response arrives, also if this future is dropped before.
        self.candidate.forget();
        let written = match at {
            None => self.answer(self.store.create(&record)).await,
            Some(at) => self.answer(self.store.replace(&record, at)).await,
        };
        self.candidate.wrote(record, written?, began);
        self.election.renewed(began, self.candidate.leader());
        Ok(())
    }

    /// The store's response, or an error after the request timeout.
    async fn answer<T>(&self, call: impl Future<Output = Result<T, LeaseError>>) -> Result<T, LeaseError> {
        let late = |_| LeaseError::Failed("request timed out".into());
        timeout(self.options.request(), call).await.map_err(late)?
    }

    fn now(&self) -> Timestamp {
        micros(self.nondet.clock.now())
    }

    /// Releases the lease, so that other candidates need not wait for its expiry. Without effect if another
    /// candidate holds it. An aborted renewal may still arrive; it has an older revision, so the store
    /// refuses it after this write.
    async fn release(&mut self) {
        // Best effort: otherwise the lease expires by itself.
        let _ = timeout(self.options.request(), self.try_release()).await;
    }

    async fn try_release(&mut self) -> Result<(), LeaseError> {
        for _ in 0..RELEASE_TRIES {
            if !self.candidate.may_hold() {
                break;
            }
            if self.candidate.is_uncertain() {
                self.read_lease().await?;
            }
            let Some((record, at)) = self.candidate.release_record(self.now()) else { break };
            match self.store.replace(&record, at).await {
                Err(LeaseError::Conflict) => self.candidate.forget(),
                outcome => return outcome.map(|_| self.election.saw(None)),
            }
        }
        Ok(())
    }
}
